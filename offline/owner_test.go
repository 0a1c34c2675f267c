package offline

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
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
