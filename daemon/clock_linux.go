package daemon

import (
	"time"

	"golang.org/x/sys/unix"
)

// bootTime reads CLOCK_BOOTTIME: unlike Go's monotonic clock it goes on while
// the machine is suspended, so a lease runs out in sleep.
func bootTime() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		panic("daemon: CLOCK_BOOTTIME is not readable: " + err.Error())
	}
	return time.Duration(ts.Nano())
}

// clockSynced asks the kernel whether a time service keeps its clock right. A
// machine without one never says so.
func clockSynced() bool {
	var t unix.Timex
	state, err := unix.Adjtimex(&t)
	return err == nil && state != unix.TIME_ERROR && t.Status&unix.STA_UNSYNC == 0
}

// monotonic reads the clock by which the service manager orders messages.
func monotonic() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		panic("daemon: CLOCK_MONOTONIC is not readable: " + err.Error())
	}
	return time.Duration(ts.Nano())
}
