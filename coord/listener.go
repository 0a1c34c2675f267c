package coord

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/coord/distance"
	"github.com/skein-project/skein/coord/election"
	"github.com/skein-project/skein/coord/endpoint"
	"github.com/skein-project/skein/coord/gossip"
	"github.com/skein-project/skein/coord/health"
	"github.com/skein-project/skein/coord/ownlog"
	"github.com/skein-project/skein/coord/pathmtu"
	"github.com/skein-project/skein/coord/share"
	"github.com/skein-project/skein/coord/swim"
	"github.com/skein-project/skein/coord/transport"
	"github.com/skein-project/skein/coord/wire"
)

// listener learns what the others say of themselves, in heartbeats and in swim's
// messages, and passes it on to whom it concerns.
type listener struct {
	now       func() time.Duration
	hosts     *hosts
	compat    *compat
	health    *health.Monitor
	net       *transport.Transport
	elector   *election.Elector
	records   *gossip.Records
	shares    *share.Shares
	endpoints *endpoint.Endpoints
	log       *ownlog.Log
	prober    *pathmtu.Prober
	beats     *heartbeats
	rtt       *prometheus.GaugeVec
	far       *distance.Distances
}

// heartbeat learns what a peer says of itself.
func (l *listener) heartbeat(d transport.Delivery, hb wire.Heartbeat) {
	p := l.hosts.peers[d.Msg.Node]
	if p == nil {
		return // removed meanwhile
	}
	if p.left.overtakes(d.Msg) {
		return // on its way while the host ended
	}
	if err := l.compat.check(p, &hb); err != nil {
		l.net.Reject(p.node, err)
		return
	}
	l.checkClaim(p, &hb)
	p.beat, p.beatAt, p.skew = hb, d.At, d.Skew
	p.beat.KnownPeers = nil
	trip, round := p.rtt.Echo(hb, d.At)
	now := l.now()
	if round {
		l.sample(p, trip, hb.Place, now)
	}
	if hb.Members == wire.Digest(l.records.Digest()) { // it counts the same zones
		l.far.Report(p.node, hb.ZoneTrips, now)
	}
	_, known := l.health.LastHeard(p.node)
	l.health.Heartbeat(p.node, d.Msg.Boot, &hb, known || round)
	switch {
	case hb.Leaving:
		p.left = lastWord{boot: d.Msg.Boot, seq: d.Msg.Seq}
		l.health.Stopped(p.node)
	case known || round:
		// A host that was never heard counts once it answered: being heard
		// one way only is not being there.
		l.heard(p, d.At)
	}
	l.endpoints.OnHints(p.node, hb.KnownPeers, now, l.net.Directory())
	l.prober.Heard(&p.path, p.node, &hb, len(l.hosts.members), now)
	l.shares.OnBeat(d.Msg, &hb)
	p.twin.seenBoot = hb.SeenBoot
	l.log.Sample(now)
	p.caughtUp = l.log.CoveredBy(hb.Log, hb.LogEvents, now)
	if hb.Members != wire.Digest(l.records.Digest()) {
		l.records.Want(p.node, hb.Members)
	}
	confirmed := !known && round
	wanted := hb.EchoUS == 0 || hb.Probe != 0 || confirmed
	if !hb.Leaving && wanted && (p.sentAt == 0 || now-p.sentAt >= replyPause || confirmed) {
		l.beats.send(p.node, now, false)
	}
}

// heard notes a sign of life.
func (l *listener) heard(p *peerState, at time.Duration) {
	if l.health.Heard(p.node, at) {
		p.rtt.Restart()
		p.path.Again() // perhaps another path
		l.beats.schedule.retrySilent(at)
	}
}

// sample takes a round trip to p, which says to be at place.
func (l *listener) sample(p *peerState, trip time.Duration, place string, now time.Duration) {
	if !p.rtt.Sample(trip) {
		return
	}
	l.rtt.WithLabelValues(string(p.node)).Set(p.rtt.Mean().Seconds())
	l.far.Trip(p.node, p.rtt.Mean(), now)
	if !l.net.Paths().Onion(p.node) { // which is as far as six relays are
		l.far.Coordinate(p.node, place, trip, now)
	}
}

// checkClaim refuses, in hb, the claim to the publishing duty by a host that
// has not heard of the lease that is valid; the rest of its heartbeat is good.
// A host that was cut off claims so once or twice when it comes back.
func (l *listener) checkClaim(p *peerState, hb *wire.Heartbeat) {
	if hb.Role != cluster.RolePublisher || !l.elector.StaleClaim(hb.Term) {
		return
	}
	hb.Role = cluster.RoleStandby
	l.net.Reject(p.node, wire.Refuse(reasonStaleClaim, "%s claims the publishing duty under term %d, the lease has term %d",
		p.node, hb.Term, l.elector.Status().Term))
}

// vital takes any other authenticated message as a sign of life: where
// heartbeats are rare, those of the lease are not.
func (l *listener) vital(d transport.Delivery) {
	p := l.hosts.peers[d.Msg.Node]
	if p == nil || p.compat.major || !l.health.Probes(p.node) {
		return
	}
	l.health.Vital(p.node, d.Msg.Boot)
	l.direct(p, d.At)
}

// direct notes a direct sign of life, if the failure detector took it for one.
func (l *listener) direct(p *peerState, at time.Duration) {
	if l.health.Confirmed(p.node) {
		l.heard(p, at)
	}
}

// swim takes a message of the failure detector.
func (l *listener) swim(d transport.Delivery, m swim.Message, state *wire.SwimState) {
	p := l.hosts.peers[d.Msg.Node]
	if p == nil {
		return // removed meanwhile
	}
	if err := p.refusal(); err != nil {
		l.net.Reject(p.node, err)
		return
	}
	if p.beat.Place = ""; state != nil {
		p.beat.Place = state.Place
	}
	l.health.Receive(p.node, d.Msg.Boot, m)
	l.direct(p, d.At)
	if p.beatAt == 0 {
		return // which version and profile it has is not known yet
	}
	p.beat.Eligible = !m.Ineligible
	if state != nil {
		l.state(p, state, d.At)
	}
}

// state takes what an ack says of its sender like a heartbeat.
func (l *listener) state(p *peerState, st *wire.SwimState, at time.Duration) {
	hb := p.beat
	hb.Role, hb.Term, hb.Holder = cluster.RoleStandby, st.Term, st.Holder
	hb.Members, hb.Log, hb.LogEvents, hb.Load = st.Members, st.Log, st.LogEvents, st.Load
	if st.Publishing {
		hb.Role = cluster.RolePublisher
	}
	l.checkClaim(p, &hb)
	p.beat = hb
	l.log.Sample(at)
	p.caughtUp = l.log.CoveredBy(hb.Log, hb.LogEvents, l.now())
	if hb.Members != wire.Digest(l.records.Digest()) {
		l.records.Want(p.node, hb.Members)
	}
}

// informed notes what others say of whether a host stands for the lease.
func (l *listener) informed(node cluster.NodeID, eligible bool) {
	if p := l.hosts.peers[node]; p != nil {
		p.beat.Eligible = eligible
	}
}

// answered takes the answer to a probe of the failure detector.
func (l *listener) answered(node cluster.NodeID, sent, trip time.Duration) {
	if p := l.hosts.peers[node]; p != nil {
		p.rtt.Answer(sent)
		l.sample(p, max(trip, time.Microsecond), p.beat.Place, l.now())
	}
}

// judge refuses lease messages of a host that takes no part in this lease.
func (l *listener) judge(from cluster.NodeID, profile cluster.Profile) error {
	p := l.hosts.peers[from]
	if p == nil {
		return wire.Refuse(wire.ReasonUnknownSender, "%s was removed", from)
	}
	return l.compat.judge(p, profile)
}
