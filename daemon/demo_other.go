//go:build !linux

package daemon

import "syscall"

func demoProcess() *syscall.SysProcAttr { return nil }
