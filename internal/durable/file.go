package durable

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// ErrLocked reports a directory that another process holds.
var ErrLocked = errors.New("in use by another process")

// WriteFile replaces name with data: temporary file beside it, fsync, rename,
// fsync of the directory. When it returns nil the bytes survive a power loss.
func WriteFile(name string, data []byte, mode fs.FileMode) (err error) {
	dir := filepath.Dir(name)
	f, err := os.CreateTemp(dir, "."+filepath.Base(name)+".tmp-*")
	if err != nil {
		return fmt.Errorf("replace %s: %w", name, err)
	}
	defer func() {
		if err != nil {
			_ = f.Close()           // already failing
			_ = os.Remove(f.Name()) // best effort; a leftover is harmless
		}
	}()
	if err := f.Chmod(mode); err != nil {
		return fmt.Errorf("replace %s: %w", name, err)
	}
	if _, err := f.Write(data); err != nil {
		return fmt.Errorf("replace %s: %w", name, err)
	}
	if err := f.Sync(); err != nil {
		return fmt.Errorf("replace %s: %w", name, err)
	}
	if err := f.Close(); err != nil {
		return fmt.Errorf("replace %s: %w", name, err)
	}
	if err := os.Rename(f.Name(), name); err != nil {
		return fmt.Errorf("replace %s: %w", name, err)
	}
	return SyncDir(dir)
}

// SyncDir makes created, renamed and removed entries of dir durable.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("sync directory: %w", err)
	}
	defer d.Close() //nolint:errcheck // read-only handle
	if err := d.Sync(); err != nil {
		return fmt.Errorf("sync directory %s: %w", dir, err)
	}
	return nil
}

// LockFile is the name of the lock of a directory.
const LockFile = "lock"

// Lock takes the exclusive lock of dir, held by the open file it returns and
// released when that is closed or the process ends.
func Lock(dir string) (*os.File, error) {
	name := filepath.Join(dir, LockFile)
	f, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w", dir, err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = f.Close() // nothing was written
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("lock %s: %w", dir, ErrLocked)
		}
		return nil, fmt.Errorf("lock %s: %w", dir, err)
	}
	return f, nil
}
