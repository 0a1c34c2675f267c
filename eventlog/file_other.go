//go:build !linux

package eventlog

import (
	"errors"
	"os"
)

func datasync(f *os.File) error { return f.Sync() }

func preallocate(*os.File, int64, int64) error { return errors.ErrUnsupported }
