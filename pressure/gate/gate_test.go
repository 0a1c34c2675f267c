package gate

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/overload"
)

func newGate(t *testing.T, level *overload.Level) *Gate {
	t.Helper()
	g, err := New(Options{Level: func() overload.Level { return *level }})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// TestLevels: what a level sheds is refused with a time to come back, the rest gets in.
func TestLevels(t *testing.T) {
	var level overload.Level
	g := newGate(t, &level)
	for level = overload.Normal; level <= overload.MaxLevel; level++ {
		for lane := overload.Vital; lane <= overload.Carried; lane++ {
			leave, refused := g.Enter(t.Context(), lane, true)
			if level.Sheds(lane) != (refused != nil) {
				t.Errorf("%s at %s: %v", lane, level, refused)
			}
			if refused == nil {
				leave()
			} else if refused.After < time.Second {
				t.Errorf("%s at %s: come back in %s", lane, level, refused.After)
			}
		}
	}
}

// TestControlHasPlacesOfItsOwn: whatever fills the other lanes, a stop gets in at once; of
// stops 16 run, and others wait for a second.
func TestControlHasPlacesOfItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var level overload.Level
		g := newGate(t, &level)
		taken := 0
		for range mostPlaces {
			if p, ok := g.lanes[overload.Submit].limiter.TryAcquirePermit(); ok {
				defer p.Drop()
				taken++
			}
		}
		if taken != firstPlaces {
			t.Fatalf("%d places to begin with", taken)
		}
		began := time.Now()
		if _, refused := g.Enter(t.Context(), overload.Submit, true); refused == nil || time.Since(began) != maxWait || refused.After < time.Second {
			t.Fatalf("a submission beyond the places: %v after %s", refused, time.Since(began))
		}
		began = time.Now()
		var leaves []func()
		for range controlPlaces {
			leave, refused := g.Enter(t.Context(), overload.Control, true)
			if refused != nil || time.Since(began) > 0 {
				t.Fatalf("a stop: %v after %s", refused, time.Since(began))
			}
			leaves = append(leaves, leave)
		}
		if _, refused := g.Enter(t.Context(), overload.Control, true); refused == nil || time.Since(began) != maxWait {
			t.Fatalf("one stop more: %v after %s", refused, time.Since(began))
		}
		go func() {
			time.Sleep(maxWait / 2) // of the bubble
			leaves[0]()
		}()
		if _, refused := g.Enter(t.Context(), overload.Control, true); refused != nil {
			t.Fatal("a place that becomes free is not taken")
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, refused := g.Enter(ctx, overload.Control, true); refused == nil {
			t.Fatal("who has gone gets a place")
		}
		for _, l := range g.Lanes() {
			want := Lane{Lane: l.Lane, Places: firstPlaces}
			switch l.Lane {
			case overload.Control:
				want = Lane{Lane: l.Lane, Places: controlPlaces, Running: controlPlaces, ByPlaces: 2}
			case overload.Submit:
				want.Running, want.ByPlaces = firstPlaces, 1
			}
			if l != want {
				t.Errorf("%+v, want %+v", l, want)
			}
		}
	})
}

// TestQueued: the least wait is told once, and none is no wait.
func TestQueued(t *testing.T) {
	var level overload.Level
	g := newGate(t, &level)
	if d := g.Queued(); d != 0 {
		t.Fatalf("nobody came, and waited %s", d)
	}
	for _, d := range []time.Duration{30, 20, 40} {
		g.waited(d)
	}
	if d, again := g.Queued(), g.Queued(); d != 20 || again != 0 {
		t.Fatalf("waited %s, then %s", d, again)
	}
}

// TestDisabled: who switches overload off has no places.
func TestDisabled(t *testing.T) {
	g, err := New(Options{Level: func() overload.Level { return overload.Normal }, Enabled: func() bool { return false }})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 * mostPlaces {
		if _, refused := g.Enter(t.Context(), overload.Submit, true); refused != nil {
			t.Fatal(refused)
		}
	}
}

func TestStream(t *testing.T) {
	var level overload.Level
	g := newGate(t, &level)
	var served atomic.Int32
	h := g.Stream(overload.Assign, func(context.Context, cluster.NodeID, net.Conn) { served.Add(1) })
	for level = overload.Normal; level <= overload.MaxLevel; level++ {
		h(t.Context(), "n2", nil)
	}
	if n := served.Load(); n != 4 {
		t.Fatalf("served at %d levels, want all but critical", n)
	}
	for _, l := range g.Lanes() {
		if (l.ByLevel == 1) != (l.Lane == overload.Assign) || l.ByPlaces != 0 {
			t.Errorf("%+v", l)
		}
	}
	defer func() {
		if recover() == nil {
			t.Error("a protocol without a lane is served")
		}
	}()
	g.Stream(overload.Unset, nil)
}
