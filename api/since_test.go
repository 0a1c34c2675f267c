package api

import (
	"testing"
	"time"
)

func TestParseSince(t *testing.T) {
	now := time.Date(2026, 1, 10, 12, 0, 0, 0, time.UTC)
	for s, want := range map[string]time.Time{
		"10m":                       now.Add(-10 * time.Minute),
		"0s":                        now,
		"3d":                        now.AddDate(0, 0, -3),
		"2026-01-02":                time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC),
		"2026-01-02T15:04:05Z":      time.Date(2026, 1, 2, 15, 4, 5, 0, time.UTC),
		"2026-01-02T15:04:05+02:00": time.Date(2026, 1, 2, 13, 4, 5, 0, time.UTC),
	} {
		if got, at, err := ParseSince(s, now); err != nil || at != nil || !got.Equal(want) {
			t.Errorf("%s: %v, %v, %v", s, got, at, err)
		}
	}
	if got, at, err := ParseSince("n1/1:5,n2/1:7", now); err != nil || !got.IsZero() || len(at) != 2 {
		t.Errorf("a position: %v, %v, %v", got, at, err)
	}
	for _, s := range []string{"", "-10m", "-3d", "3.5d", "d", "40000d", "99999999999999999999d", "2026-02-30", "2026-1-2", "yesterday", "n1/1", "n1/1:x"} {
		if got, at, err := ParseSince(s, now); err == nil {
			t.Errorf("%q: %v, %v", s, got, at)
		}
	}
}
