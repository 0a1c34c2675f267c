package bucket

import (
	"testing"
	"time"
)

func TestBucket(t *testing.T) {
	var b Bucket
	r := Rate{PerSecond: 50, Burst: 100}
	n := 0
	for range 1000 {
		if b.Take(r, time.Second) {
			n++
		}
	}
	if n != 100 {
		t.Errorf("%d at once, want 100", n)
	}
	for ms := range 2000 {
		if b.Take(r, time.Second+time.Duration(ms)*time.Millisecond) {
			n++
		}
	}
	if n < 199 || n > 201 {
		t.Errorf("%d within two seconds more, want 200", n)
	}
	if b.Take(r, 0) {
		t.Error("a clock that went back filled the bucket")
	}
}

// TestDebt: what was spent is waited for, and no longer than it takes.
func TestDebt(t *testing.T) {
	var b Bucket
	r := Rate{PerSecond: 2, Burst: 4}
	if b.Wait(r, 4, 0) != 0 || b.Spend(r, 3, 0) != 0 {
		t.Error("a full bucket makes somebody wait")
	}
	if got := b.Spend(r, 5, 0); got != 2*time.Second {
		t.Errorf("debt of 4: %s", got)
	}
	if got := b.Wait(r, 100, time.Second); got != 3*time.Second {
		t.Errorf("for a full bucket: %s", got)
	}
	if got := b.Wait(r, 1, 3*time.Second); got != 0 || b.Left(r, 3*time.Second) != 2 {
		t.Errorf("after 3 s: %s", got)
	}
	if got := b.Spend(Rate{}, 1000, 0); got != 0 {
		t.Errorf("without a limit: %s", got)
	}
}
