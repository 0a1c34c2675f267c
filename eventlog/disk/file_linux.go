package disk

import (
	"errors"
	"math"
	"os"
	"syscall"
)

// FreeBytes returns what unprivileged programs may still write in dir, and -1
// where the file system does not say.
func FreeBytes(dir string) (int64, error) {
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		return 0, &os.PathError{Op: "statfs", Path: dir, Err: err}
	}
	if st.Blocks == 0 {
		return -1, nil // as ramfs
	}
	const most = math.MaxInt64
	if size := uint64(max(1, st.Bsize)); st.Bavail <= most/size {
		return int64(st.Bavail * size), nil
	}
	return most, nil
}

// IsFull says whether err means that there is no room for another byte.
func IsFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

func preallocate(f *os.File, off, n int64) error {
	for {
		err := syscall.Fallocate(int(f.Fd()), 0, off, n)
		switch {
		case errors.Is(err, syscall.EINTR):
			continue
		case errors.Is(err, syscall.EOPNOTSUPP), errors.Is(err, syscall.ENOSYS):
			return errors.ErrUnsupported
		case err != nil:
			return &os.PathError{Op: "fallocate", Path: f.Name(), Err: err}
		}
		return nil
	}
}

// zerosHelp says whether f lies on a file system that notes which preallocated
// room was never written, and writes in place what was.
func zerosHelp(f *os.File) bool {
	const ext4, xfs = 0xef53, 0x58465342
	var st syscall.Statfs_t
	if err := syscall.Fstatfs(int(f.Fd()), &st); err != nil {
		return false
	}
	return st.Type == ext4 || st.Type == xfs
}

// flushRange has n bytes from off written back, and waits for that.
func flushRange(f *os.File, off, n int64) error {
	const waitBefore, write, waitAfter = 1, 2, 4
	for {
		err := syscall.SyncFileRange(int(f.Fd()), off, n, waitBefore|write|waitAfter)
		switch {
		case errors.Is(err, syscall.EINTR):
			continue
		case err != nil:
			return &os.PathError{Op: "sync_file_range", Path: f.Name(), Err: err}
		}
		return nil
	}
}
