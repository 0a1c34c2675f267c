package coord

import (
	"bytes"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/coord/wire"
)

// pointsOf are n points of size bytes, different for each seed.
func pointsOf(seed string, n, size int) [][]byte {
	var out [][]byte
	for i := range n {
		out = append(out, bytes.Repeat(fmt.Appendf(nil, "%s-%02d;", seed, i), size)[:size])
	}
	return out
}

// shows reports whether h's view has these points of node.
func (h *host) shows(node cluster.NodeID, points [][]byte, at int64) bool {
	m, ok := h.svc.View().Member(node)
	return ok && slices.EqualFunc(m.IntroPoints.Points, points, bytes.Equal) &&
		(len(points) == 0 || m.IntroPoints.FetchedAt.Unix() == at)
}

func (h *host) publish(t *testing.T, points [][]byte, at int64) {
	t.Helper()
	if err := h.svc.PublishIntroPoints(points, time.Unix(at, 0)); err != nil {
		t.Fatal(err)
	}
}

// TestIntroPointsReachEveryone: lists that fit a datagram and lists that are
// pulled, replaced, refreshed, withdrawn, and lost on the way.
func TestIntroPointsReachEveryone(t *testing.T) {
	for _, c := range []struct {
		name    string
		n, size int
	}{
		{"one datagram", 3, 100},
		{"pulled", wire.MaxIntroPoints, wire.MaxIntroPoint},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, cluster.ProfileLAN, 1, lan)
				a, b, d := w.three()
				defer w.stopAll()
				all := []*host{a, b, d}
				arrive := func(what string, limit time.Duration, points [][]byte, at int64) {
					t.Helper()
					w.until(what, limit, func() bool {
						return !slices.ContainsFunc(all, func(h *host) bool { return !h.shows(b.node, points, at) })
					})
				}
				now := time.Now().Unix()
				first := pointsOf("first", c.n, c.size)
				b.publish(t, first, now)
				arrive("the first list", 500*time.Millisecond, first, now)
				if m, _ := a.svc.View().Member(b.node); m.Incompatible != "" {
					t.Error(m.Incompatible)
				}
				pulls := a.metric("skein_coord_intro_pulls_total", "new")
				time.Sleep(20 * time.Second)
				b.publish(t, first, now+15)
				arrive("the same list, seen later", 500*time.Millisecond, first, now+15)
				if got := a.metric("skein_coord_intro_pulls_total", "new"); got != pulls {
					t.Errorf("the same list was pulled again: %v, was %v", got, pulls)
				}
				// All messages about it are lost; the heartbeats say so.
				w.net.Partition([]netip.Addr{a.addr}, []netip.Addr{b.addr}, []netip.Addr{d.addr})
				second := pointsOf("second", c.n, c.size)
				b.publish(t, second, now+16)
				time.Sleep(2 * time.Second)
				if a.shows(b.node, second, now+16) {
					t.Fatal("a list crossed a cut")
				}
				w.net.Heal()
				arrive("the second list", 5*time.Second, second, now+16)
				synctest.Wait()
				onLoop(t, a, func() {
					if got := a.svc.peers[b.node].beat.IntroPoints; int(got) != c.n {
						t.Errorf("heartbeats say %d points, want %d", got, c.n)
					}
				})
				b.publish(t, nil, now+17)
				arrive("nothing", 3*time.Second, nil, 0)
			})
		})
	}
}

// onLoop runs f where it may read what the loop owns.
func onLoop(t *testing.T, h *host, f func()) {
	t.Helper()
	if err := h.svc.call(context.Background(), f); err != nil {
		t.Fatal(err)
	}
}

// TestIntroPointsEndWithTheirHost: a dead host has none, one that comes back has
// those of its new start only.
func TestIntroPointsEndWithTheirHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, cluster.ProfileLAN, 1, lan)
		a, b, c := w.three()
		defer w.stopAll()
		now := time.Now().Unix()
		list := pointsOf("b", 3, 1500)
		b.publish(t, list, now)
		if err := b.svc.ReportUnhealthy("web"); err != nil {
			t.Fatal(err)
		}
		w.until("list and hint", 2*time.Second, func() bool {
			m, _ := a.svc.View().Member(b.node)
			return a.shows(b.node, list, now) && slices.Equal(m.Unhealthy, []string{"web"})
		})
		b.crash()
		time.Sleep(100 * time.Second)
		if !a.shows(b.node, list, now) {
			t.Error("a silent host lost its points before it is dead")
		}
		w.until("b is dead", time.Minute, func() bool {
			m, _ := a.svc.View().Member(b.node)
			return m.Health == cluster.Dead && len(m.IntroPoints.Points) == 0 && len(m.Unhealthy) == 0
		})
		b.restart()
		w.until("b is back", 2*time.Minute, w.allAlive)
		time.Sleep(5 * time.Second)
		if !a.shows(b.node, nil, 0) || !c.shows(b.node, nil, 0) {
			t.Error("points of an earlier start came back")
		}
		b.publish(t, list, now+300)
		w.until("the list of the new start", 2*time.Second, func() bool { return c.shows(b.node, list, now+300) })
	})
}

func TestIntroPointsBounds(t *testing.T) {
	large(t)
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, cluster.ProfileLAN, 1, lan)
		a, b, _ := w.three()
		defer w.stopAll()
		for name, points := range map[string][][]byte{
			"too many": pointsOf("x", wire.MaxIntroPoints+1, 10),
			"too long": pointsOf("x", 1, wire.MaxIntroPoint+1),
			"empty":    {{}},
		} {
			if err := b.svc.PublishIntroPoints(points, time.Now()); err == nil {
				t.Errorf("%s: published", name)
			}
		}
		for _, name := range []string{"", "a\nb", string(bytes.Repeat([]byte("x"), wire.MaxBackend+1))} {
			if err := b.svc.ReportUnhealthy(name); err == nil {
				t.Errorf("%q: reported", name)
			}
		}
		time.Sleep(2 * time.Second)
		if !a.shows(b.node, nil, 0) {
			t.Error("something of it arrived")
		}
		// A host whose heartbeats name a list that it does not have is asked
		// less and less often.
		b.crash()
		b.restart()
		w.until("b is back", time.Minute, w.allAlive)
		onLoop(t, b, func() { b.svc.intro.digest = wire.Digest{9} })
		before := a.metric("skein_coord_intro_pulls_total", "new")
		time.Sleep(5 * time.Minute)
		if n := a.metric("skein_coord_intro_pulls_total", "new") - before; n < 2 || n > 12 {
			t.Errorf("%v pulls of what is not there in 5 minutes", n)
		}
	})
}

// TestBackendHints: they arrive, are not repeated at once, are few, and end.
func TestBackendHints(t *testing.T) {
	large(t)
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, cluster.ProfileLAN, 1, lan)
		a, b, _ := w.three()
		defer w.stopAll()
		report := func(name string) {
			t.Helper()
			if err := b.svc.ReportUnhealthy(name); err != nil {
				t.Fatal(err)
			}
			time.Sleep(10 * time.Millisecond)
		}
		said := func() []string {
			m, _ := a.svc.View().Member(b.node)
			return m.Unhealthy
		}
		for range 20 {
			report("backend-2")
		}
		if n := a.metric("skein_coord_accepted_total", string(wire.TypeBackendUnhealthy)); n != 1 || !slices.Equal(said(), []string{"backend-2"}) {
			t.Errorf("told %v times, says %q", n, said())
		}
		time.Sleep(hintPause)
		report("backend-2")
		time.Sleep(hintLife - time.Second)
		if !slices.Equal(said(), []string{"backend-2"}) {
			t.Errorf("forgotten before its time: %q", said())
		}
		time.Sleep(3 * time.Second)
		if len(said()) != 0 {
			t.Errorf("still says %q", said())
		}
		for i := range 3 * maxHints {
			report(fmt.Sprintf("backend-%02d", i))
		}
		if got := said(); len(got) != maxHints || got[0] != fmt.Sprintf("backend-%02d", 2*maxHints) {
			t.Errorf("keeps %q", got)
		}
	})
}

// TestIntroOrder: a message that was overtaken by a later one changes nothing.
func TestIntroOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, _ := pair(t)
		take := func(seq uint64, points string) {
			p := wire.IntroPoints{FetchedAt: 7}
			if points != "" {
				p.Points = []wire.IntroPoint{{Data: wire.IntroData(points)}}
			}
			a.onIntroPoints(delivery{msg: wire.Message{Header: wire.Header{Node: "host-b", Boot: 1, Seq: seq}}}, p)
		}
		has := func() string {
			v, _ := introView(&a.peers["host-b"].intro, nil)
			return string(bytes.Join(v.Points, nil))
		}
		for _, c := range []struct {
			seq          uint64
			points, want string
		}{{5, "five", "five"}, {4, "four", "five"}, {6, "", ""}, {3, "three", ""}, {9, "nine", "nine"}} {
			if take(c.seq, c.points); has() != c.want {
				t.Errorf("after %d: %q, want %q", c.seq, has(), c.want)
			}
		}
		a.introBeat(a.peers["host-b"], wire.Message{Header: wire.Header{Boot: 1, Seq: 8}}, &wire.Heartbeat{})
		if has() != "nine" {
			t.Error("an overtaken heartbeat took the list away")
		}
		a.introBeat(a.peers["host-b"], wire.Message{Header: wire.Header{Boot: 2, Seq: 1}}, &wire.Heartbeat{})
		if has() != "" {
			t.Error("a new start without points left the old ones")
		}
	})
}
