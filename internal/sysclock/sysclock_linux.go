package sysclock

import (
	"time"

	"golang.org/x/sys/unix"
)

// Boot reads CLOCK_BOOTTIME: unlike Go's monotonic clock it goes on while
// the machine is suspended, so a lease runs out in sleep.
func Boot() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		panic("sysclock: CLOCK_BOOTTIME is not readable: " + err.Error())
	}
	return time.Duration(ts.Nano())
}

// Synced asks the kernel whether a time service keeps its clock right. A
// machine without one never says so.
func Synced() bool {
	var t unix.Timex
	state, err := unix.Adjtimex(&t)
	return err == nil && state != unix.TIME_ERROR && t.Status&unix.STA_UNSYNC == 0
}

// Monotonic reads the clock by which the service manager orders messages.
func Monotonic() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		panic("sysclock: CLOCK_MONOTONIC is not readable: " + err.Error())
	}
	return time.Duration(ts.Nano())
}
