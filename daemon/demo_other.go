//go:build !linux

package daemon

import (
	"os"
	"syscall"
)

func demoProcess() *syscall.SysProcAttr { return nil }

func killDemo(p *os.Process) error { return p.Kill() }
