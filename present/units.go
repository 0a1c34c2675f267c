package present

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Unknown stands for what is not known, never zero.
const Unknown = "-"

// Age shows seconds in the two digits that matter.
func Age(s float64) string {
	switch {
	case math.IsNaN(s) || s < 0:
		return Unknown
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
	return Unknown
}

// old shows how long ago something was: nobody needs the milliseconds of that, and a column
// of ages keeps its width.
func old(s float64) string {
	if s >= 0 && s < 0.1 {
		return strconv.FormatFloat(s, 'f', 1, 64) + "s"
	}
	return Age(s)
}

// BytesOf shows a size in binary units.
func BytesOf(n uint64) string {
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
