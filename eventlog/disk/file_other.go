//go:build !linux

package disk

import (
	"errors"
	"os"
	"syscall"
)

func FreeBytes(string) (int64, error) { return -1, nil }

func IsFull(err error) bool { return errors.Is(err, syscall.ENOSPC) }

func preallocate(*os.File, int64, int64) error { return errors.ErrUnsupported }

func zerosHelp(*os.File) bool { return false }

func flushRange(*os.File, int64, int64) error { return errors.ErrUnsupported }
