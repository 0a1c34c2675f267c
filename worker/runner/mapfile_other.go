//go:build !linux

package runner

import (
	"fmt"
	"io"
	"os"
)

// mapFile reads a file.
func mapFile(name string, limit int64) (b []byte, free func(), err error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	if b, err = io.ReadAll(io.LimitReader(f, limit+1)); err != nil {
		return nil, nil, err
	}
	if int64(len(b)) > limit {
		return nil, nil, fmt.Errorf("file of more than %d bytes", limit)
	}
	return b, func() {}, nil
}
