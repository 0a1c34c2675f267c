package main

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// unknown stands for what is not known, never zero.
const unknown = "-"

// orDash returns s, or - if it is empty.
func orDash[T ~string](s T) string {
	if s == "" {
		return unknown
	}
	return string(s)
}

// ageOf shows a number of seconds, or - for nil.
func ageOf(seconds *float64) string {
	if seconds == nil {
		return unknown
	}
	return age(*seconds)
}

// age shows seconds in the two digits that matter.
func age(s float64) string {
	switch {
	case math.IsNaN(s) || s < 0:
		return unknown
	case s < 0.1:
		return strconv.FormatFloat(s*1000, 'f', 1, 64) + "ms"
	case s < 10:
		return strconv.FormatFloat(s, 'f', 1, 64) + "s"
	case s < 120:
		return strconv.FormatFloat(s, 'f', 0, 64) + "s"
	case s < 2*3600:
		return fmt.Sprintf("%dm", int(s/60))
	case s < 48*3600:
		return fmt.Sprintf("%dh", int(s/3600))
	case s < 1e10:
		return fmt.Sprintf("%dd", int(s/86400))
	}
	return unknown
}

// stamp is a time as wide tables show it.
func stamp(t time.Time) string {
	if t.IsZero() {
		return unknown
	}
	return t.UTC().Format("2006-01-02T15:04:05.000Z")
}

// when shows t as an age seen from now, or exactly.
func when(t, now time.Time, wide bool) string {
	switch {
	case t.IsZero():
		return unknown
	case wide:
		return stamp(t)
	}
	return age(max(0, now.Sub(t).Seconds()))
}

// bytesOf shows a size in binary units.
func bytesOf(n uint64) string {
	const units = "KMGTPE"
	if n < 1024 {
		return fmt.Sprintf("%dB", n)
	}
	f, i := float64(n)/1024, 0
	for f >= 1023.95 && i < len(units)-1 {
		f /= 1024
		i++
	}
	return fmt.Sprintf("%.1f%ciB", f, units[i])
}

// count shows a number with a decimal prefix.
func count(f float64) string {
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

// parseCount reads a whole number: 1000000, 1_000_000 or 1e6.
func parseCount(s string) (uint64, error) {
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

// parseBytes reads a size: 268435456, 256M or 256MiB.
func parseBytes(s string) (uint64, error) {
	digits := strings.TrimRight(s, "BbIiKkMmGg")
	unit := strings.ToLower(s[len(digits):])
	shift, ok := map[string]uint{"": 0, "b": 0, "k": 10, "kib": 10, "m": 20, "mib": 20, "g": 30, "gib": 30}[unit]
	n, err := strconv.ParseUint(digits, 10, 64)
	if !ok || err != nil || n > math.MaxUint64>>shift {
		return 0, fmt.Errorf("%q is not a size like 268435456, 256M or 1G", s)
	}
	return n << shift, nil
}

// meanError shows a mean to the digit that its error allows, and the error.
func meanError(mean float64, se *float64) string {
	if se == nil || !(*se > 0) {
		return strconv.FormatFloat(mean, 'g', 10, 64)
	}
	digits := max(0, 1-int(math.Floor(math.Log10(*se))))
	if digits > 15 || math.Abs(mean) > 1e15 {
		return fmt.Sprintf("%.10g ± %.2g", mean, *se)
	}
	return fmt.Sprintf("%.*f ± %.*f", digits, mean, digits, *se)
}
