package share

import (
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/coord/transport"
	"github.com/skein-project/skein/coord/wire"
	"github.com/skein-project/skein/internal/loglimit"
)

// fake is a network of which a test sees what was sent.
type fake struct{ sent map[cluster.NodeID][]any }

func (f *fake) Send(to cluster.NodeID, _ wire.Type, payload any) error {
	f.sent[to] = append(f.sent[to], payload)
	return nil
}

func (*fake) Ask(context.Context, cluster.NodeID, string, time.Duration, any, int, any) error {
	return transport.ErrBusy
}

func (*fake) Paths() *transport.Paths                                   { return &transport.Paths{} }
func (*fake) HandleLimited(string, transport.Limits, transport.Handler) {}

// alone are the Shares of a host that knows host-b and pulls nothing.
func alone(t *testing.T) (*Shares, *fake) {
	t.Helper()
	now := func() time.Duration { return time.Hour }
	f := &fake{sent: make(map[cluster.NodeID][]any)}
	s, err := New(Options{
		Now: now, Wall: time.Now, Net: f, Post: func(f func()) { f() }, Go: func(func(context.Context)) bool { return false },
		Audience: func() []cluster.NodeID { return []cluster.NodeID{"host-b"} },
		Large:    func() bool { return false }, Keeps: func() bool { return true }, Changed: func() {},
		Logger: zerolog.Nop(), Gate: loglimit.New(now, time.Second),
	})
	if err != nil {
		t.Fatal(err)
	}
	s.Add("host-b")
	return s, f
}

// TestPublish: what changed is sent once, whole or as a digest.
func TestPublish(t *testing.T) {
	s, f := alone(t)
	at := time.Unix(1_700_000_000, 0)
	for _, pieces := range [][][]byte{{[]byte("a")}, {[]byte("a")}, {make([]byte, 2000)}} {
		if err := s.Publish(pieces, at); err != nil {
			t.Fatal(err)
		}
	}
	got := f.sent["host-b"]
	if len(got) != 2 || !got[0].(wire.Share).Whole() || got[1].(wire.Share).Whole() { //nolint:errcheck,forcetypeassert // of that type
		t.Errorf("sent %+v", got)
	}
	if err := s.Publish([][]byte{make([]byte, 1<<20)}, at); err == nil {
		t.Error("a piece of 1 MiB was taken")
	}
}

// TestShareOrder: a message that was overtaken by a later one changes nothing.
func TestShareOrder(t *testing.T) {
	a, _ := alone(t)
	take := func(seq uint64, points string) {
		p := wire.Share{FetchedAt: 7}
		if points != "" {
			p.Pieces = []wire.SharePiece{{Data: wire.PieceData(points)}}
		}
		a.OnShare(transport.Delivery{Msg: wire.Message{Header: wire.Header{Node: "host-b", Boot: 1, Seq: seq}}}, p)
	}
	has := func() string {
		v, _ := a.Of("host-b")
		return string(bytes.Join(v.Pieces, nil))
	}
	for _, c := range []struct {
		seq          uint64
		points, want string
	}{{5, "five", "five"}, {4, "four", "five"}, {6, "", ""}, {3, "three", ""}, {9, "nine", "nine"}} {
		if take(c.seq, c.points); has() != c.want {
			t.Errorf("after %d: %q, want %q", c.seq, has(), c.want)
		}
	}
	a.OnBeat(wire.Message{Header: wire.Header{Node: "host-b", Boot: 1, Seq: 8}}, &wire.Heartbeat{})
	if has() != "nine" {
		t.Error("an overtaken heartbeat took the list away")
	}
	a.OnBeat(wire.Message{Header: wire.Header{Node: "host-b", Boot: 2, Seq: 1}}, &wire.Heartbeat{})
	if has() != "" {
		t.Error("a new start without points left the old ones")
	}
}

// TestBackendsOfAnotherStart: what a host said before it was started again does
// not count, and a message that was overtaken changes nothing.
func TestBackendsOfAnotherStart(t *testing.T) {
	a, _ := alone(t)
	p := a.peers["host-b"]
	take := func(seq uint64, backends ...wire.Backend) {
		b := wire.BackendUnhealthy{Backend: "x", Backends: backends}
		a.OnBackends(transport.Delivery{Msg: wire.Message{Header: wire.Header{Node: "host-b", Boot: 1, Seq: seq}}}, b)
	}
	take(5, wire.Backend{Name: "x", Healthy: true})
	take(4, wire.Backend{Name: "x"})
	if len(p.backends.list) != 1 || !p.backends.list[0].Healthy {
		t.Errorf("after an overtaken message: %v", p.backends.list)
	}
	take(6) // a host of an earlier version
	if len(p.backends.list) != 1 || p.backends.list[0].Healthy {
		t.Errorf("of an earlier version: %v", p.backends.list)
	}
	a.OnBeat(wire.Message{Header: wire.Header{Node: "host-b", Boot: 2, Seq: 1}}, &wire.Heartbeat{})
	a.Tidy(a.o.Now())
	if p.backends.list != nil {
		t.Errorf("after another start: %v", p.backends.list)
	}
}
