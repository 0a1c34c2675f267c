package disk

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// TmpSuffix ends the name of a file that WriteFile has not finished.
const TmpSuffix = ".tmp"

// WriteAt writes all of b at off. The path is for the error.
func WriteAt(f File, b []byte, off int64, path string) error {
	n, err := f.WriteAt(b, off)
	if err != nil {
		return fmt.Errorf("write %s at %d: %w", path, off, err)
	}
	if n != len(b) {
		return fmt.Errorf("write %s at %d: %d of %d bytes written", path, off, n, len(b))
	}
	return nil
}

// ReadError says which file could not be read, unless err does.
func ReadError(path string, err error) error {
	if named, ok := errors.AsType[*fs.PathError](err); ok && named.Path == path {
		return err
	}
	return &fs.PathError{Op: "read", Path: path, Err: err}
}

// ReadRange reads the bytes [from, to), fewer if the file ends before to.
func ReadRange(f io.ReaderAt, from, to int64) ([]byte, error) {
	b := make([]byte, to-from)
	n, err := f.ReadAt(b, from)
	if err != nil && !errors.Is(err, io.EOF) && int64(n) < to-from {
		return nil, err
	}
	return b[:n], nil
}

// ReadFile reads a file of at most limit bytes.
func ReadFile(fsys FS, path string, limit int64) ([]byte, error) {
	f, err := fsys.OpenFile(path, os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	if size > limit {
		return nil, fmt.Errorf("%s has %d bytes, at most %d are allowed", path, size, limit)
	}
	return ReadRange(f, 0, size)
}

// WriteFile durably replaces the file path, whose directory exists, with parts
// one after the other. After a crash it holds the old or the new bytes.
func WriteFile(fsys FS, path string, parts ...[]byte) error {
	tmp := path + TmpSuffix
	f, err := fsys.OpenFile(tmp, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	err = f.Truncate(0)
	var off int64
	for _, b := range parts {
		if err == nil {
			err = WriteAt(f, b, off, tmp)
		}
		off += int64(len(b))
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		_ = fsys.Remove(tmp) // best effort: Open removes what is left
		return fmt.Errorf("write %s: %w", path, err)
	}
	if err := fsys.Rename(tmp, path); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return fsys.SyncDir(filepath.Dir(path))
}

// sumStep is how much Sum reads between two calls of pause.
const sumStep = 256 << 10

// Sum returns the SHA-256 of the first size bytes of a file. It calls pause, if
// that is not nil, now and then and gives up when that reports false, with the
// cause of ctx.
func Sum(ctx context.Context, fsys FS, path string, size int64, pause func() bool) (sum [sha256.Size]byte, err error) {
	f, err := fsys.OpenFile(path, os.O_RDONLY, 0)
	if err != nil {
		return sum, err
	}
	defer f.Close()
	have, err := f.Size()
	if err != nil {
		return sum, err
	}
	if have < size {
		return sum, fmt.Errorf("%s has %d bytes, want %d", path, have, size)
	}
	h := sha256.New()
	r := io.NewSectionReader(f, 0, size)
	buf := make([]byte, sumStep)
	for {
		n, err := r.Read(buf)
		h.Write(buf[:n])
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return sum, ReadError(path, err)
		}
		if pause != nil && !pause() {
			return sum, context.Cause(ctx)
		}
	}
	h.Sum(sum[:0])
	return sum, nil
}
