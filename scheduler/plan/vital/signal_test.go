package vital

import "testing"

func TestVerdicts(t *testing.T) {
	for _, c := range []struct {
		live, ready bool
		s           Signal
		want        Verdict
	}{
		{true, true, Normal, VerdictRoute},
		{true, true, Idle, VerdictRoute},
		{true, true, Slow, VerdictInvestigate},
		{true, true, Degraded, VerdictInvestigate},
		{true, false, Slow, VerdictDrain},
		{true, false, Idle, VerdictDrain},
		{true, true, Stuck, VerdictEvict},
		{true, false, Stuck, VerdictEvict},
		{false, true, Normal, VerdictEvict},
	} {
		if got := Judge(c.live, c.ready, c.s); got != c.want {
			t.Errorf("live %t, ready %t, %s: %s, want %s", c.live, c.ready, c.s, got, c.want)
		}
	}
}
