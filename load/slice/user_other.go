//go:build !unix

package slice

import (
	"errors"
	"syscall"
)

// as gives a process the rights of a user; empty: those of the daemon.
func as(_ *syscall.SysProcAttr, name string) error {
	if name == "" {
		return nil
	}
	return errors.New("load.user: not on this system")
}
