package join

import (
	"fmt"
	"os"
	"syscall"
)

// sameOwner gives file to the owner of dir, if root made it in the place of
// the daemon's user.
func sameOwner(dir, file string) error {
	if os.Geteuid() != 0 {
		return nil
	}
	info, err := os.Stat(dir)
	if err != nil {
		return err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return fmt.Errorf("owner of %s is unknown", dir)
	}
	return os.Lchown(file, int(st.Uid), int(st.Gid))
}
