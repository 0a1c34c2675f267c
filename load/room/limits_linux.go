package room

import (
	"fmt"
	"os"
	"syscall"
)

// Own are the limits of this process.
func Own() (l Limits) {
	var files syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files) == nil {
		l.Files = files.Cur
	}
	text, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range")
	var low, high uint64
	if err == nil {
		if n, _ := fmt.Sscan(string(text), &low, &high); n == 2 && high >= low {
			l.Ports = high - low + 1
		}
	}
	return l
}
