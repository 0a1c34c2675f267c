package bucket

import (
	"fmt"
	"testing"
	"time"
)

// TestTable: a burst, then as often as the rate says; whoever waits as told passes.
func TestTable(t *testing.T) {
	rates := []Rate{{PerSecond: 20, Burst: 200}, {PerSecond: 10.0 / 60, Burst: 10}, {PerSecond: 5.0 / 3600, Burst: 5}}
	for i, r := range rates {
		tab, now := NewTable(rates...), time.Hour
		for n := range int(r.Burst) {
			if tab.Take(i, "ann", now) != 0 {
				t.Fatalf("%+v: number %d at once has to wait", r, n)
			}
		}
		every := time.Duration(float64(time.Second) / r.PerSecond)
		for range 10 {
			wait := tab.Take(i, "ann", now)
			if off := wait - every; off < -time.Microsecond || off > time.Millisecond {
				t.Fatalf("%+v: told to wait %v, one comes every %v", r, wait, every)
			}
			if told := tab.Wait(i, "ann", now); told > wait || told < wait-time.Millisecond {
				t.Errorf("%+v: a look says %v, the request was told %v", r, told, wait)
			}
			now += wait
			if tab.Take(i, "ann", now) != 0 {
				t.Fatalf("%+v: has to wait again after %v", r, wait)
			}
		}
		if tab.Take(i, "sam", now) != 0 || tab.Wait(i, "bob", now) != 0 {
			t.Errorf("%+v: another one has to wait", r)
		}
	}
}

// TestTableIsBounded: a flood from many takes no more memory, and gives nobody who was
// told to wait a fresh start.
func TestTableIsBounded(t *testing.T) {
	tab, now := NewTable(Rate{PerSecond: 20.0 / 60, Burst: 20}), time.Hour
	for tab.Take(0, "bad", now) == 0 {
	}
	passed := 0
	for i := range 10 * MaxCounted {
		now += 20 * time.Microsecond // all of it before anybody has a full burst again
		if tab.Take(0, fmt.Sprint(i), now) == 0 {
			passed++
		}
	}
	if len(tab.by[0].used) > MaxCounted+1 {
		t.Errorf("%d are counted, at most %d are to be", len(tab.by[0].used), MaxCounted)
	}
	if passed > MaxCounted+50 {
		t.Errorf("%d of those who found no place passed", passed-MaxCounted)
	}
	if tab.Take(0, "bad", now) == 0 {
		t.Error("a flood freed somebody who has to wait")
	}
	now += 2 * time.Minute // all have waited long enough: there are places again
	for i := range 100 {
		if who := fmt.Sprint("new", i); tab.Take(0, who, now) != 0 || tab.by[0].used[who] == nil {
			t.Fatalf("no place for %s among %d", who, len(tab.by[0].used))
		}
	}
}

// TestRatesAreApart: a flood that is counted by one rate takes no place of those who are
// counted by another.
func TestRatesAreApart(t *testing.T) {
	tab, now := NewTable(Rate{PerSecond: 5.0 / 3600, Burst: 5}, Rate{PerSecond: 1, Burst: 10}), time.Hour
	for i := range 2 * MaxCounted {
		tab.Take(0, fmt.Sprint(i), now)
	}
	for i := range 100 {
		if wait := tab.Take(1, fmt.Sprint("worker", i), now); wait != 0 {
			t.Fatalf("worker %d has to wait %v for what it asks first", i, wait)
		}
	}
}
