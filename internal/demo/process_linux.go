package demo

import (
	"os"
	"syscall"
)

// ownGroup puts a daemon in its own process group, so that Ctrl-C at the terminal
// reaches only the demo, which then stops the daemon cleanly.
func ownGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// killGroup kills a daemon and all processes that it started.
func killGroup(p *os.Process) error { return syscall.Kill(-p.Pid, syscall.SIGKILL) }
