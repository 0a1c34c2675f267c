package disk

import (
	"errors"
	"testing"
	"time"
)

func TestQuotaRate(t *testing.T) {
	q := newQuota(Options{SourceRate: 1000})
	now := time.Now()
	n := 0
	for q.take("a", 100, -1, now) == nil {
		n++
	}
	if n != 10*burstSeconds {
		t.Fatalf("%d runs at once, want %d", n, 10*burstSeconds)
	}
	if err := q.take("b", 100, -1, now); err != nil {
		t.Fatalf("another host: %v", err)
	}
	if err := q.take("a", 1000, -1, now.Add(time.Second)); err != nil {
		t.Fatalf("a second later: %v", err)
	}
	// A run larger than the burst gets through when the bucket is full.
	if err := q.take("a", 1_000_000, -1, now.Add(time.Hour)); err != nil {
		t.Fatalf("large run: %v", err)
	}
	if err := q.take("a", 1, -1, now.Add(time.Hour+time.Minute)); !errors.Is(err, ErrQuota) {
		t.Fatalf("a minute after it: %v, want ErrQuota", err)
	}
	q.grew("a", 600, now)
	if err := q.take("a", 200, 1000, now.Add(24*time.Hour)); !errors.Is(err, ErrQuota) {
		t.Fatalf("800 of 1000 bytes: %v, want ErrQuota", err)
	}
}
