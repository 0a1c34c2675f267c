//go:build !linux

package tor

import "syscall"

// processAttributes give tor a group of its own. Where there is no signal at
// the daemon's death, its watchdog notices it, and tor itself, which looks every
// 15 seconds.
func processAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
