package vmtest

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// rootModules are what a guest needs to mount the root file system.
var rootModules = []string{"virtio_pci", "virtio_blk", "ext4"}

// rootPackages make a minimal Debian one that boots with systemd, and has tor.
const rootPackages = "systemd,systemd-sysv,udev,kmod,iproute2,tor"

// rootSize of the image, most of it a hole: daemons warn where 256 MiB are left for the
// event log, and scripts install packages twice.
const rootSize = "2G"

// FetchRootfs returns an ext4 image of a minimal Debian with systemd, in the
// cache; the first call makes it. It needs root.
func FetchRootfs(ctx context.Context) (string, error) {
	dir, err := rootfs(ctx)
	return filepath.Join(dir, "root.ext4"), err
}

// FetchTree returns the directory that FetchRootfs' image was made of, to be
// copied and not to be changed.
func FetchTree(ctx context.Context) (string, error) {
	dir, err := rootfs(ctx)
	return filepath.Join(dir, "tree"), err
}

func rootfs(ctx context.Context) (string, error) {
	// Another list of packages is another tree, another size another image.
	return cached(ctx, fmt.Sprintf("debian-%08x", crc32.ChecksumIEEE([]byte(rootPackages+" "+rootSize))), bootstrap)
}

func bootstrap(ctx context.Context, dir string) error {
	suite, mirror, err := release(ctx)
	if err != nil {
		return err
	}
	tree := filepath.Join(dir, "tree")
	if _, err := command(ctx, dir, "debootstrap", "--variant=minbase", "--include="+rootPackages, suite, tree, mirror); err != nil {
		return err
	}
	for _, bulk := range []string{"var/cache/apt", "var/lib/apt/lists", "usr/share/doc", "usr/share/man", "usr/share/locale", "usr/share/info"} {
		if err := os.RemoveAll(filepath.Join(tree, bulk)); err != nil {
			return err
		}
	}
	image := filepath.Join(dir, "root.ext4")
	_, err = command(ctx, dir, "mkfs.ext4", "-q", "-d", tree, "-E", "root_owner=0:0", image, rootSize)
	return err
}

// release is this machine's Debian release and where it gets its packages.
func release(ctx context.Context) (suite, mirror string, err error) {
	text, err := os.ReadFile("/etc/os-release")
	if err != nil {
		return "", "", err
	}
	for line := range strings.Lines(string(text)) {
		if name, ok := strings.CutPrefix(line, "VERSION_CODENAME="); ok {
			suite = strings.Trim(strings.TrimSpace(name), `"`)
		}
	}
	if suite == "" {
		return "", "", errors.New("/etc/os-release has no VERSION_CODENAME")
	}
	out, err := command(ctx, "", "apt-get", "indextargets", "--format", "$(CODENAME) $(COMPONENT) $(REPO_URI)", "Created-By: Packages")
	if err != nil {
		return "", "", err
	}
	for line := range strings.Lines(out) {
		if f := strings.Fields(line); len(f) == 3 && f[0] == suite && f[1] == "main" {
			return suite, f[2], nil
		}
	}
	return "", "", fmt.Errorf("apt has no source of %s main", suite)
}

// SystemdGuest is a guest that boots the image with systemd and runs the
// script there as root, after basic.target; its exit status is the verdict.
// files are put into the root file system first. The named modules lie in
// /usr/lib/modules: the kernel loads them when they are asked for.
func SystemdGuest(ctx context.Context, k *Kernel, image string, modules []string, script string, files []File) (Guest, error) {
	g := Guest{Kernel: k, Disk: image, Modules: rootModules, Memory: 1024, Script: handOver}
	files = append(files,
		File{Path: "/etc/systemd/system/vmtest.target", Mode: 0o644, Text: vmtestTarget},
		File{Path: "/etc/systemd/system/vmtest.service", Mode: 0o644, Text: vmtestService},
		File{Path: "/etc/systemd/system/default.target", Mode: fs.ModeSymlink, Text: "vmtest.target"},
		File{Path: "/vmtest/run", Mode: 0o755, Text: vmtestRun},
		File{Path: "/vmtest/script", Mode: 0o644, Text: script})
	tree, err := k.tree(ctx, modules)
	if err != nil {
		return Guest{}, err
	}
	for _, f := range append(files, tree...) {
		f.Path = "/overlay" + f.Path
		g.Files = append(g.Files, f)
	}
	return g, nil
}

const handOver = `set -e
mount -t ext4 /dev/vda /new
cp -a /overlay/. /new/
for m in proc sys dev run; do mount -o move /$m /new/$m; done
exec switch_root /new /usr/lib/systemd/systemd --show-status=false --log-level=warning
`

const vmtestTarget = `[Unit]
Requires=basic.target
Wants=vmtest.service
After=basic.target
AllowIsolate=yes
`

const vmtestService = `[Unit]
Requires=basic.target
After=basic.target
[Service]
Type=oneshot
TimeoutStartSec=1180
ExecStart=/vmtest/run
StandardOutput=tty
StandardError=tty
TTYPath=/dev/ttyS0
`

const vmtestRun = `#!/bin/sh
sh /vmtest/script
rc=$?
echo
echo "VMTEST rc=$rc"
sync
systemctl poweroff -ff
`

// tree is what modprobe needs to load the named modules.
func (k *Kernel) tree(ctx context.Context, names []string) ([]File, error) {
	index, err := filepath.Glob(filepath.Join(k.Modules, "modules.*"))
	if err != nil {
		return nil, err
	}
	base := "/usr/lib/modules/" + k.Version + "/"
	var files []File
	for _, name := range index {
		files = append(files, File{Path: base + filepath.Base(name), Mode: 0o644, Source: name})
	}
	for _, name := range k.Load(names...) {
		files = append(files, File{Path: base + name, Mode: 0o644, Source: filepath.Join(k.Modules, name)})
	}
	return files, ctx.Err()
}
