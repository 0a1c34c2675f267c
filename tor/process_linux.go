package tor

import "syscall"

// processAttributes give tor a group of its own, so that an interrupt at the
// terminal does not reach it before the daemon has drained, and end it with
// the daemon however that ends. The kernel forgets that signal where tor changes
// its user or its security profile; its watchdog does not.
func processAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
