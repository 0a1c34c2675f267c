package coord

import (
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/coord/distance"
	"github.com/skein-project/skein/coord/election"
	"github.com/skein-project/skein/coord/gossip"
	"github.com/skein-project/skein/coord/health"
	"github.com/skein-project/skein/coord/ownlog"
	"github.com/skein-project/skein/coord/share"
	"github.com/skein-project/skein/coord/transport"
	"github.com/skein-project/skein/coord/wire"
)

// placeEvery is in how many rounds heartbeats say once where this host is, and once how
// far the zones are.
const placeEvery = 4

// statement is what this host says of itself, in heartbeats and in swim's acks.
type statement struct {
	version string
	profile cluster.Profile
	local   func() Local
	hosts   *hosts
	health  *health.Monitor
	net     *transport.Transport
	elector *election.Elector
	records *gossip.Records
	shares  *share.Shares
	log     *ownlog.Log
	far     *distance.Distances
	round   func() int // of heartbeats
}

// heartbeat is what this host says to p now.
func (w *statement) heartbeat(p *peerState, now time.Duration, leaving bool) wire.Heartbeat {
	st, local, own, self := w.elector.Status(), w.local(), w.log.Newest(), &w.hosts.self
	hb := wire.Heartbeat{
		Role: w.role(leaving), LastPublish: local.LastPublish, IntroPoints: w.introPoints(local), Share: w.shares.Digest(),
		Version: w.version, Level: event.Level, Profile: w.profile, Zone: self.Zone, Priority: self.Priority, Witness: self.Witness,
		Eligible: w.elector.Eligible() && !leaving, Leaving: leaving, Term: st.Term, Holder: st.Holder,
		Abstains: st.Abstaining != "", Members: w.records.Digest(), Log: own.Digest, LogEvents: min(own.Events, wire.MaxNumber),
		Slots: local.Slots, Busy: min(local.Busy, local.Slots), SentUS: uint64(now.Microseconds()),
		KnownPeers: []wire.PeerHint{}, Inc: new(w.health.Incarnation()), Load: local.Load,
	}
	if p.beatAt > 0 && p.beat.SentUS > 0 {
		hb.EchoUS, hb.HeldUS = p.beat.SentUS, uint64(max(0, now-p.beatAt).Microseconds())
	}
	// What says where this host is takes the room of a hint, and few hear each heartbeat
	// of a large cluster.
	if r := w.round(); r%placeEvery == 0 {
		hb.Place = w.far.Own()
	} else if r%placeEvery == placeEvery/2 || w.health.Large() {
		hb.ZoneTrips = w.far.Say()
	}
	hb.SeenBoot, hb.ProbeEcho = w.net.Twin(p.node, now), p.path.Echo(now)
	return hb
}

// ack is what this host's acks say of it.
func (w *statement) ack() *wire.SwimState {
	st, own := w.elector.Status(), w.log.Newest()
	return &wire.SwimState{
		Publishing: w.elector.Authority().MayPublish(), Term: st.Term, Holder: st.Holder, Members: w.records.Digest(),
		Log: own.Digest, LogEvents: min(own.Events, wire.MaxNumber), Load: w.local().Load, Place: w.far.Own(),
	}
}

// role is what a heartbeat says of this host's publishing duty.
func (w *statement) role(leaving bool) cluster.Role {
	if w.elector.Authority().MayPublish() && !leaving {
		return cluster.RolePublisher
	}
	return cluster.RoleStandby
}

// introPoints is how many introduction points this host has: what the daemon
// says, or else as many as its share has pieces.
func (w *statement) introPoints(local Local) uint32 {
	if n, published := w.shares.Pieces(); published && local.IntroPoints == 0 {
		return uint32(n) //nolint:gosec // bounded when it was published
	}
	return local.IntroPoints
}

// duties are what a host must announce itself when they begin or end.
type duties struct {
	term       cluster.Term // that it holds
	publishing bool
}

func (w *statement) duties() duties {
	d := duties{publishing: w.elector.Authority().MayPublish()}
	if st := w.elector.Status(); st.Role == cluster.RoleHolder {
		d.term = st.Term
	}
	return d
}
