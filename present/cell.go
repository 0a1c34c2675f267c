package present

import (
	"cmp"
	"math"
	"strconv"
	"strings"
	"time"
)

// word is a text, or - if it is empty.
func word[T ~string](s T) Cell { return Cell{Text: OrDash(s)} }

// names are separated by commas.
func names[T ~string](list []T) Cell { return Cell{Text: Joined(list)} }

func yes(b bool) Cell { return Cell{Text: YesNo(b)} }

func whole[N ~int | ~uint32 | ~uint64](n N) Cell {
	return Cell{Text: strconv.FormatUint(uint64(max(0, n)), 10)}
}

// term is a number that begins at 1.
func term[N ~uint64](n N) Cell { return Cell{Text: TermOf(uint64(n))} }

func size(n uint64) Cell {
	return Cell{Text: BytesOf(n), Plain: strconv.FormatUint(n, 10)}
}

// span is a number of seconds that something takes.
func span(seconds *float64) Cell {
	if seconds == nil {
		return Cell{Text: Unknown}
	}
	return Cell{Text: Age(*seconds), Plain: PlainSeconds(*seconds)}
}

// since is how long ago something was when a host answered; ahead is how long it is
// until then.
func since(seconds *float64, observed time.Time) Cell { return shifted(seconds, observed, -1) }

func ahead(seconds *float64, observed time.Time) Cell { return shifted(seconds, observed, 1) }

func shifted(seconds *float64, observed time.Time, sign float64) Cell {
	c := span(seconds)
	if seconds != nil {
		c.Text = old(*seconds)
	}
	if seconds != nil && !observed.IsZero() && *seconds >= 0 && *seconds < 1e9 {
		c.Exact = Stamp(observed.Add(time.Duration(sign * *seconds * float64(time.Second))))
	}
	return c
}

// at is a time in the past.
func at(t, observed time.Time) Cell {
	return Cell{Text: When(t, observed, false), Exact: When(t, observed, true)}
}

// moment is a time that is always exact.
func moment(t *time.Time) Cell { return Cell{Text: StampOf(t)} }

// rate is a number of iterations a second.
func rate(perSecond *float64) Cell {
	if perSecond == nil {
		return Cell{Text: Unknown}
	}
	return Cell{Text: Rate(perSecond), Plain: Digits(*perSecond)}
}

// Rate shows iterations a second, or - for nil.
func Rate(perSecond *float64) string {
	if perSecond == nil {
		return Unknown
	}
	return Count(*perSecond) + "/s"
}

// Digits shows a number to ten digits.
func Digits(f float64) string { return strconv.FormatFloat(f, 'g', 10, 64) }

// digits is a number that may be unknown: four digits in a table.
func digits(f *float64) Cell {
	if f == nil {
		return Cell{Text: Unknown}
	}
	return Cell{Text: strconv.FormatFloat(*f, 'g', 4, 64), Exact: Digits(*f)}
}

// OrDash returns s, or - if it is empty.
func OrDash[T ~string](s T) string { return cmp.Or(string(s), Unknown) }

// AgeOf shows a number of seconds, or - for nil.
func AgeOf(seconds *float64) string {
	if seconds == nil {
		return Unknown
	}
	return old(*seconds)
}

// Stamp is a time as wide tables show it.
func Stamp(t time.Time) string {
	if t.IsZero() {
		return Unknown
	}
	return t.UTC().Format("2006-01-02T15:04:05.000Z")
}

// StampOf shows a time exactly, or - for nil.
func StampOf(t *time.Time) string {
	if t == nil {
		return Unknown
	}
	return Stamp(*t)
}

// When shows t as an age seen from now, or exactly.
func When(t, now time.Time, wide bool) string {
	switch {
	case t.IsZero():
		return Unknown
	case wide:
		return Stamp(t)
	}
	return old(max(0, now.Sub(t).Seconds()))
}

// Ahead shows a time that lies ahead.
func Ahead(t, now time.Time) string {
	if !now.Before(t) {
		return Age(now.Sub(t).Seconds()) + " ago"
	}
	return "in " + Age(t.Sub(now).Seconds())
}

// PlainSeconds is a number of seconds to the microsecond.
func PlainSeconds(s float64) string {
	return strconv.FormatFloat(math.Round(s*1e6)/1e6, 'f', -1, 64)
}

// YesNo is "yes" or "no".
func YesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// Lag shows a number of events, or - for nil.
func Lag(n *uint64) string {
	if n == nil {
		return Unknown
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
		return Unknown
	}
	return strconv.FormatUint(t, 10)
}

// Plural is "1 host", "2 hosts".
func Plural(n int, noun string) string { return count(n, noun) }
