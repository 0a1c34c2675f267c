package clocks

import (
	"slices"
	"testing"
	"time"

	"github.com/rs/zerolog"
)

// TestTurns: what happens to the clocks is told to whom it concerns, and seen.
func TestTurns(t *testing.T) {
	const lease = 8 * time.Second
	var now, mono time.Duration
	wall := time.Unix(1_700_000_000, 0)
	var said []string
	say := func(s string) { said = append(said, s) }
	c, err := New(Options{
		Now: func() time.Duration { return now }, Mono: func() time.Duration { return mono }, Wall: func() time.Time { return wall },
		Lease: lease, Tolerance: func() time.Duration { return 5 * time.Second },
		Read: func() { say("read") }, Deaf: func(d time.Duration) { say("deaf for " + d.String()) },
		Suspended: func() { say("suspended") }, Failing: func(check, reason string) { say(check + ": " + reason) },
		Changed: func() { say("changed") }, Logger: zerolog.Nop(),
	})
	if err != nil {
		t.Fatal(err)
	}
	c.Start()
	turn := func(asleep, jump time.Duration, want ...string) {
		t.Helper()
		c.Waits(time.Second)
		now, mono, wall = now+time.Second+asleep, mono+time.Second, wall.Add(time.Second+asleep+jump)
		said = nil
		if c.Turn(); !slices.Equal(said, want) {
			t.Errorf("said %q, want %q", said, want)
		}
	}
	turn(0, 0, "read")
	turn(time.Minute, 0, "read", "deaf for 1m0s", "suspended", "changed")
	turn(0, 3*time.Second, "read", "changed", "suspended", "clock: time of day jumped by 3s")
	turn(0, 0, "read")
	turn(0, 0, "read", "clock: ")
	v := c.View([]time.Duration{time.Minute, -time.Second, time.Second})
	if v.Suspends != 1 || v.LastSuspend != time.Minute || v.Jumps != 1 || v.LastJump != 3*time.Second || v.Stalls != 0 {
		t.Errorf("%+v", v)
	}
	if v.Peers != 3 || v.Offset != time.Second {
		t.Errorf("offset %s of %d", v.Offset, v.Peers)
	}
}
