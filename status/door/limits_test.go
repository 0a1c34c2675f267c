package door

import (
	"fmt"
	"testing"
	"time"
)

// TestLimits: a burst, then as often as the limit says; whoever waits as told passes.
func TestLimits(t *testing.T) {
	for pace := range paces {
		var l limits
		p, now := Pace(pace), time.Hour
		burst := int(paces[p].Burst)
		for i := range burst {
			if l.take(p, "ann", now) != 0 {
				t.Fatalf("%s: number %d of %d at once has to wait", paces[p].name, i, burst)
			}
		}
		every := time.Duration(float64(time.Second) / paces[p].PerSecond)
		for range 10 {
			wait := l.take(p, "ann", now)
			if off := wait - every; off < -time.Microsecond || off > time.Millisecond {
				t.Fatalf("%s: told to wait %v, one comes every %v", paces[p].name, wait, every)
			}
			if told := l.wait(p, "ann", now); told > wait || told < wait-time.Millisecond {
				t.Errorf("%s: a look says %v, the request was told %v", paces[p].name, told, wait)
			}
			now += wait
			if l.take(p, "ann", now) != 0 {
				t.Fatalf("%s: has to wait again after %v", paces[p].name, wait)
			}
		}
		if l.take(p, "sam", now) != 0 || l.wait(p, "bob", now) != 0 {
			t.Errorf("%s: another one has to wait", paces[p].name)
		}
	}
}

// TestLimitsAreBounded: a flood from many addresses takes no more memory, and gives
// nobody who was told to wait a fresh start.
func TestLimitsAreBounded(t *testing.T) {
	var l limits
	now := time.Hour
	for l.take(Refused, "bad", now) == 0 {
	}
	passed := 0
	for i := range 10 * maxCounted {
		now += 20 * time.Microsecond // all of it before anybody has a full burst again
		if l.take(Refused, fmt.Sprint(i), now) == 0 {
			passed++
		}
	}
	if len(l.used) > maxCounted+1 {
		t.Errorf("%d are counted, at most %d are to be", len(l.used), maxCounted)
	}
	if passed > maxCounted+50 {
		t.Errorf("%d of those who found no place passed", passed-maxCounted)
	}
	if l.take(Refused, "bad", now) == 0 {
		t.Error("a flood freed somebody who has to wait")
	}
	now += 2 * time.Minute // all have waited long enough: there are places again
	for i := range 100 {
		if who := fmt.Sprint("new", i); l.take(Refused, who, now) != 0 || l.used[countOf{Refused, who}] == nil {
			t.Fatalf("no place for %s among %d", who, len(l.used))
		}
	}
}
