package scheduler

import (
	"testing"
	"time"
)

// TestShow: however long it takes to show all workers, what comes while nothing is open is not
// kept from going on by it, and is shown before long.
func TestShow(t *testing.T) {
	var v view
	now := time.Unix(1000, 0)
	shows := func(took time.Duration) bool {
		if !v.due(now) {
			return false
		}
		began := now
		now = now.Add(took)
		v.shown(began, now)
		return true
	}
	for range 3 {
		if !shows(0) {
			t.Error("what takes no time is put off")
		}
	}
	n := 0
	for end := now.Add(10 * time.Second); now.Before(end); now = now.Add(time.Millisecond) {
		if shows(10 * time.Millisecond) {
			n++
		}
	}
	if n < 80 || n > 100 {
		t.Errorf("shown %d times in 10 s, each of which takes 10 ms", n)
	}
	now = now.Add(time.Second)
	if !shows(time.Minute) || v.hidden {
		t.Error("after a second it is put off")
	}
	if shows(0) || !v.hidden || v.at.Sub(now) > walkEvery {
		t.Errorf("what takes a minute is shown again after %v", v.at.Sub(now))
	}
	if now = v.at; !shows(0) || v.hidden {
		t.Error("what was put off is not shown")
	}
}
