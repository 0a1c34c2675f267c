package offline

import (
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"github.com/skein-project/skein/internal/statetest"
)

// TestHandBack: the daemon's user can read what root made in its state directory, and
// gets nothing else.
func TestHandBack(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	const daemon, other = 12345, 12346
	dir, away := t.TempDir(), t.TempDir()
	made := []string{"damaged", "damaged/n1.1", "damaged/n1.1/1.seg", "forced.json"}
	for _, name := range []string{"damaged", "damaged/n1.1"} {
		check(os.Mkdir(filepath.Join(dir, name), 0o700))
	}
	for _, path := range []string{dir + "/damaged/n1.1/1.seg", dir + "/forced.json", dir + "/kept", away + "/secret", away + "/twice"} {
		check(os.WriteFile(path, nil, 0o600))
	}
	check(os.Symlink(away, dir+"/link"))
	check(os.Link(away+"/twice", dir+"/twice"))
	check(os.Chown(dir, daemon, daemon))
	check(os.Chown(dir+"/kept", other, other))
	check(handBack(dir))
	owner := func(path string) int {
		info, err := os.Lstat(path)
		check(err)
		return int(info.Sys().(*syscall.Stat_t).Uid)
	}
	for _, name := range made {
		if got := owner(filepath.Join(dir, name)); got != daemon {
			t.Errorf("%s belongs to %d", name, got)
		}
	}
	for path, want := range map[string]int{dir + "/kept": other, away: 0, away + "/secret": 0, away + "/twice": 0} {
		if got := owner(path); got != want {
			t.Errorf("%s belongs to %d, want %d", path, got, want)
		}
	}
}

// TestInitAsRoot: what root makes in the directory of the package's user is for that user,
// and a directory of root's is known as one that no such daemon can use.
func TestInitAsRoot(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	u, err := user.Lookup("daemon")
	if err != nil {
		t.Skip("needs a user daemon: ", err)
	}
	uid, err := strconv.Atoi(u.Uid)
	if err != nil {
		t.Fatal(err)
	}
	for _, owner := range []int{0, uid} {
		cfg := statetest.Config(t)
		if err := os.Chown(cfg.StateDir, owner, -1); err != nil {
			t.Fatal(err)
		}
		if err := Init(cfg, InitOptions{ClusterName: "blue"}); err != nil {
			t.Fatal(err)
		}
		files, err := os.ReadDir(cfg.StateDir)
		if err != nil || len(files) == 0 {
			t.Fatalf("%d files: %v", len(files), err)
		}
		for _, f := range files {
			info, err := f.Info()
			if err != nil {
				t.Fatal(err)
			}
			if got := info.Sys().(*syscall.Stat_t).Uid; int(got) != owner {
				t.Errorf("in a directory of %d: %s belongs to %d", owner, f.Name(), got)
			}
		}
		for name, want := range map[string]bool{"daemon": owner == 0, "root": false, "nobody-has-this-name": false} {
			if got := OnlyRoot(cfg.StateDir, name); got != want {
				t.Errorf("in a directory of %d: only root for %s: %t", owner, name, got)
			}
		}
	}
}
