package deb

import (
	"context"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/skein-project/skein/internal/require"
	"github.com/skein-project/skein/internal/vmtest"
)

// debian is a Debian of its own below a directory of this machine.
type debian struct {
	t    *testing.T
	root string
}

func newDebian(t *testing.T) *debian {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), fetching)
	defer cancel()
	tree, err := vmtest.FetchTree(ctx)
	if err != nil {
		t.Fatal(err)
	}
	d := &debian{t, filepath.Join(t.TempDir(), "debian")}
	must(t, "", nil, "cp", "-a", "--reflink=auto", tree, d.root)
	proc := filepath.Join(d.root, "proc")
	if err := syscall.Mount("proc", proc, "proc", 0, ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(proc, syscall.MNT_DETACH) })
	return d
}

// run runs a command of that Debian, where it has to succeed.
func (d *debian) run(args ...string) string {
	d.t.Helper()
	return must(d.t, "", []string{"DEBIAN_FRONTEND=noninteractive", "LC_ALL=C", "PATH=/usr/sbin:/usr/bin:/sbin:/bin"}, append([]string{"chroot", d.root}, args...)...)
}

// dpkg installs a package; nobody answers questions.
func (d *debian) dpkg(deb string, options ...string) {
	d.t.Helper()
	inside := "/tmp/" + filepath.Base(deb)
	must(d.t, "", nil, "cp", deb, d.root+inside)
	d.run(slices.Concat([]string{"dpkg"}, options, []string{"-i", inside})...)
	if err := os.Remove(d.root + inside); err != nil {
		d.t.Fatal(err)
	}
}

// ignored says which files do not matter: what dpkg and the programs that manage users keep.
func ignored(path string) bool {
	for _, prefix := range []string{"/proc", "/var/lib/dpkg", "/var/log", "/var/cache", "/etc/.pwd.lock"} {
		if path == prefix || strings.HasPrefix(path, prefix+"/") {
			return true
		}
	}
	return slices.Contains([]string{"/etc/passwd-", "/etc/group-", "/etc/shadow-", "/etc/gshadow-", "/etc/subuid-", "/etc/subgid-"}, path)
}

// files are all paths with what each is; of the lists of users, the content.
func (d *debian) files() map[string]string {
	d.t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(d.root, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := strings.TrimPrefix(path, d.root)
		if ignored(name) {
			if e.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		all[name] = info.Mode().String()
		if name == "/etc/passwd" || name == "/etc/group" {
			all[name] += "\n" + show(path)
		}
		return nil
	})
	if err != nil {
		d.t.Fatal(err)
	}
	return all
}

// difference names what is in one and not, or otherwise, in the other.
func difference(was, is map[string]string) (out []string) {
	for _, path := range slices.Sorted(maps.Keys(was)) {
		if now, ok := is[path]; !ok {
			out = append(out, "gone: "+path)
		} else if now != was[path] {
			out = append(out, fmt.Sprintf("changed: %s: %s -> %s", path, was[path], now))
		}
	}
	for _, path := range slices.Sorted(maps.Keys(is)) {
		if _, ok := was[path]; !ok {
			out = append(out, "new: "+path)
		}
	}
	return out
}

// TestInstall: in a Debian without a running systemd the package is installed,
// keeps a configuration that was changed over upgrades, and leaves the state when
// removed and nothing when purged.
func TestInstall(t *testing.T) {
	deb := built(t)
	if !require.OwnMounts(t, debEnv+"="+deb) {
		return
	}
	d := newDebian(t)
	before := d.files()

	d.dpkg(deb)
	have := d.files()
	for path, mode := range map[string]string{
		"/usr/bin/skein":                                  "-rwxr-xr-x",
		"/etc/skein/skein.toml":                           "-rw-r--r--",
		"/usr/lib/systemd/system/skein.service":           "-rw-r--r--",
		"/usr/lib/systemd/system/skein-netstack.service":  "-rw-r--r--",
		"/usr/lib/systemd/user/skein-work.service":        "-rw-r--r--",
		"/usr/share/man/man8/skein.8.gz":                  "-rw-r--r--",
		"/usr/share/man/man8/skein-job.8.gz":              "-rw-r--r--",
		"/usr/share/man/man5/skein.toml.5.gz":             "-rw-r--r--",
		"/usr/share/bash-completion/completions/skein":    "-rw-r--r--",
		"/usr/share/zsh/vendor-completions/_skein":        "-rw-r--r--",
		"/usr/share/fish/vendor_completions.d/skein.fish": "-rw-r--r--",
		"/usr/share/skein/observability/rules.yml":        "-rw-r--r--",
		"/usr/share/skein/observability/dashboard.json":   "-rw-r--r--",
		"/usr/share/skein/examples/pi.wasm":               "-rw-r--r--",
		"/usr/share/doc/skein/docs/operations.md.gz":      "-rw-r--r--",
		"/etc/credstore":                                  "drwx------",
	} {
		if have[path] != mode {
			t.Errorf("%s: %q, want %q", path, have[path], mode)
		}
	}
	for path := range have {
		if strings.HasSuffix(path, ".wants/skein.service") || strings.HasSuffix(path, ".wants/skein-netstack.service") {
			t.Errorf("a unit is enabled: %s", path)
		}
	}
	if users := d.run("id", "skein"); !strings.Contains(users, "(skein)") {
		t.Errorf("user: %s", users)
	}
	d.run("getent", "group", "skein-admin")
	d.run("bash", "-n", "/usr/share/bash-completion/completions/skein")
	d.run("skein", "config", "check")
	version := strings.TrimSpace(must(t, "", nil, "dpkg-deb", "-f", deb, "Version"))
	if out := d.run("skein", "version"); !strings.Contains(out, version) {
		t.Errorf("the program is %s, the package %s", out, version)
	}
	d.run("setpriv", "--reuid=skein", "--regid=skein", "--clear-groups", "skein", "init", "--cluster", "blue")

	config := d.root + "/etc/skein/skein.toml"
	edit(t, config, func(s string) string { return strings.Replace(s, `zone = ""`, `zone = "east"`, 1) })
	d.dpkg(deb) // the same version again: as an upgrade, and no question
	if !strings.Contains(show(config), `zone = "east"`) {
		t.Error("installing again lost a change of the configuration")
	}
	d.dpkg(newer(t, deb), "--force-confold")
	if text := show(config); !strings.Contains(text, `zone = "east"`) || strings.Contains(text, "later version") {
		t.Error("an upgrade lost a change of the configuration")
	}
	if !strings.Contains(show(config+".dpkg-dist"), "later version") {
		t.Error("the new default is not beside the configuration")
	}

	d.run("dpkg", "--remove", "skein")
	kept := d.files()
	if _, ok := kept["/usr/bin/skein"]; ok {
		t.Error("the program outlived its removal")
	}
	for _, path := range []string{"/var/lib/skein/identity.json", "/etc/skein/skein.toml"} {
		if _, ok := kept[path]; !ok {
			t.Errorf("removal took %s away", path)
		}
	}
	d.run("dpkg", "--purge", "skein")
	for _, line := range difference(before, d.files()) {
		t.Errorf("after a purge: %s", line)
	}
}

// TestDifference: what TestInstall looks for would be seen.
func TestDifference(t *testing.T) {
	was := map[string]string{"/a": "-rw", "/b": "-rw", "/c": "-rw"}
	is := map[string]string{"/a": "-rw", "/b": "-rwx", "/d": "-rw"}
	want := []string{"changed: /b: -rw -> -rwx", "gone: /c", "new: /d"}
	if got := difference(was, is); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if !ignored("/var/lib/dpkg/status") || ignored("/var/lib/skein") || ignored("/var/lib/dpkg-other") {
		t.Error("ignores the wrong files")
	}
}
