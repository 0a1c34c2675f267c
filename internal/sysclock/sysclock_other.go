//go:build !linux

package sysclock

import "time"

// started anchors the monotonic clock. Elsewhere than on Linux it may stop in
// suspend; skein's daemon is supported on Linux only.
var started = time.Now()

// Boot reads a clock that does not go back.
func Boot() time.Duration { return time.Since(started) }

// Synced reports whether a time service keeps the clock right: not known here.
func Synced() bool { return false }

// Monotonic reads a clock that does not go back.
func Monotonic() time.Duration { return time.Since(started) }
