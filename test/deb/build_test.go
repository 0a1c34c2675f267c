package deb

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/skein-project/skein/internal/require"
)

var root = filepath.Join("..", "..")

// patience bounds one command: all of them are much quicker, even on a machine
// that does much else.
const patience = "1500"

// command runs a program that ends soon, and returns what it printed.
func command(dir string, env []string, args ...string) (string, error) {
	var said bytes.Buffer
	cmd := exec.Command("timeout", append([]string{patience}, args...)...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &said, &said
	cmd.Env = append(os.Environ(), env...)
	if err := cmd.Run(); err != nil {
		return said.String(), fmt.Errorf("%s: %w\n%s", strings.Join(args, " "), err, said.String())
	}
	return said.String(), nil
}

func must(t *testing.T, dir string, env []string, args ...string) string {
	t.Helper()
	out, err := command(dir, env, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// debEnv names a package to test instead of one that is built.
const debEnv = "SKEIN_TEST_DEB"

// dir is where the packages of this process are; TestMain removes it.
var dir string

func TestMain(m *testing.M) {
	code := 1
	var err error
	if dir, err = os.MkdirTemp("", "skein-deb-"); err == nil {
		code = m.Run()
		_ = os.RemoveAll(dir)
	}
	os.Exit(code)
}

// quick has packages compressed in a fifth of the time: what is tested is the same.
var quick = []string{"COMPRESSION=gzip"}

// build makes the packages of this machine's architecture, once.
var build = sync.OnceValue(func() error {
	_, err := command(root, quick, "make", "package", "PACKAGES="+dir, "ARCHS="+runtime.GOARCH)
	return err
})

// built returns the .deb.
func built(t *testing.T) string {
	t.Helper()
	if testing.Short() {
		t.Skip("skipped: builds packages")
	}
	require.Need(t, require.Deb)
	if deb := os.Getenv(debEnv); deb != "" {
		return deb
	}
	if err := build(); err != nil {
		t.Fatal(err)
	}
	return one(t, filepath.Join(dir, "*.deb"))
}

func one(t *testing.T, pattern string) string {
	t.Helper()
	found, err := filepath.Glob(pattern)
	if err != nil || len(found) != 1 {
		t.Fatalf("%s: %v, %v", pattern, found, err)
	}
	return found[0]
}

// TestSameBytes builds once more, in another directory, time zone and language,
// and for a user who lets nobody read new files. In full it does so for both
// architectures, and compressed as what is handed out is.
func TestSameBytes(t *testing.T) {
	version := must(t, "", nil, "dpkg-deb", "-f", built(t), "Version")
	equal(t, dir, runtime.GOARCH, strings.TrimSpace(version), quick)
	if os.Getenv("SKEIN_PROVE") == "" {
		return
	}
	for _, arch := range []string{"amd64", "arm64"} {
		for _, env := range [][]string{quick, {"COMPRESSION=xz"}} {
			t.Run(arch+" "+env[0], func(t *testing.T) {
				first := t.TempDir()
				must(t, root, env, "make", "package", "PACKAGES="+first, "ARCHS="+arch)
				deb := one(t, filepath.Join(first, "*.deb"))
				if got := strings.TrimSpace(must(t, "", nil, "dpkg-deb", "-f", deb, "Architecture")); got != arch {
					t.Errorf("%s is for %s", deb, got)
				}
				if list := must(t, "", nil, "ar", "t", deb); !strings.Contains(list, "data.tar."+map[bool]string{true: "xz", false: "gz"}[env[0] == "COMPRESSION=xz"]) {
					t.Errorf("compressed otherwise: %s", list)
				}
				equal(t, first, arch, strings.TrimSpace(version), env)
			})
		}
	}
}

// equal builds elsewhere what is in first, and compares.
func equal(t *testing.T, first, arch, version string, env []string) {
	t.Helper()
	other := filepath.Join(t.TempDir(), "elsewhere")
	out := t.TempDir()
	if err := os.Mkdir(other, 0o700); err != nil {
		t.Fatal(err)
	}
	copied(t, "umask 077", other)
	nfpm, err := filepath.Abs(one(t, filepath.Join(root, "bin", "tools", "nfpm-*")))
	if err != nil {
		t.Fatal(err)
	}
	epoch := strings.TrimSpace(must(t, root, nil, "git", "log", "-1", "--format=%ct"))
	must(t, other, append([]string{
		"NFPM=" + nfpm, "VERSION=" + version, "SOURCE_DATE_EPOCH=" + epoch, "TZ=Asia/Tokyo", "LANG=C.UTF-8",
	}, env...), "sh", "-c", `umask 077 && packaging/build "$1" "$2"`, "sh", out, arch)
	sums := func(dir string) string {
		text, err := os.ReadFile(filepath.Join(dir, "SHA256SUMS"))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	if a, b := sums(first), sums(out); a != b || strings.Count(a, "\n") != 2 {
		t.Errorf("two builds differ:\n%s%s", a, b)
	}
	must(t, first, nil, "sha256sum", "--check", "--strict", "SHA256SUMS")
}

// copied copies what git has of this tree, as it is now.
func copied(t *testing.T, before, to string) {
	t.Helper()
	must(t, root, nil, "sh", "-c", before+` && git ls-files -z | tar -c --null -T - | tar -x --no-same-permissions -C "$1"`, "sh", to)
}

// TestTarball: whoever has no dpkg finds all files, which belong to nobody else, and a
// program that runs; the units name it where the handbook has it copied.
func TestTarball(t *testing.T) {
	version := strings.TrimSpace(must(t, "", nil, "dpkg-deb", "-f", built(t), "Version"))
	tarball := one(t, filepath.Join(dir, "*.tar.gz"))
	work := t.TempDir()
	must(t, work, nil, "tar", "-xzf", tarball)
	top := filepath.Join(work, "skein-"+version+"-linux-"+runtime.GOARCH)
	for _, name := range []string{
		"LICENSE", "CHANGELOG.md", "lib/systemd/system/skein.service", "lib/systemd/system/skein-netstack.service", "lib/systemd/user/skein-work.service", "share/man/man8/skein.8.gz",
		"share/man/man5/skein.toml.5.gz", "share/bash-completion/completions/skein", "share/skein/observability/rules.yml",
	} {
		if info, err := os.Stat(filepath.Join(top, name)); err != nil || info.Mode().Perm() != 0o644 {
			t.Errorf("%s: %v %v", name, info, err)
		}
	}
	if unit := show(filepath.Join(top, "lib/systemd/system/skein.service")); !strings.Contains(unit, "ExecStart=/usr/bin/skein run") {
		t.Errorf("the unit starts another program:\n%s", unit)
	}
	if out := must(t, top, nil, "bin/skein", "version"); !strings.Contains(out, version) {
		t.Errorf("the program is %s, the tarball %s", out, version)
	}
	for line := range strings.Lines(must(t, "", nil, "tar", "--numeric-owner", "-tvzf", tarball)) {
		if fields := strings.Fields(line); fields[1] != "0/0" {
			t.Errorf("belongs to somebody: %s", line)
		}
	}
}

// TestLintian: what Debian's policy asks holds, but for what is overridden with a reason.
func TestLintian(t *testing.T) {
	// An override that fits nothing is a finding, so this fails too if lintian does not look.
	if out, err := command("", nil, "lintian", "--allow-root", "--display-info", "--fail-on", "error,warning,info", built(t)); err != nil || out != "" {
		t.Errorf("%v\n%s", err, out)
	}
	text, err := os.ReadFile(filepath.Join(root, "packaging", "lintian-overrides"))
	if err != nil {
		t.Fatal(err)
	}
	overrides, reason := 0, false
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "#") {
			reason = true
			continue
		}
		if overrides++; !reason {
			t.Errorf("no reason for %s", line)
		}
		reason = false
	}
	if overrides == 0 || overrides > 4 {
		t.Errorf("%d overrides, at most 4 may be", overrides)
	}
}

// newer makes a later version of a package, with another default configuration.
func newer(t *testing.T, deb string) string {
	t.Helper()
	return repacked(t, deb, "later.deb", func(work string) {
		edit(t, filepath.Join(work, "DEBIAN", "control"), func(s string) string {
			version, _, _ := strings.Cut(s[strings.Index(s, "\nVersion: ")+len("\nVersion: "):], "\n")
			return strings.Replace(s, "Version: "+version, "Version: "+version+"+later", 1)
		})
		edit(t, filepath.Join(work, "etc", "skein", "skein.toml"), func(s string) string { return s + "# A later version's default.\n" })
	})
}

// repacked is a package that was changed, as a file of that name. It is not compressed: an
// emulated processor takes its time to undo that.
func repacked(t *testing.T, deb, name string, change func(tree string)) string {
	t.Helper()
	work := filepath.Join(t.TempDir(), "tree")
	must(t, "", nil, "dpkg-deb", "-R", deb, work)
	change(work)
	out := filepath.Join(filepath.Dir(work), name)
	must(t, "", nil, "dpkg-deb", "--root-owner-group", "-Znone", "-b", work, out)
	return out
}

func edit(t *testing.T, path string, change func(string) string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	changed := change(string(text))
	if changed == string(text) {
		t.Fatalf("%s: nothing to change", path)
	}
	if err := os.WriteFile(path, []byte(changed), 0o644); err != nil {
		t.Fatal(err)
	}
}

// show is a file's content, or why there is none.
func show(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return err.Error()
	}
	defer f.Close()
	text, err := io.ReadAll(f)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// fetching bounds the making of a Debian tree, which downloads.
const fetching = 10 * time.Minute
