package offline

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"syscall"
)

// OnlyRoot reports that root, who runs this, made a state directory which a daemon that
// runs as the user of this name could not use. It is false where nobody has that name.
func OnlyRoot(stateDir, name string) bool {
	u, err := user.Lookup(name)
	if err != nil || u.Uid == "0" || os.Geteuid() != 0 {
		return false
	}
	info, err := os.Stat(stateDir)
	if err != nil {
		return false
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && st.Uid == 0
}

// handBack gives the files that root made in a state directory to the directory's
// owner, the daemon's user, who could not read them otherwise.
func handBack(stateDir string) error {
	if os.Geteuid() != 0 {
		return nil
	}
	root, err := os.OpenRoot(stateDir)
	if err != nil {
		return err
	}
	defer root.Close()
	dir, err := root.Stat(".")
	if err != nil {
		return err
	}
	to, ok := dir.Sys().(*syscall.Stat_t)
	if !ok || to.Uid == 0 {
		return nil
	}
	err = fs.WalkDir(root.FS(), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil // of a daemon that was started meanwhile
		}
		if err != nil {
			return err
		}
		// A file with a second name may be another's.
		st, ok := info.Sys().(*syscall.Stat_t)
		if !ok || st.Uid != 0 || !info.IsDir() && st.Nlink > 1 {
			return nil
		}
		return root.Lchown(path, int(to.Uid), int(to.Gid))
	})
	if err != nil {
		return fmt.Errorf("give the files of %s to the daemon's user: %w", stateDir, err)
	}
	return nil
}
