//go:build !linux

package tor

import "syscall"

// processAttributes give tor a group of its own. Where there is no signal at
// the daemon's death, tor itself looks every 15 seconds whether it lives.
func processAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
