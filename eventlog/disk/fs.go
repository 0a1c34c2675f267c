package disk

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/skein-project/skein/internal/durable"
)

// FS is the file system as the log needs it. Tests inject failures with one of
// their own.
type FS interface {
	// OpenFile opens name with the flags of package os.
	OpenFile(name string, flag int, perm fs.FileMode) (File, error)
	// ReadDir lists a directory, sorted by name.
	ReadDir(name string) ([]fs.DirEntry, error)
	// MkdirAll creates a directory and its parents.
	MkdirAll(name string, perm fs.FileMode) error
	// Remove deletes a file.
	Remove(name string) error
	// Rename renames a file and replaces what had the name before.
	Rename(from, to string) error
	// SyncDir makes created and removed entries durable.
	SyncDir(name string) error
}

// File is an open segment.
type File interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	// Size returns the length of the file.
	Size() (int64, error)
	// Truncate sets the length of the file.
	Truncate(size int64) error
	// Preallocate makes room for the bytes from off to off+n and extends the
	// file over them with zeros. It may do nothing.
	Preallocate(off, n int64) error
	// Sync makes all written bytes durable.
	Sync() error
}

type osFS struct{}

// OSFS returns the file system of the operating system.
func OSFS() FS { return osFS{} }

func (osFS) OpenFile(name string, flag int, perm fs.FileMode) (File, error) {
	f, err := os.OpenFile(name, flag, perm)
	if err != nil {
		return nil, err
	}
	return &osFile{File: f}, nil
}

func (osFS) ReadDir(name string) ([]fs.DirEntry, error)   { return os.ReadDir(name) }
func (osFS) MkdirAll(name string, perm fs.FileMode) error { return os.MkdirAll(name, perm) }
func (osFS) Remove(name string) error                     { return os.Remove(name) }
func (osFS) Rename(from, to string) error                 { return os.Rename(from, to) }
func (osFS) SyncDir(name string) error                    { return durable.SyncDir(name) }

type osFile struct {
	*os.File
	zeros zeros
}

func (f *osFile) Size() (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, fmt.Errorf("size of %s: %w", f.Name(), err)
	}
	return info.Size(), nil
}

func (f *osFile) WriteAt(b []byte, off int64) (int, error) {
	f.zeros.claim(off + int64(len(b)))
	return f.File.WriteAt(b, off)
}

func (f *osFile) Truncate(size int64) error {
	f.zeros.stop()
	return f.File.Truncate(size)
}

func (f *osFile) Close() error {
	f.zeros.stop()
	return f.File.Close()
}

func (f *osFile) Preallocate(off, n int64) error {
	err := preallocate(f.File, off, n)
	if errors.Is(err, errors.ErrUnsupported) {
		return nil
	}
	if err == nil && n >= zeroMin && zerosHelp(f.File) {
		f.zeros.begin(f.Name(), off+n/8, off+n) // the first eighth is written by then
	}
	return err
}

func (f *osFile) Sync() error {
	if err := f.zeros.failed(); err != nil {
		return err
	}
	return durable.SyncData(f.File)
}
