package cli

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/present"
)

// OrDash returns s, or - if it is empty.
func OrDash[T ~string](s T) string {
	if s == "" {
		return present.Unknown
	}
	return string(s)
}

// AgeOf shows a number of seconds, or - for nil.
func AgeOf(seconds *float64) string {
	if seconds == nil {
		return present.Unknown
	}
	return present.Age(*seconds)
}

// Stamp is a time as wide tables show it.
func Stamp(t time.Time) string {
	if t.IsZero() {
		return present.Unknown
	}
	return t.UTC().Format("2006-01-02T15:04:05.000Z")
}

// When shows t as an age seen from now, or exactly.
func When(t, now time.Time, wide bool) string {
	switch {
	case t.IsZero():
		return present.Unknown
	case wide:
		return Stamp(t)
	}
	return present.Age(max(0, now.Sub(t).Seconds()))
}

// Count shows a number with a decimal prefix.
func Count(f float64) string {
	const units = " kMGTPE"
	i := 0
	for f >= 999.5 && i < len(units)-1 {
		f /= 1000
		i++
	}
	if i == 0 && f == math.Trunc(f) {
		return strconv.FormatFloat(f, 'f', -1, 64)
	}
	return strconv.FormatFloat(f, 'g', 3, 64) + strings.TrimSpace(units[i:i+1])
}

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

// MeanError shows a mean to the digit that its error allows, and the error.
func MeanError(mean float64, se *float64) string {
	if se == nil || !(*se > 0) {
		return strconv.FormatFloat(mean, 'g', 10, 64)
	}
	digits := max(0, 1-int(math.Floor(math.Log10(*se))))
	if digits > 15 || math.Abs(mean) > 1e15 {
		return fmt.Sprintf("%.10g ± %.2g", mean, *se)
	}
	return fmt.Sprintf("%.*f ± %.*f", digits, mean, digits, *se)
}

// YesNo is "yes" or "no".
func YesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// StampOf shows a time exactly, or - for nil.
func StampOf(t *time.Time) string {
	if t == nil {
		return present.Unknown
	}
	return Stamp(*t)
}

// Lag shows a number of events, or - for nil.
func Lag(n *uint64) string {
	if n == nil {
		return present.Unknown
	}
	return strconv.FormatUint(*n, 10)
}

// Joined separates a list by commas, or is - if it is empty.
func Joined[T ~string](list []T) string {
	parts := make([]string, len(list))
	for i, s := range list {
		parts[i] = string(s)
	}
	return OrDash(strings.Join(parts, ","))
}

// TermOf shows a term, or - for none.
func TermOf(t uint64) string {
	if t == 0 {
		return present.Unknown
	}
	return strconv.FormatUint(t, 10)
}

// Short is a prefix of an id that is unique in practice; commands take it.
func Short(id job.ID) string {
	if len(id) > 9 {
		return string(id[:9])
	}
	return string(id)
}

// Percent is the part of a job's iterations that is done.
func Percent(j api.Job) string {
	if j.Iterations.Total == 0 {
		return present.Unknown
	}
	// Rounded down: 100 % means all.
	return fmt.Sprintf("%d%%", uint64(100*(float64(j.Iterations.Accepted)/float64(j.Iterations.Total))))
}

// ParseSince reads the value of a flag as api.ParseSince does.
func ParseSince(flag, value string, now time.Time) (time.Time, event.Cursor, error) {
	at, cursor, err := api.ParseSince(value, now)
	if err != nil {
		return time.Time{}, nil, Usagef("%s: %s", flag, err)
	}
	return at, cursor, nil
}
