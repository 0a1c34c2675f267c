package coord

import (
	"strconv"
	"strings"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/coord/member"
	"github.com/skein-project/skein/coord/path"
	"github.com/skein-project/skein/coord/transport"
	"github.com/skein-project/skein/coord/wire"
	"github.com/skein-project/skein/lease"
)

const (
	// MaxDirect bounds the hosts that one round of heartbeats goes to; in a
	// larger cluster the voters and the holder come first and the rest in turn.
	MaxDirect = 64
	// replyPause bounds heartbeats sent in answer to one peer's.
	replyPause = 200 * time.Millisecond
	// A silent host is tried again after retryShare of the time that it has
	// been silent, at most every maxRetry, and for ever: dead is not gone.
	retryShare = 40
	maxRetry   = time.Minute
	// announceAgain is how often a silent host is told again who this one is:
	// it may have lost the record. A host that answers has it.
	announceAgain = 2 * time.Minute
	// staleAfter is how long a member may be silent before it is called stale.
	staleAfter = 5 * time.Minute
)

// beat sends a round of heartbeats and sets the time of the next.
func (s *Service) beat(now time.Duration) {
	// A tenth of jitter keeps hosts that started together apart.
	every := s.o.Timing.Heartbeat
	s.beatAt = now + every - every/20 + time.Duration(s.o.Rand()*float64(every/10))
	s.ownLog.sample(now)
	s.elector.Drain(s.o.Local().Draining)
	s.look(now)
	s.roundSwim(now)
	s.beatAll(now, false)
	s.dirty = true
}

// look asks the device where the peers are and prepares this round's hints.
func (s *Service) look(now time.Duration) {
	if s.o.Observed != nil {
		for _, node := range s.endpoints.Moved(s.o.Observed()) {
			if p := s.peers[node]; p != nil {
				p.probe.next = 0 // another path, perhaps a narrower one
			}
		}
	}
	if s.o.Interfaces != nil {
		s.endpoints.SetOwn(s.o.Interfaces())
	}
	alive := 0
	for node := range s.peers {
		if s.detector.Health(node) == cluster.Alive {
			alive++
		}
	}
	if s.endpoints.Look(now, s.members, s.rotate, alive) {
		s.dirty = true
	}
}

func (s *Service) beatAll(now time.Duration, leaving bool) {
	for _, node := range s.direct(now, leaving) {
		p := s.peers[node]
		if !leaving && s.detector.Health(node) != cluster.Alive &&
			now-s.lastSign(p) >= announceAgain && now-p.introducedAt >= announceAgain {
			s.introduce(node)
		}
		s.beatTo(node, now, leaving)
		s.beatDirect(node, now)
	}
	s.rotate++
}

// direct returns the hosts that this round's heartbeats go to.
func (s *Service) direct(now time.Duration, leaving bool) []cluster.NodeID {
	if s.removed {
		return nil
	}
	st := s.elector.Status()
	var full map[cluster.NodeID]bool
	if s.swim.core.Active() {
		full = s.fullTargets(now, leaving)
	}
	var first, rest []cluster.NodeID
	others := 0 // that would be in rest if all lived
	for _, m := range s.members {
		if m.Node == s.o.Self {
			continue
		}
		if full != nil && s.swims(m.Node) && (leaving || !s.settling(now)) {
			if full[m.Node] {
				first = append(first, m.Node)
			}
			continue
		}
		// Far down in a large cluster a host learns who holds from that host's
		// own heartbeats only.
		important := m.Node == st.Holder || st.Config.Has(m.Node) || s.peers[m.Node].holds() != 0
		if !important {
			others++
		}
		switch p := s.peers[m.Node]; {
		case now-p.sentAt < s.retryPause(p, now):
		case important:
			first = append(first, m.Node)
		case full != nil && s.introductions.queued[m.Node] && !leaving: // its introduction is a heartbeat
		default:
			rest = append(rest, m.Node)
		}
	}
	room := max(1, MaxDirect-len(first))
	if full != nil && !s.settling(now) {
		room = min(room, s.slower(maxUnheard))
	}
	if len(rest) > room {
		start := s.rotate * room % len(rest)
		rest = append(rest[start:], rest[:start]...)[:room]
	}
	// Hosts are heard in turn too. Only holder and voters hear each other in
	// every round for certain.
	turns := max(1, (others+room-1)/room)
	slack := time.Duration(turns-1) * 2 * s.o.Timing.Heartbeat
	if s.settling(now) {
		slack = max(slack, settleFor)
	}
	core := func(n cluster.NodeID) bool { return n == st.Holder || st.Config.Has(n) }
	for _, m := range s.members {
		if core(m.Node) && core(s.o.Self) {
			s.detector.SetSlack(m.Node, s.net.Paths().Slack(m.Node))
		} else {
			s.detector.SetSlack(m.Node, slack+s.net.Paths().Slack(m.Node))
		}
	}
	return append(first, rest...)
}

// beatDirect sends a heartbeat over the mesh to a host that is reached over
// onion services: if some arrive, that ends.
func (s *Service) beatDirect(node cluster.NodeID, now time.Duration) {
	m, ok := s.net.Directory().Member(node)
	p := s.peers[node]
	if !ok || p == nil || !s.net.Paths().Onion(node) || s.removed {
		return
	}
	_ = s.net.SendMesh(m, wire.TypeHeartbeat, s.ownBeat(p, now, false)) // counted
}

// pathChanged follows a change of path at once, not with the next round: it may
// count the last one as lost.
func (s *Service) pathChanged(a path.Changed) {
	s.dirty = true
	p := s.peers[a.Node]
	if p == nil {
		return
	}
	if a.To == path.Onion {
		s.detector.SetSlack(a.Node, s.net.Paths().Slack(a.Node))
	}
	p.rtt.restart()
	s.shares.Retry(a.Node)
	s.introduce(a.Node)
	s.beatTo(a.Node, s.now(), false)
}

// lastSign is when p was last heard, or became known.
func (s *Service) lastSign(p *peerState) time.Duration {
	if at, ok := s.detector.LastHeard(p.node); ok {
		return at
	}
	return p.since
}

// retryPause is how long this host waits between heartbeats to p: not at all
// beyond the usual while it is heard, ever longer while it is silent.
func (s *Service) retryPause(p *peerState, now time.Duration) time.Duration {
	pause := min((now-s.lastSign(p))/retryShare, maxRetry)
	if _, heard := s.detector.LastHeard(p.node); !heard && s.swim.core.Active() && now-p.since > settleFor {
		// Whoever is there has said so by now; the others may be many.
		pause = max(pause, time.Duration(len(s.members))*unheardShare)
	}
	if pause <= s.o.Timing.Heartbeat {
		return 0
	}
	return pause - s.o.Timing.Heartbeat/2 // rounds come with jitter
}

// retrySilent tries every silent host at once: one of them was heard again, so
// the network is probably back.
func (s *Service) retrySilent(now time.Duration) {
	if now-s.kickedAt < 10*time.Second && s.kickedAt != 0 {
		return
	}
	s.kickedAt = now
	for _, p := range s.peers {
		if now-s.lastSign(p) > s.o.Timing.Suspect {
			p.sentAt = 0
		}
	}
	s.beatAt = min(s.beatAt, now)
}

// ownBeat is what this host says to p now.
func (s *Service) ownBeat(p *peerState, now time.Duration, leaving bool) wire.Heartbeat {
	st, local, own := s.elector.Status(), s.o.Local(), s.ownLog.newest()
	hb := wire.Heartbeat{
		Role: s.role(leaving), LastPublish: local.LastPublish, IntroPoints: s.introCount(local), Share: s.shares.Digest(),
		Version: s.o.Version, Profile: s.o.Profile, Zone: s.self.Zone, Priority: s.self.Priority, Witness: s.self.Witness,
		Eligible: s.elector.Eligible() && !leaving, Leaving: leaving, Term: st.Term, Holder: st.Holder,
		Abstains: st.Abstaining != "", Members: s.records.Digest(), Log: own.Digest, LogEvents: min(own.Events, wire.MaxNumber),
		Slots: local.Slots, Busy: min(local.Busy, local.Slots), SentUS: uint64(now.Microseconds()),
		KnownPeers: []wire.PeerHint{}, Inc: new(s.swim.core.Incarnation()),
	}
	if p.beatAt > 0 && p.beat.SentUS > 0 {
		hb.EchoUS, hb.HeldUS = p.beat.SentUS, uint64(max(0, now-p.beatAt).Microseconds())
	}
	hb.SeenBoot = s.net.Twin(p.node, now)
	if p.probe.got.size != 0 && now-p.probe.got.at < probeEcho {
		hb.ProbeEcho = p.probe.got.size
	}
	return hb
}

// introCount is how many introduction points this host has: what the daemon
// says, or else as many as its share has pieces.
func (s *Service) introCount(local Local) uint32 {
	if n, published := s.shares.Pieces(); published && local.IntroPoints == 0 {
		return uint32(n) //nolint:gosec // bounded when it was published
	}
	return local.IntroPoints
}

// beatTo sends one heartbeat: the fewer hints about other hosts, the longer
// the names, so that it always fits.
func (s *Service) beatTo(to cluster.NodeID, now time.Duration, leaving bool) {
	p := s.peers[to]
	if p == nil || s.removed {
		return
	}
	hb := s.ownBeat(p, now, leaving)
	hints := s.endpoints.Hints(to, s.rotate, s.net.Directory())
	for {
		hb.KnownPeers = hints
		err := s.net.Send(to, wire.TypeHeartbeat, hb)
		if err == nil {
			p.sentAt = now
			return
		}
		if wire.ReasonOf(err) != wire.ReasonSize || len(hints) == 0 {
			if s.gate.Pass("beat/" + string(to)) {
				s.log.Warn().Err(err).Str("peer", string(to)).Msg("heartbeat not sent")
			}
			return
		}
		hints = hints[:len(hints)-1]
	}
}

// onHeartbeat learns what a peer says of itself.
func (s *Service) onHeartbeat(d transport.Delivery, hb wire.Heartbeat) {
	p := s.peers[d.Msg.Node]
	if p == nil {
		return // removed meanwhile
	}
	if p.left.overtakes(d.Msg) {
		return // on its way while the host ended
	}
	if err := s.compatible(p, hb); err != nil {
		s.net.Reject(p.node, err)
		return
	}
	s.checkClaim(p, &hb)
	p.beat, p.beatAt, p.skew = hb, d.At, d.Skew
	p.beat.KnownPeers = nil
	trip, round := p.rtt.echo(hb, d.At)
	if round {
		s.sampleRTT(p, trip)
	}
	now := s.now()
	_, known := s.detector.LastHeard(p.node)
	s.swimHeard(p, d.Msg.Boot, &hb, known || round)
	switch {
	case hb.Leaving:
		p.left = lastWord{boot: d.Msg.Boot, seq: d.Msg.Seq}
		if t, ok := s.detector.Leaving(p.node); ok {
			s.healthChanged(t)
		}
	case known || round:
		// A host that was never heard counts once it answered: being heard
		// one way only is not being there.
		s.heard(p, d.At)
	}
	s.endpoints.OnHints(p.node, hb.KnownPeers, now, s.net.Directory())
	s.onProbe(p, hb, now)
	s.shares.OnBeat(d.Msg, &hb)
	p.twin.seenBoot = hb.SeenBoot
	s.ownLog.sample(now)
	p.caughtUp = s.ownLog.coveredBy(hb.Log, hb.LogEvents, now)
	if hb.Members != wire.Digest(s.records.Digest()) {
		s.records.Want(p.node, hb.Members)
	}
	confirmed := !known && round
	wanted := hb.EchoUS == 0 || hb.Probe != 0 || confirmed
	if !hb.Leaving && wanted && (p.sentAt == 0 || now-p.sentAt >= replyPause || confirmed) {
		s.beatTo(p.node, now, false)
	}
}

// heard notes a sign of life.
func (s *Service) heard(p *peerState, at time.Duration) {
	t, ok := s.detector.Heard(p.node, at)
	if !ok {
		return
	}
	s.healthChanged(t)
	if t.From == cluster.Dead {
		p.rtt.restart()
		p.probe.next = 0 // perhaps another path
		s.retrySilent(at)
	}
}

// sampleRTT takes a round trip to p.
func (s *Service) sampleRTT(p *peerState, trip time.Duration) {
	if p.rtt.sample(trip) {
		s.m.rtt.WithLabelValues(string(p.node)).Set(p.rtt.mean.Seconds())
	}
}

// compatible refuses a peer of another major version and notes another
// profile, with which hosts may live together but not vote.
func (s *Service) compatible(p *peerState, hb wire.Heartbeat) error {
	ours, theirs := major(s.o.Version), major(hb.Version)
	if ours >= 0 && theirs >= 0 && ours != theirs {
		if !p.compat.major {
			p.compat.major = true
			p.compat.why = "runs version " + hb.Version + ", this host " + s.o.Version + ": other major version"
			s.log.Error().Str("peer", string(p.node)).Str("version", hb.Version).Str("own", s.o.Version).
				Msg("peer runs another major version: its messages are refused")
		}
		return wire.Refuse(reasonMajor, "%s runs %s, this host %s", p.node, hb.Version, s.o.Version)
	}
	if p.compat.major {
		p.compat.major, p.compat.why = false, ""
		s.log.Info().Str("peer", string(p.node)).Str("version", hb.Version).Msg("peer runs a compatible version again")
	}
	s.setProfile(p, hb.Profile)
	return nil
}

// setProfile notes whether a peer's profile is this host's.
func (s *Service) setProfile(p *peerState, theirs cluster.Profile) {
	other := theirs != s.o.Profile
	if other == p.compat.profile {
		return
	}
	p.compat.profile, s.dirty = other, true
	if !other {
		p.compat.why = ""
		s.log.Info().Str("peer", string(p.node)).Msg("peer has the same profile again")
		return
	}
	p.compat.why = "has profile " + strconv.Quote(string(theirs)) + ", this host " + strconv.Quote(string(s.o.Profile))
	s.log.Error().Str("peer", string(p.node)).Str("profile", string(theirs)).Str("own", string(s.o.Profile)).
		Msg("peer has another profile: it takes no part in the lease")
}

// major is the first number of a version, -1 if it has none: a development
// build goes with everything.
func major(version string) int {
	head, _, _ := strings.Cut(strings.TrimPrefix(version, "v"), ".")
	n, err := strconv.Atoi(head)
	if err != nil || n < 0 {
		return -1
	}
	return n
}

// reportPeers tells the core what changed about the others.
func (s *Service) reportPeers(now time.Duration) {
	for _, m := range s.members {
		p := s.peers[m.Node]
		// A host that was never heard is unknown, it does not count; nor does
		// one that was never heard to sign.
		if p == nil {
			continue
		}
		if _, heard := s.detector.LastHeard(m.Node); !p.core.known && (p.beatAt == 0 || !heard) {
			continue
		}
		e := lease.PeerChanged{
			Node: m.Node, Priority: m.Priority,
			Eligible: p.beat.Eligible && !m.Witness && p.compat.why == "",
			Alive:    s.detector.Present(m.Node, now) && p.compat.why == "",
			CaughtUp: p.caughtUp, Gone: now < p.departs, Abstains: p.beat.Abstains,
			Publishing: p.beat.Role == cluster.RolePublisher, Holds: p.holds(), Zone: m.Zone,
		}
		if p.core.known && p.core.PeerChanged == e {
			continue
		}
		p.core, s.dirty = reported{PeerChanged: e, known: true}, true
		s.elector.Step(e)
	}
}

func (s *Service) healthChanged(t member.Transition) {
	s.dirty = true
	if s.peers[t.Node] == nil {
		return
	}
	s.log.Info().Str("peer", string(t.Node)).Str("from", string(t.From)).Str("to", string(t.To)).Msg("health changed")
	s.notifier.SetHealth(t.Node, t.To)
	if t.To == cluster.Suspect || t.To == cluster.Dead {
		s.net.Paths().Lost(t.Node)
	}
}

// role is what a heartbeat says of this host's publishing duty.
func (s *Service) role(leaving bool) cluster.Role {
	if s.elector.Authority().MayPublish() && !leaving {
		return cluster.RolePublisher
	}
	return cluster.RoleStandby
}

// checkClaim refuses, in hb, the claim to the publishing duty by a host that
// has not heard of the lease that is valid; the rest of its heartbeat is good.
// A host that was cut off claims so once or twice when it comes back.
func (s *Service) checkClaim(p *peerState, hb *wire.Heartbeat) {
	if hb.Role != cluster.RolePublisher || !s.elector.StaleClaim(hb.Term) {
		return
	}
	hb.Role = cluster.RoleStandby
	s.net.Reject(p.node, wire.Refuse(reasonStaleClaim, "%s claims the publishing duty under term %d, the lease has term %d",
		p.node, hb.Term, s.elector.Status().Term))
}

// holds is the term that p says to hold itself, 0 if none.
func (p *peerState) holds() cluster.Term {
	if p.beat.Holder != p.node {
		return 0
	}
	return p.beat.Term
}

// judge refuses lease messages of a host that takes no part in this lease.
func (s *Service) judge(from cluster.NodeID, profile cluster.Profile) error {
	p := s.peers[from]
	switch {
	case p == nil:
		return wire.Refuse(wire.ReasonUnknownSender, "%s was removed", from)
	case p.compat.major:
		return wire.Refuse(reasonMajor, "%s: %s", from, p.compat.why)
	case profile != s.o.Profile:
		s.setProfile(p, profile)
		return wire.Refuse(reasonProfile, "%s has profile %q, this host %q", from, profile, s.o.Profile)
	}
	return nil
}
