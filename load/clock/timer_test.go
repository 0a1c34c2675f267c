package clock

import (
	"math"
	"runtime"
	"testing"
	"time"
)

// TestTimers: both kinds wake up after their instant, at once when that is past, and not at
// all when they are ended.
func TestTimers(t *testing.T) {
	for _, plain := range []bool{true, false} {
		x, err := New(plain)
		if err != nil {
			t.Fatal(err)
		}
		at := time.Now().Add(5 * time.Millisecond)
		if !x.Until(at) || time.Now().Before(at) {
			t.Errorf("plain %t: before its time", plain)
		}
		if !x.Until(at) {
			t.Errorf("plain %t: what is past is not waited for", plain)
		}
		time.AfterFunc(time.Millisecond, x.End)
		if x.Until(time.Now().Add(time.Hour)) {
			t.Errorf("plain %t: it was ended", plain)
		}
	}
	if ProcessorTime() < 0 {
		t.Error("less than nothing")
	}
}

// TestMeter: the most is over 10 s, so a moment does not count, and half of a run does.
func TestMeter(t *testing.T) {
	m := NewMeter(100 * time.Millisecond)
	m.last = 0
	used := time.Duration(0)
	all := 100 * time.Millisecond * time.Duration(runtime.NumCPU())
	for i := range 300 {
		if i >= 100 && i < 150 { // half of 10 s
			used += all
		}
		share := m.Next(used)
		if want := map[bool]float64{true: 1}[i >= 100 && i < 150]; math.Abs(share-want) > 1e-9 {
			t.Fatalf("window %d: %g", i, share)
		}
	}
	if math.Abs(m.Most()-0.5) > 1e-9 {
		t.Errorf("%g", m.Most())
	}
}
