//go:build !linux

package doctor

import "errors"

var errNotLinux = errors.New("not known on this system")

func freeBytes(string) (uint64, error) { return 0, errNotLinux }

func hasNetAdmin() (bool, error) { return false, errNotLinux }

func kernelWireGuard() error { return errNotLinux }

func checkKernelClock() verdict { return skipped("%v", errNotLinux) }
