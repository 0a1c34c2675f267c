package daemon

import (
	"os"
	"syscall"
)

// demoProcess puts a daemon in a process group of its own, so that Ctrl-C at
// the terminal reaches only the demo, which stops it in good order.
func demoProcess() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// killDemo kills a daemon and all that it started.
func killDemo(p *os.Process) error { return syscall.Kill(-p.Pid, syscall.SIGKILL) }
