package executor

import (
	"os/exec"
	"syscall"
)

// isolate puts a child into its own process group and lets the kernel kill it
// when the thread that starts it ends.
func isolate(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// killGroup ends a child and whatever it started.
func killGroup(pid int) { _ = syscall.Kill(-pid, syscall.SIGKILL) } // it may have ended
