package executor

import (
	"errors"
	"math"
	"testing"
	"time"
)

// A trial finds the rate in about its time, whatever a run costs beside its iterations.
func TestMeasure(t *testing.T) {
	for _, c := range []struct {
		what       string
		most       uint64
		fixed, per time.Duration
		breaks     uint64 // runs of so many iterations or more fail; 0: none
		want       float64
		runs       int
	}{
		{what: "fast", most: 1e9, fixed: 5 * time.Millisecond, per: 100 * time.Nanosecond, want: 1e7, runs: 9},
		{what: "slow", most: 1e9, fixed: 5 * time.Millisecond, per: time.Second, want: 1 / 1.005, runs: 3},
		{what: "on a busy host", most: 1e9, fixed: 150 * time.Millisecond, per: 10 * time.Microsecond, want: 1e5, runs: 7},
		{what: "small", most: 20, fixed: 5 * time.Millisecond, per: time.Microsecond, want: 20 / 5.02e-3, runs: 4},
		{what: "too slow", most: 1e9, per: time.Minute, runs: 1},
		{what: "it breaks at once", most: 1e9, per: time.Microsecond, breaks: 1, runs: 1},
		{what: "it breaks", most: 1e9, per: time.Microsecond, breaks: 100, want: 1e6, runs: 4},
		{what: "no time at all", most: 1e3, want: 1e9, runs: 5},
	} {
		runs, spent := 0, time.Duration(0)
		got := measure(c.most, func(n uint64, limit time.Duration) (time.Duration, error) {
			if runs++; n > c.most {
				t.Errorf("%s: run of %d iterations, there are %d", c.what, n, c.most)
			}
			took := c.fixed + time.Duration(n)*c.per
			if c.breaks > 0 && n >= c.breaks {
				return took, errors.New("broken")
			}
			if took > limit {
				return limit, errors.New("too long")
			}
			spent += took
			return took, nil
		})
		if math.Abs(got-c.want) > 0.05*c.want || runs > c.runs || spent > trialAll+2*time.Second {
			t.Errorf("%s: %g per second after %d runs in %s, want %g after at most %d", c.what, got, runs, spent, c.want, c.runs)
		}
	}
}
