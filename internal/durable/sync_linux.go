package durable

import (
	"errors"
	"os"
	"syscall"
)

// SyncData makes the data of f durable, and of its metadata only what reading
// the data back needs.
func SyncData(f *os.File) error {
	for {
		err := syscall.Fdatasync(int(f.Fd()))
		if errors.Is(err, syscall.EINTR) {
			continue // interrupted before anything was decided
		}
		if err != nil {
			return &os.PathError{Op: "fdatasync", Path: f.Name(), Err: err}
		}
		return nil
	}
}
