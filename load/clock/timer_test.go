package clock

import (
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
