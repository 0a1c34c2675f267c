//go:build unix

package slice

import (
	"fmt"
	"os"
	"os/user"
	"strconv"
	"syscall"
)

// as gives a process the rights of a user; empty: those of the daemon.
func as(attr *syscall.SysProcAttr, name string) error {
	if name == "" {
		return nil
	}
	u, err := user.Lookup(name)
	if err != nil {
		return fmt.Errorf("load.user: %w", err)
	}
	uid, err1 := strconv.ParseUint(u.Uid, 10, 32)
	gid, err2 := strconv.ParseUint(u.Gid, 10, 32)
	switch {
	case err1 != nil || err2 != nil:
		return fmt.Errorf("load.user: %s has ids %s and %s, want numbers", name, u.Uid, u.Gid)
	case uid == 0:
		return fmt.Errorf("load.user: %s is root, want one without rights", name)
	case os.Geteuid() == int(uid):
		return nil
	case os.Geteuid() != 0:
		return fmt.Errorf("load.user: only root can give a process the rights of %s", name)
	}
	attr.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	return nil
}
