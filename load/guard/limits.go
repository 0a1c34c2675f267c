package guard

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Limits are what a target gets at most from this host. The zero value limits nothing.
type Limits struct {
	Rate        float64 `json:"rate,omitempty"`        // requests a second
	Ramp        float64 `json:"ramp,omitempty"`        // how many requests a second more with each second of a test
	Connections int     `json:"connections,omitempty"` // at a time
	// AllowBreak lets a test go on that breaks it.
	AllowBreak bool `json:"allow_break,omitempty"`
	// Proof: nothing is sent before the target shows that it is meant.
	Proof bool `json:"proof,omitempty"`
}

// check reports what is wrong with limits.
func (l Limits) check() error {
	switch {
	case !(l.Rate >= 0 && l.Rate <= MaxTargetRate):
		return fmt.Errorf("%g requests a second, want 0 to %d", l.Rate, MaxTargetRate)
	case !(l.Ramp >= 0 && l.Ramp <= MaxTargetRate):
		return fmt.Errorf("a ramp of %g, want 0 to %d", l.Ramp, MaxTargetRate)
	case l.Connections < 0 || l.Connections > MaxConnections:
		return fmt.Errorf("%d connections, want 0 to %d", l.Connections, MaxConnections)
	}
	return nil
}

// At is how many requests a second are allowed at a second of a test; 0: any number.
func (l Limits) At(second float64) float64 {
	if l.Ramp == 0 {
		return l.Rate
	}
	now := l.Ramp * (1 + max(0, second))
	if l.Rate > 0 {
		return min(l.Rate, now)
	}
	return now
}

// LimitsOf reads what a target gets as a file says it: a number, or a table.
func LimitsOf(v any) (l Limits, err error) {
	if n, ok := v.(int64); ok {
		return Limits{Rate: float64(n)}, nil
	}
	table, ok := v.(map[string]any)
	if !ok {
		return l, errors.New("want an integer or a table")
	}
	for _, name := range slices.Sorted(maps.Keys(table)) {
		number := func() (n int64) {
			n, ok = table[name].(int64)
			return n
		}
		truth := func() (b bool) {
			b, ok = table[name].(bool)
			return b
		}
		want := "an integer"
		switch name {
		case "max_rate":
			l.Rate = float64(number())
		case "ramp":
			l.Ramp = float64(number())
		case "connections":
			l.Connections = int(min(number(), MaxConnections+1))
		case "allow_break":
			l.AllowBreak, want = truth(), "true or false"
		case "proof":
			l.Proof, want = truth(), "true or false"
		default:
			return l, fmt.Errorf("unknown key %.40q, want max_rate, ramp, connections, allow_break or proof", name)
		}
		if !ok {
			return l, fmt.Errorf("%s: want %s", name, want)
		}
	}
	return l, nil
}

// String is l as LimitsOf reads it, in a file.
func (l Limits) String() string {
	rate := strconv.FormatFloat(l.Rate, 'f', -1, 64)
	if l == (Limits{Rate: l.Rate}) {
		return rate
	}
	parts := []string{"max_rate = " + rate}
	if l.Ramp > 0 {
		parts = append(parts, "ramp = "+strconv.FormatFloat(l.Ramp, 'f', -1, 64))
	}
	if l.Connections > 0 {
		parts = append(parts, "connections = "+strconv.Itoa(l.Connections))
	}
	if l.AllowBreak {
		parts = append(parts, "allow_break = true")
	}
	if l.Proof {
		parts = append(parts, "proof = true")
	}
	return "{ " + strings.Join(parts, ", ") + " }"
}
