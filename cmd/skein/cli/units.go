package cli

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster/event"
)

// ParseCount reads a whole number: 1000000, 1_000_000 or 1e6.
func ParseCount(s string) (uint64, error) {
	plain := strings.ReplaceAll(s, "_", "")
	if n, err := strconv.ParseUint(plain, 10, 64); err == nil {
		return n, nil
	}
	f, err := strconv.ParseFloat(plain, 64)
	if err != nil || f < 0 || f != math.Trunc(f) || f > 1<<53 || strings.ContainsAny(plain, "xXpPiInN") {
		return 0, fmt.Errorf("%q is not a whole number from 0 to 2^53, like 1000000 or 1e6", s)
	}
	return uint64(f), nil
}

// ParseBytes reads a size: 268435456, 256M or 256MiB.
func ParseBytes(s string) (uint64, error) {
	digits := strings.TrimRight(s, "BbIiKkMmGg")
	unit := strings.ToLower(s[len(digits):])
	shift, ok := map[string]uint{"": 0, "b": 0, "k": 10, "kib": 10, "m": 20, "mib": 20, "g": 30, "gib": 30}[unit]
	n, err := strconv.ParseUint(digits, 10, 64)
	if !ok || err != nil || n > math.MaxUint64>>shift {
		return 0, fmt.Errorf("%q is not a size like 268435456, 256M or 1G", s)
	}
	return n << shift, nil
}

// ParseSince reads the value of a flag as api.ParseSince does.
func ParseSince(flag, value string, now time.Time) (time.Time, event.Cursor, error) {
	at, cursor, err := api.ParseSince(value, now)
	if err != nil {
		return time.Time{}, nil, Usagef("%s: %s", flag, err)
	}
	return at, cursor, nil
}
