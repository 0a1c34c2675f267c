package engine

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/skein-project/skein/load"
	"github.com/skein-project/skein/load/stat"
)

// arrivals notes when requests come, since a run began.
type arrivals struct {
	began time.Time
	mu    sync.Mutex
	at    []time.Duration
}

func (a *arrivals) ServeHTTP(http.ResponseWriter, *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.at = append(a.at, time.Since(a.began))
}

// TestJoinsLate: a slice that is told to begin when the others have long begun sends what is due
// from then on, and nothing of what was before; the figures are in doubt, and say from when on.
func TestJoinsLate(t *testing.T) {
	var got arrivals
	in(t, &got, func(t *testing.T, s *scene) {
		s.o.Plan = planOf(t, "traffic.open = { flow = \"open\", rate = 20, for = \"10s\" }\n[[flow.open]]\nget = \"http://127.0.0.1/\"\n", load.Inputs{})
		got.began = time.Now()
		s.o.Start = func(context.Context, [][]byte) (time.Time, [][]byte, error) {
			time.Sleep(4 * time.Second)
			return got.began, nil, nil
		}
		windows := 0
		s.o.Emit = func(f stat.Frame) { windows = f.At }
		e, err := New(s.o)
		if err != nil {
			t.Fatal(err)
		}
		r, err := e.Run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if at := got.at; len(at) != 120 || at[0] < 4*time.Second || r.Whole.All().Sent() != 120 {
			t.Errorf("%d requests, the first at %v; the report has %d", len(at), at[:1], r.Whole.All().Sent())
		}
		if windows < 100 || r.Self.Gap > time.Second {
			t.Errorf("%d windows, a gap of %s", windows, r.Self.Gap)
		}
		if all := strings.Join(r.Doubts, "; "); all != "it began 4s behind the others, when another holder told it to, first in second 0" {
			t.Errorf("%s", all)
		}
	})
}

// TestSlew: windows are moved by and by where they are wanted, none is left out or empty, and
// requests begin when they did before.
func TestSlew(t *testing.T) {
	for _, by := range []time.Duration{70 * time.Millisecond, -70 * time.Millisecond} {
		var got arrivals
		in(t, &got, func(t *testing.T, s *scene) {
			s.o.Plan = planOf(t, "traffic.open = { flow = \"open\", rate = 20, for = \"20s\" }\n[[flow.open]]\nget = \"http://127.0.0.1/\"\n", load.Inputs{})
			var ends []time.Duration
			s.o.Emit = func(f stat.Frame) {
				if f.Span == 10 {
					ends = append(ends, time.Since(got.began))
				}
			}
			e, err := New(s.o)
			if err != nil {
				t.Fatal(err)
			}
			got.began = time.Now()
			e.Slew(by)
			if _, err := e.Run(t.Context()); err != nil {
				t.Fatal(err)
			}
			if at := got.at; len(at) != 400 || at[399] > 20*time.Second {
				t.Errorf("%d requests, the last at %s", len(at), at[len(at)-1])
			}
			for i := 1; i < len(ends); i++ {
				if d := ends[i] - ends[i-1] - time.Second; d > 100*time.Millisecond || d < -100*time.Millisecond {
					t.Errorf("second %d took %s more", i, d)
				}
			}
			// Looks at the clock are 100 ms apart: an end is seen that much later at most.
			if d := ends[len(ends)-1] - time.Duration(len(ends))*time.Second - by; d < 0 || d > stat.Step {
				t.Errorf("slewed by %s: the last second ended %s beside that", by, d)
			}
		})
	}
}
