package slice

import (
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// engineNice puts the engine behind the daemon, once its run has begun: heartbeats go first.
const engineNice = 5

// Clock is that of this host, in nanoseconds: the same in all its processes, and no
// change of the time of day moves it.
func Clock() int64 {
	var t unix.Timespec
	if unix.ClockGettime(unix.CLOCK_MONOTONIC, &t) != nil {
		return 0
	}
	return t.Nano()
}

// giveWay has the process of a slice give way to others, all of its threads: it is a group of its own.
// A thread that is being made meanwhile is missed, and found the next time.
func giveWay() {
	for range 3 {
		_ = unix.Setpriority(unix.PRIO_PGRP, 0, engineNice) // as far as the kernel lets
		time.Sleep(time.Millisecond)
	}
}

// behave has it be the first that ends where memory does, and get no rights.
func behave() {
	_ = os.WriteFile("/proc/self/oom_score_adj", []byte("500"), 0o600)
	_ = unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
}

// attributes of the process: signals to the daemon's group are not for it, and it dies
// with the daemon.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
