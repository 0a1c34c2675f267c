package journal

import (
	"testing"
	"time"
)

// TestClock moves a wall clock and looks what events would be stamped with.
func TestClock(t *testing.T) {
	const settle = 15 * time.Second
	start := time.Unix(1_700_000_000, 0)
	for _, c := range []struct {
		name   string
		agreed bool
		// off is how far ahead the wall clock is in each second, want the stamps.
		off, want func(second int) time.Duration
	}{
		{"steady", false, func(int) time.Duration { return 0 }, func(int) time.Duration { return 0 }},
		{
			"back is followed", false,
			func(i int) time.Duration { return step(i >= 10, -time.Hour) },
			func(i int) time.Duration { return step(i >= 10, -time.Hour) },
		},
		{
			"ahead and back", true,
			func(i int) time.Duration { return step(i >= 10 && i < 20, 10*time.Minute) },
			func(int) time.Duration { return 0 },
		},
		{
			"ahead for good, and the others agree", true,
			func(i int) time.Duration { return step(i >= 10, 10*time.Minute) },
			func(i int) time.Duration { return step(i >= 25, 10*time.Minute) },
		},
		{
			"ahead for good, and the others do not agree", false,
			func(i int) time.Duration { return step(i >= 10, 10*time.Minute) },
			func(int) time.Duration { return 0 },
		},
		{
			"slewed", false,
			func(i int) time.Duration { return time.Duration(i) * 500 * time.Microsecond },
			func(i int) time.Duration { return time.Duration(i) * 500 * time.Microsecond },
		},
	} {
		second := 0
		at := func() time.Time { return start.Add(time.Duration(second) * time.Second) }
		s := &Clock{
			wall: func() time.Time { return at().Add(c.off(second)) }, boot: func() time.Duration { return at().Sub(time.Unix(0, 0)) },
			agreed: func() bool { return c.agreed }, settle: settle,
		}
		for ; second < 100; second++ {
			if got, want := s.Now().Sub(at()), c.want(second); got != want {
				t.Errorf("%s: %s ahead in second %d, want %s", c.name, got, second, want)
				break
			}
		}
	}
}

func step(on bool, d time.Duration) time.Duration {
	if on {
		return d
	}
	return 0
}
