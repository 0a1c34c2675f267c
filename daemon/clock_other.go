//go:build !linux

package daemon

import "time"

// started anchors the monotonic clock. Elsewhere than on Linux it may stop in
// suspend; skein's daemon is supported on Linux only.
var started = time.Now()

func bootTime() time.Duration { return time.Since(started) }

func clockSynced() bool { return false }

func monotonic() time.Duration { return time.Since(started) }
