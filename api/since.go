package api

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/skein-project/skein/cluster/event"
)

// ParseSince reads a moment from which on events are wanted: an age like 10m or 3d,
// a time in RFC 3339 form, a date like 2026-01-02 (its beginning in UTC), or a
// position like n1/1:5, which comes back as a cursor.
func ParseSince(s string, now time.Time) (time.Time, event.Cursor, error) {
	if age, ok := parseAge(s); ok {
		return now.Add(-age), nil, nil
	}
	for _, form := range [...]string{time.RFC3339, time.DateOnly} {
		if t, err := time.Parse(form, s); err == nil {
			return t, nil, nil
		}
	}
	if strings.Contains(s, "/") {
		at, err := event.ParseCursor(s)
		return time.Time{}, at, err
	}
	return time.Time{}, nil, fmt.Errorf("%.64q is neither an age like 10m or 3d, nor a time like 2026-01-02T15:04:05Z, "+
		"nor a date like 2026-01-02, nor a position like n1/1:5,n2/1:7", s)
}

// maxAgeDays keeps an age within what a time.Duration holds.
const maxAgeDays = 36_500

// parseAge reads a duration, or a whole number of days.
func parseAge(s string) (time.Duration, bool) {
	if days, ok := strings.CutSuffix(s, "d"); ok {
		n, err := strconv.ParseUint(days, 10, 32)
		return time.Duration(n) * 24 * time.Hour, err == nil && n <= maxAgeDays
	}
	d, err := time.ParseDuration(s)
	return d, err == nil && d >= 0
}
