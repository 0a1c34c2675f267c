package coord

import (
	"net/netip"
	"time"

	"github.com/rs/zerolog"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/coord/endpoint"
	"github.com/skein-project/skein/coord/gossip"
	"github.com/skein-project/skein/coord/health"
	"github.com/skein-project/skein/coord/path"
	"github.com/skein-project/skein/coord/share"
	"github.com/skein-project/skein/coord/swim"
	"github.com/skein-project/skein/coord/transport"
	"github.com/skein-project/skein/coord/wire"
	"github.com/skein-project/skein/internal/loglimit"
)

const (
	// replyPause bounds heartbeats sent in answer to one peer's.
	replyPause = 200 * time.Millisecond
	// announceAgain is how often a silent host is told again who this one is:
	// it may have lost the record. A host that answers has it.
	announceAgain = 2 * time.Minute
	// dutiesRate bounds the heartbeats of a round that announce to everyone that
	// this host has begun or ceased to hold the lease or to publish.
	dutiesRate = 32
	// ownRounds is after how many rounds this host's interfaces are asked for their
	// addresses.
	ownRounds = 8
)

// heartbeats tells the other hosts that this one lives: in rounds, in answers, by
// introductions, and in swim's messages.
type heartbeats struct {
	schedule  *schedule
	waiting   *introductions
	says      *statement
	hosts     *hosts
	health    *health.Monitor
	endpoints *endpoint.Endpoints
	net       *transport.Transport
	records   *gossip.Records
	shares    *share.Shares
	// observed and interfaces are what the device says, see Options; either may
	// be nil.
	observed   func() map[cluster.NodeID]netip.AddrPort
	interfaces func() []netip.Addr
	log        zerolog.Logger
	gate       *loglimit.Gate

	announced duties           // that the other hosts know, but for pending
	pending   []cluster.NodeID // who has not been sent them yet
}

// begin sets the time of the next round and notes the state of the log, for this
// one.
func (b *heartbeats) begin(now time.Duration) {
	b.schedule.begin(now)
	b.says.log.Sample(now)
}

// look asks the device where the peers are and prepares this round's hints.
func (b *heartbeats) look(now time.Duration) {
	if b.observed != nil {
		for _, node := range b.endpoints.Moved(b.observed()) {
			if p := b.hosts.peers[node]; p != nil {
				p.path.Again() // another path, perhaps a narrower one
			}
		}
	}
	if b.interfaces != nil && b.schedule.round%ownRounds == 0 {
		b.endpoints.SetOwn(b.interfaces())
	}
	alive := 0
	for node := range b.hosts.peers {
		if b.health.Of(node) == cluster.Alive {
			alive++
		}
	}
	b.endpoints.Look(now, b.hosts.members, b.schedule.round, alive)
	b.says.far.Round(b.hosts.self.Node, b.living, now)
}

// living yields the members, each with whether it lives as far as this host knows.
func (b *heartbeats) living(yield func(cluster.Member, bool) bool) {
	for _, m := range b.hosts.members {
		if !yield(m, m.Node == b.hosts.self.Node || b.health.Of(m.Node) == cluster.Alive) {
			return
		}
	}
}

// announceDuties sends some of the heartbeats by which everyone in a large cluster
// learns that this host has begun or ceased to hold the lease or to publish.
func (b *heartbeats) announceDuties(now time.Duration) {
	d := b.says.duties()
	if !b.health.Large() {
		b.announced, b.pending = d, nil
		return
	}
	if d != b.announced {
		b.announced, b.pending = d, nil
		for node := range b.hosts.peers {
			b.pending = append(b.pending, node)
		}
	}
	for range min(dutiesRate, len(b.pending)) {
		to := b.pending[0]
		b.pending = b.pending[1:]
		if b.health.Of(to) == cluster.Alive {
			b.send(to, now, false)
		}
	}
}

// sendRound sends this round's heartbeats.
func (b *heartbeats) sendRound(now time.Duration, leaving bool) {
	for _, node := range b.schedule.targets(now, leaving) {
		p := b.hosts.peers[node]
		if !leaving && b.health.Of(node) != cluster.Alive &&
			now-p.lastSign(b.health) >= announceAgain && now-p.introducedAt >= announceAgain {
			b.waiting.add(node)
		}
		b.send(node, now, leaving)
		b.sendMesh(node, now)
	}
	b.schedule.round++
}

// sendMesh sends a heartbeat over the mesh to a host that is reached over onion
// services: if some arrive, that ends.
func (b *heartbeats) sendMesh(node cluster.NodeID, now time.Duration) {
	m, ok := b.net.Directory().Member(node)
	p := b.hosts.peers[node]
	if !ok || p == nil || !b.net.Paths().Onion(node) || b.hosts.removed {
		return
	}
	_ = b.net.SendMesh(m, wire.TypeHeartbeat, b.says.heartbeat(p, now, false)) // counted
}

// send sends one heartbeat: the fewer hints about other hosts, the longer the
// names, so that it always fits.
func (b *heartbeats) send(to cluster.NodeID, now time.Duration, leaving bool) {
	p := b.hosts.peers[to]
	if p == nil || b.hosts.removed {
		return
	}
	hb := b.says.heartbeat(p, now, leaving)
	hints := b.endpoints.Hints(to, b.schedule.round, b.net.Directory())
	for {
		hb.KnownPeers = hints
		err := b.net.Send(to, wire.TypeHeartbeat, hb)
		if err == nil {
			p.sentAt = now
			return
		}
		if wire.ReasonOf(err) == wire.ReasonSize && len(hints) <= 1 && hb.Place+hb.ZoneTrips != "" {
			hb.Place, hb.ZoneTrips = "", ""
			continue
		}
		if wire.ReasonOf(err) != wire.ReasonSize || len(hints) == 0 {
			if b.gate.Pass("beat/" + string(to)) {
				b.log.Warn().Err(err).Str("peer", string(to)).Msg("heartbeat not sent")
			}
			return
		}
		hints = hints[:len(hints)-1]
	}
}

// sendFull sends a heartbeat that is padded to size bytes over the mesh.
func (b *heartbeats) sendFull(m cluster.Member, size int, now time.Duration) error {
	hb := b.says.heartbeat(b.hosts.peers[m.Node], now, false)
	hb.Probe = uint32(size)
	return b.net.SendPadded(m, hb, size)
}

// sendSwim sends a message of the failure detector, with as much news as fits.
func (b *heartbeats) sendSwim(a swim.Send) {
	if b.hosts.removed {
		return
	}
	own := a.Msg.Own()
	for {
		kind, payload := a.Msg.Payload(own, b.says.ack)
		err := b.net.Send(a.To, kind, payload)
		if err == nil || wire.ReasonOf(err) != wire.ReasonSize || len(own.Deltas) == 0 {
			if err != nil && b.gate.Pass("swim/"+string(a.To)) {
				b.log.Debug().Err(err).Str("peer", string(a.To)).Msg("probe not sent")
			}
			return
		}
		own.Deltas = own.Deltas[:len(own.Deltas)-1]
	}
}

// introduce sends introductions that wait, a bounded number per second.
func (b *heartbeats) introduce(now time.Duration) {
	q, large := b.waiting, b.health.Large()
	q.refill(now, b.health.Slower(introduceRate))
	for {
		to, ok := q.next()
		if !ok {
			return
		}
		p := b.hosts.peers[to]
		if p == nil {
			continue // removed meanwhile
		}
		if large && q.records == 0 && p.beatAt > 0 && p.rtt.Answered() > 0 {
			continue // it has introduced itself
		}
		q.left--
		if !large || q.records > 0 {
			q.records = max(0, q.records-1)
			b.records.Send(to, b.hosts.self.Node)
		}
		b.send(to, now, false)
		p.introducedAt = now
	}
}

// pathChanged follows a change of path at once, not with the next round: it may
// count the last one as lost.
func (b *heartbeats) pathChanged(a path.Changed, now time.Duration) {
	p := b.hosts.peers[a.Node]
	if p == nil {
		return
	}
	if a.To == path.Onion {
		b.health.SetSlack(a.Node, b.net.Paths().Slack(a.Node))
	}
	p.rtt.Restart()
	b.shares.Retry(a.Node)
	b.waiting.add(a.Node)
	b.send(a.Node, now, false)
}

// deadline is when a round or an introduction is due.
func (b *heartbeats) deadline() time.Duration {
	if d, ok := b.waiting.deadline(); ok {
		return min(b.schedule.at, d)
	}
	return b.schedule.at
}
