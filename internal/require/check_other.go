//go:build !linux

package require

import (
	"errors"
	"runtime"
)

var errLinux = errors.New("needs Linux, this is " + runtime.GOOS)

func amd64() error         { return errLinux }
func tun() error           { return errLinux }
func netns() error         { return errLinux }
func kernelWG() error      { return errLinux }
func staticBusybox() error { return errLinux }

// CgroupMount fails: cgroups exist on Linux only.
func CgroupMount() (string, error) { return "", errLinux }
