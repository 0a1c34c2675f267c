package artefact

import (
	"crypto/sha256"
	"errors"
	"io"
	"os"

	"github.com/skein-project/skein/cluster"
)

const (
	copyBlock = 128 << 10 // of what comes from elsewhere
	fileBlock = 4 << 20   // of a file, which the kernel copies
)

// copyAll writes what r yields to f. Each block is told to count, which may refuse it.
func copyAll(f *os.File, r io.Reader, count func(n int64) error) error {
	if from, ok := r.(*os.File); ok {
		for {
			n, err := io.CopyN(f, from, fileBlock)
			if errors.Is(err, io.EOF) {
				return count(n)
			}
			if err = errors.Join(err, count(n)); err != nil {
				return err
			}
		}
	}
	buf := make([]byte, copyBlock)
	for {
		n, readErr := r.Read(buf)
		if n > 0 {
			if err := count(int64(n)); err != nil {
				return err
			}
			if _, err := f.Write(buf[:n]); err != nil {
				return err
			}
		}
		if errors.Is(readErr, io.EOF) {
			return nil
		}
		if readErr != nil {
			return readErr
		}
	}
}

// digestAndSync has the bytes of f on the disk and returns their digest: what was written
// is digested while the disk takes it. The goroutine ends before it returns.
func digestAndSync(f *os.File, size int64) (h cluster.Hash, err error) {
	synced := make(chan error, 1)
	go func() { synced <- f.Sync() }()
	digest := sha256.New()
	buf := make([]byte, copyBlock)
	_, err = io.CopyBuffer(digest, io.NewSectionReader(f, 0, size), buf)
	digest.Sum(h[:0])
	return h, errors.Join(err, <-synced)
}
