package vmtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// metaPackage names the newest cloud kernel of the machine's Debian release:
// small, and with WireGuard and virtio as modules.
const metaPackage = "linux-image-cloud-amd64"

// Kernel is an unpacked Debian kernel.
type Kernel struct {
	// Version is what uname -r says in the guest.
	Version string
	// Image is the file that boots.
	Image string
	// Modules is the directory with modules.dep.
	Modules string

	deps map[string]module
}

type module struct {
	file  string   // below Modules
	needs []string // files, nearest first
}

// FetchKernel returns the kernel in the cache; the first call downloads it.
func FetchKernel(ctx context.Context) (*Kernel, error) {
	dir, err := cached(ctx, "kernel", unpackKernel)
	if err != nil {
		return nil, err
	}
	return openKernel(dir)
}

func unpackKernel(ctx context.Context, dir string) error {
	if err := downloadKernel(ctx, dir); err != nil {
		return err
	}
	debs, err := filepath.Glob(filepath.Join(dir, "*.deb"))
	if err != nil || len(debs) != 1 {
		return fmt.Errorf("downloaded %d packages, want 1", len(debs))
	}
	if _, err := command(ctx, dir, "dpkg-deb", "-x", debs[0], "."); err != nil {
		return err
	}
	k, err := findKernel(dir)
	if err != nil {
		return err
	}
	if _, err := command(ctx, dir, "depmod", "-b", dir, k.Version); err != nil {
		return err
	}
	return os.Remove(debs[0])
}

// downloadKernel gets the package, once more after a refresh of the package
// lists: those may name one that is no longer there.
func downloadKernel(ctx context.Context, dir string) error {
	for refreshed := false; ; refreshed = true {
		name, err := resolveKernel(ctx, dir)
		if err != nil {
			return err
		}
		_, err = command(ctx, dir, "apt-get", "-q", "-o", "APT::Sandbox::User=root", "-o", "Acquire::Retries=3", "download", name)
		if err == nil || refreshed {
			return err
		}
		if _, err := command(ctx, dir, "apt-get", "-q", "update"); err != nil {
			return err
		}
	}
}

// resolveKernel asks which package the meta package stands for, after one
// refresh of the package lists if they are empty.
func resolveKernel(ctx context.Context, dir string) (string, error) {
	for refreshed := false; ; refreshed = true {
		out, err := command(ctx, dir, "apt-cache", "depends", "--important", metaPackage)
		if err == nil {
			for line := range strings.Lines(out) {
				if _, name, ok := strings.Cut(line, "Depends: "); ok && strings.HasPrefix(name, "linux-image-") {
					return strings.TrimSpace(name), nil
				}
			}
			err = errors.New("apt-cache knows no kernel behind " + metaPackage)
		}
		if refreshed {
			return "", err
		}
		if _, err := command(ctx, dir, "apt-get", "-q", "update"); err != nil {
			return "", err
		}
	}
}

func findKernel(dir string) (*Kernel, error) {
	images, err := filepath.Glob(filepath.Join(dir, "boot", "vmlinuz-*"))
	if err != nil || len(images) != 1 {
		return nil, fmt.Errorf("%s holds %d kernels, want 1", dir, len(images))
	}
	version := strings.TrimPrefix(filepath.Base(images[0]), "vmlinuz-")
	modules := filepath.Join(dir, "lib", "modules", version)
	if _, err := os.Stat(modules); errors.Is(err, os.ErrNotExist) {
		modules = filepath.Join(dir, "usr", "lib", "modules", version)
	}
	return &Kernel{Version: version, Image: images[0], Modules: modules}, nil
}

func openKernel(dir string) (*Kernel, error) {
	k, err := findKernel(dir)
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(filepath.Join(k.Modules, "modules.dep"))
	if err != nil {
		return nil, fmt.Errorf("modules of kernel %s: %w", k.Version, err)
	}
	k.deps = parseDeps(string(text))
	return k, nil
}

// parseDeps reads modules.dep, lines like
// "kernel/a/b.ko: kernel/c/near.ko kernel/d/deep.ko".
func parseDeps(text string) map[string]module {
	deps := make(map[string]module)
	for line := range strings.Lines(text) {
		if file, needs, ok := strings.Cut(line, ":"); ok {
			deps[moduleName(file)] = module{file, strings.Fields(needs)}
		}
	}
	return deps
}

// moduleName makes "udp_tunnel" of "kernel/net/ipv4/udp-tunnel.ko.xz".
func moduleName(file string) string {
	name, _, _ := strings.Cut(filepath.Base(file), ".")
	return strings.ReplaceAll(name, "-", "_")
}

// Load lists the files of the named modules and of all that they need, in an
// order in which they can be inserted. A name without a file is built in.
func (k *Kernel) Load(names ...string) []string {
	var files []string
	add := func(file string) {
		if !slices.Contains(files, file) {
			files = append(files, file)
		}
	}
	for _, name := range names {
		m, ok := k.deps[strings.ReplaceAll(name, "-", "_")]
		if !ok {
			continue
		}
		for _, need := range slices.Backward(m.needs) {
			add(need)
		}
		add(m.file)
	}
	return files
}

// read returns the content of one module, unpacked.
func (k *Kernel) read(ctx context.Context, file string) (string, error) {
	full := filepath.Join(k.Modules, file)
	if strings.HasSuffix(file, ".xz") {
		return command(ctx, "", "xz", "-dc", full)
	}
	f, err := os.Open(full)
	if err != nil {
		return "", err
	}
	defer f.Close()
	text, err := io.ReadAll(f)
	return string(text), err
}
