package clockwatch

import (
	"testing"
	"time"
)

// TestTurn: each fault of a clock is found for what it is.
func TestTurn(t *testing.T) {
	const s = time.Second
	for name, c := range map[string]struct {
		now, mono, wall time.Duration // since the last turn
		planned         time.Duration
		want            Found
	}{
		"nothing":    {s, s, s, s, Found{}},
		"sleep":      {60 * s, s, 60 * s, s, Found{Slept: 59 * s}},
		"standstill": {60 * s, 60 * s, 60 * s, s, Found{Late: 59 * s, Distrust: "stood still for 59s"}},
		"small jump": {s, s, 5 * s, s, Found{Jump: 4 * s}},
		"jump":       {s, s, 60 * s, s, Found{Jump: 59 * s, Expired: true, Distrust: "time of day jumped by 59s"}},
		"back":       {s, s, -60 * s, s, Found{Jump: -61 * s, Distrust: "time of day jumped by -1m1s"}},
	} {
		at := Reading{Now: time.Hour, Mono: time.Hour, Wall: time.Unix(1_700_000_000, 0)}
		w := New(20 * s)
		w.Start(at)
		w.Waits(at.Now, c.planned)
		next := Reading{Now: at.Now + c.now, Mono: at.Mono + c.mono, Wall: at.Wall.Add(c.wall)}
		if got := w.Turn(next, 5*s); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
		w.Waits(next.Now, 5*s)
		next = Reading{Now: next.Now + 5*s, Mono: next.Mono + 5*s, Wall: next.Wall.Add(5 * s)}
		if got := w.Turn(next, 5*s); got != (Found{Trusted: c.want.Distrust != ""}) {
			t.Errorf("%s: a quarter of a lease later %+v", name, got)
		}
	}
}
