package runner

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// mapFile has the bytes of a file in memory without a copy of them: the collector of
// garbage rests while a guest runs.
func mapFile(name string, limit int64) (b []byte, free func(), err error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, nil, err
	case info.Size() > limit:
		return nil, nil, fmt.Errorf("file of %d bytes, at most %d are allowed", info.Size(), limit)
	case info.Size() == 0:
		return []byte{}, func() {}, nil
	}
	b, err = unix.Mmap(int(f.Fd()), 0, int(info.Size()), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return nil, nil, fmt.Errorf("map %s: %w", name, err)
	}
	return b, func() { _ = unix.Munmap(b) }, nil // the whole mapping, made by us
}
