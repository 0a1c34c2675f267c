package backend

import (
	"testing"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/backend/past"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/coord"
	"github.com/skein-project/skein/eventlog/state"
	"github.com/skein-project/skein/mesh"
)

// TestSilentPeer: a session that outlives its host is not up, and its round trip is of
// the past.
func TestSilentPeer(t *testing.T) {
	for health, want := range map[cluster.Health]api.PeerState{
		cluster.Alive: api.PeerUp, cluster.Joining: api.PeerUp, cluster.Suspect: api.PeerSilent, cluster.Dead: api.PeerSilent,
	} {
		v := &coord.View{Self: "n1", Members: []coord.MemberView{{Member: cluster.Member{Node: "n2"}, Health: health, RTT: time.Millisecond}}}
		p := meshPeer(v, mesh.PeerStatus{Node: "n2", Reachable: true, LastHandshake: time.Now()})
		if p.State != want || (p.RTTSeconds == nil) != (want == api.PeerSilent) || p.HandshakeSeconds == nil {
			t.Errorf("%s: %+v", health, p)
		}
		if p := meshPeer(v, mesh.PeerStatus{Node: "n2"}); p.State != api.PeerConnecting {
			t.Errorf("%s without a session: %s", health, p.State)
		}
	}
}

// noPast is a log in which nothing is.
type noPast struct{ past.Log }

func (noPast) Heads() []event.Head  { return nil }
func (noPast) Oldest() event.Cursor { return nil }

// TestLastTermWithoutHolder: a term that nobody renews does not look as if it ran.
func TestLastTermWithoutHolder(t *testing.T) {
	log := &fakeLog{state: state.New()}
	start := event.Event{Source: event.SourceID{Node: "n2", Inc: 1}, Seq: 1, HLC: cluster.NewHLC(time.Now(), 0), Term: 7, Kind: event.KindTermStart, Body: []byte(`{"term":7,"voters":["n1","n2","n3"],"grants":["n1","n2"]}`)}
	log.state.Apply(start)
	v := &coord.View{Self: "n1"}
	l := &leases{self: "n1", log: log, past: past.New("n1", noPast{}, nil), view: func() *coord.View { return v }}
	for holder, want := range map[cluster.NodeID]string{"": "expired", "n2": ""} {
		v.Lease.Holder = holder
		h, err := l.LeaseHistory(t.Context())
		if err != nil || len(h.Terms) != 1 || h.Terms[0].Cause != want {
			t.Errorf("holder %q: %+v, %v", holder, h.Terms, err)
		}
	}
}
