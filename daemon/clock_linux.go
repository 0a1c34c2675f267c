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

// monotonic reads the clock by which the service manager orders messages.
func monotonic() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		panic("daemon: CLOCK_MONOTONIC is not readable: " + err.Error())
	}
	return time.Duration(ts.Nano())
}
