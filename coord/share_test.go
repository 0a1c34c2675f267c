package coord

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/coord/share"
	"github.com/skein-project/skein/coord/transport"
	"github.com/skein-project/skein/coord/wire"
)

// piecesOf are n pieces of size bytes, different for each seed.
func piecesOf(seed string, n, size int) [][]byte {
	var out [][]byte
	for i := range n {
		out = append(out, bytes.Repeat(fmt.Appendf(nil, "%s-%02d;", seed, i), size)[:size])
	}
	return out
}

// shows reports whether h's view has these pieces of node's share.
func (h *host) shows(node cluster.NodeID, pieces [][]byte, at int64) bool {
	m, ok := h.svc.View().Member(node)
	return ok && slices.EqualFunc(m.Share.Pieces, pieces, bytes.Equal) &&
		(len(pieces) == 0 || m.Share.FetchedAt.Unix() == at)
}

func (h *host) publish(t *testing.T, pieces [][]byte, at int64) {
	t.Helper()
	if err := h.svc.PublishShare(pieces, time.Unix(at, 0)); err != nil {
		t.Fatal(err)
	}
}

// TestShareReachesEveryone: lists that fit a datagram and lists that are
// pulled, replaced, refreshed, withdrawn, and lost on the way.
func TestShareReachesEveryone(t *testing.T) {
	for _, c := range []struct {
		name    string
		n, size int
	}{
		{"one datagram", 3, 100},
		{"pulled", wire.MaxSharePieces, wire.MaxSharePiece},
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
				first := piecesOf("first", c.n, c.size)
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
				second := piecesOf("second", c.n, c.size)
				b.publish(t, second, now+16)
				time.Sleep(2 * time.Second)
				if a.shows(b.node, second, now+16) {
					t.Fatal("a list crossed a cut")
				}
				w.net.Heal()
				arrive("the second list", 5*time.Second, second, now+16)
				synctest.Wait()
				onLoop(t, a, func() {
					if got := a.svc.Members.hosts.peers[b.node].beat.IntroPoints; int(got) != c.n {
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
	if err := h.svc.loop.call(context.Background(), f); err != nil {
		t.Fatal(err)
	}
}

// TestShareEndsWithItsHost: a dead host has none, one that comes back has
// those of its new start only.
func TestShareEndsWithItsHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, cluster.ProfileLAN, 1, lan)
		a, b, c := w.three()
		defer w.stopAll()
		now := time.Now().Unix()
		list := piecesOf("b", 3, 1500)
		b.publish(t, list, now)
		b.svc.ReportBackends([]wire.Backend{{Name: "web"}})
		w.until("list and backends", 2*time.Second, func() bool {
			m, _ := a.svc.View().Member(b.node)
			return a.shows(b.node, list, now) && slices.Equal(m.Backends, []wire.Backend{{Name: "web"}})
		})
		b.crash()
		time.Sleep(100 * time.Second)
		if !a.shows(b.node, list, now) {
			t.Error("a silent host lost its points before it is dead")
		}
		w.until("b is dead", time.Minute, func() bool {
			m, _ := a.svc.View().Member(b.node)
			return m.Health == cluster.Dead && len(m.Share.Pieces) == 0 && len(m.Backends) == 0
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

func TestShareBounds(t *testing.T) {
	large(t)
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, cluster.ProfileLAN, 1, lan)
		a, b, _ := w.three()
		defer w.stopAll()
		for name, points := range map[string][][]byte{
			"too many": piecesOf("x", wire.MaxSharePieces+1, 10),
			"too long": piecesOf("x", 1, wire.MaxSharePiece+1),
			"empty":    {{}},
		} {
			if err := b.svc.PublishShare(points, time.Now()); err == nil {
				t.Errorf("%s: published", name)
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
		b.svc.Handle(share.Proto, func(_ context.Context, _ cluster.NodeID, conn net.Conn) {
			var req struct{}
			if transport.ReadFrame(conn, 64, &req) == nil { // another share than its heartbeats name
				_ = transport.WriteFrame(conn, wire.Share{Pieces: []wire.SharePiece{{Data: wire.PieceData("other")}}})
			}
		})
		if err := b.svc.PublishShare([][]byte{bytes.Repeat([]byte("x"), 2000)}, time.Now()); err != nil {
			t.Fatal(err)
		}
		before := a.metric("skein_coord_intro_pulls_total", "new")
		time.Sleep(5 * time.Minute)
		if n := a.metric("skein_coord_intro_pulls_total", "new") - before; n < 2 || n > 12 {
			t.Errorf("%v pulls of what is not there in 5 minutes", n)
		}
	})
}
