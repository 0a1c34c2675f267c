package main

import (
	"testing"
	"time"
)

// TestGarbage: the many collections of a start are not yet work, those of a busy
// daemon are, and the memory is returned when it has nothing to do.
func TestGarbage(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	g := &garbage{last: now}
	overs := 0
	after := func(gap time.Duration, times, want int) {
		t.Helper()
		got, over := 0, false
		for range times {
			now = now.Add(gap)
			if got, over = g.collected(now); over {
				overs++
			}
		}
		if got != want {
			t.Errorf("%d collections with %s between them: %d percent, want %d", times, gap, got, want)
		}
	}
	after(50*time.Millisecond, 4, gcIdle) // a start
	after(time.Minute, 3, gcIdle)
	after(time.Second, busyRuns-1, gcIdle)
	after(time.Second, 1, gcBusy)
	after(10*time.Second, 5, gcBusy) // there is four times as much garbage now
	after(31*time.Second, 1, gcIdle)
	after(time.Second, busyRuns-1, gcIdle)
	after(3*time.Second, 1, gcIdle)
	after(time.Second, busyRuns-1, gcIdle)
	if overs != 2 { // the start, and the work
		t.Errorf("%d times something was over, want 2", overs)
	}
}
