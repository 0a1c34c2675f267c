package slice

import (
	"testing"
	"time"
)

// TestFence: a slice may send for a while after it counted what a holder is known to have,
// however often it is asked for what nobody has.
func TestFence(t *testing.T) {
	f := fence{limit: 12 * time.Second, until: make(chan time.Duration, 1)}
	told := func(after uint64, want time.Duration) {
		t.Helper()
		f.told(after)
		got := time.Duration(0)
		select {
		case got = <-f.until:
		default:
		}
		if got != want*time.Second {
			t.Errorf("told %d: until %s, want %ds", after, got, want)
		}
	}
	f.counted(0, 5*time.Second) // setup
	told(0, 0)
	if got := f.begun(100 * time.Second); got != 112*time.Second {
		t.Errorf("it begins, and may send until %s", got)
	}
	told(1, 112) // what was counted before the start is no reason to hold behind it
	for n := range uint64(200) {
		f.counted(n+1, time.Duration(102+n)*time.Second)
	}
	told(1, 0)
	told(100, 0) // too long ago
	told(190, 302)
	told(190, 0)
	told(180, 0) // a new holder begins from the first
	told(202, 0) // there is none yet
	told(201, 313)
	f.counted(201, 500*time.Second)
	f.told(201)
	f.told(202)
	f.counted(202, 501*time.Second)
	told(203, 513) // the newest counts, whoever took the one before
	none := fence{until: make(chan time.Duration)}
	none.counted(0, time.Second)
	none.told(1)
	if none.begun(time.Second) != 0 {
		t.Error("a slice without a fence has one")
	}
}
