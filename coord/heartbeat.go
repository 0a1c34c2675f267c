package coord

import (
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/coord/member"
	"github.com/skein-project/skein/coord/path"
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
	// maxRTT bounds a credible echo.
	maxRTT = time.Minute
	// firstRTTs are the samples of which the least counts, all but the very
	// first: that one waited for a handshake of the mesh.
	firstRTTs = 8
	// logSamples and caughtUpWithin say how old a state of the own log may be
	// for a host that has it to count as caught up.
	logSamples     = 32
	caughtUpWithin = 3 * time.Second
)

// peerState is what the loop remembers of another member.
type peerState struct {
	node     cluster.NodeID
	addr     net.Addr
	since    time.Duration  // when it became a member here
	beat     wire.Heartbeat // last one
	beatAt   time.Duration  // when it came; 0: none yet
	skew     time.Duration  // of its clock, by that one
	sentAt   time.Duration  // last heartbeat to it
	toldAt   time.Duration  // last announcement to it
	echoed   time.Duration  // when the newest heartbeat that it answered was sent
	rtt      time.Duration
	rtts     int               // samples in rtt, counted up to firstRTTs
	reported lease.PeerChanged // last told to the core
	known    bool              // reported is valid

	queued   bool // in Service.announce
	caughtUp bool
	departs  time.Duration // until when the lease does without it, see Depart

	major        bool   // runs another major version
	profile      bool   // has another profile
	incompatible string // why, for people

	leftBoot, leftSeq uint64 // its last word's, of the last start that said one

	probe  probeState
	probed uint32        // length of its last probe
	probeT time.Duration // when that came

	pull pullState

	intro introState
	hints []hint // backends that it calls unhealthy

	seenBoot  uint64 // what its last heartbeat says to hear of this host, if that is two
	duplicate bool   // two processes of it are heard
}

// logSample is a state of the own log.
type logSample struct {
	LogState
	at time.Duration
}

// beat sends a round of heartbeats and sets the time of the next.
func (s *Service) beat(now time.Duration) {
	// A tenth of jitter keeps hosts that started together apart.
	every := s.o.Timing.Heartbeat
	s.beatAt = now + every - every/20 + time.Duration(s.o.Rand()*float64(every/10))
	s.sampleLog(now)
	s.drain(s.o.Local().Draining)
	s.look(now)
	s.roundSwim(now)
	s.beatAll(now, false)
	s.dirty = true
}

func (s *Service) beatAll(now time.Duration, leaving bool) {
	for _, node := range s.direct(now, leaving) {
		p := s.peers[node]
		if !leaving && s.detector.Health(node) != cluster.Alive &&
			now-s.lastSign(p) >= announceAgain && now-p.toldAt >= announceAgain {
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
	st := s.lease.Status()
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
		case full != nil && p.queued && !leaving: // its introduction is a heartbeat
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
			s.detector.SetSlack(m.Node, s.onionSlack(m.Node))
		} else {
			s.detector.SetSlack(m.Node, slack+s.onionSlack(m.Node))
		}
	}
	return append(first, rest...)
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
	st, local, own := s.lease.Status(), s.o.Local(), s.ownLog()
	hb := wire.Heartbeat{
		Role: s.role(leaving), LastPublish: local.LastPublish, IntroPoints: s.introCount(local), Intro: s.intro.digest,
		Version: s.o.Version, Profile: s.o.Profile, Zone: s.self.Zone, Priority: s.self.Priority, Witness: s.self.Witness,
		Eligible: s.eligible() && !leaving, Leaving: leaving, Term: st.Term, Holder: st.Holder,
		Abstains: st.Abstaining != "", Members: s.digest, Log: own.Digest, LogEvents: min(own.Events, wire.MaxNumber),
		Slots: local.Slots, Busy: min(local.Busy, local.Slots), SentUS: uint64(now.Microseconds()),
		KnownPeers: []wire.PeerHint{}, Inc: new(s.swim.core.Incarnation()),
	}
	if p.beatAt > 0 && p.beat.SentUS > 0 {
		hb.EchoUS, hb.HeldUS = p.beat.SentUS, uint64(max(0, now-p.beatAt).Microseconds())
	}
	hb.SeenBoot = s.duplicates.boot(p.node, now)
	if p.probed != 0 && now-p.probeT < probeEcho {
		hb.ProbeEcho = p.probed
	}
	return hb
}

// beatTo sends one heartbeat: the fewer hints about other hosts, the longer
// the names, so that it always fits.
func (s *Service) beatTo(to cluster.NodeID, now time.Duration, leaving bool) {
	p := s.peers[to]
	if p == nil || s.removed {
		return
	}
	hb := s.ownBeat(p, now, leaving)
	hints := s.hints(to)
	for {
		hb.KnownPeers = hints
		err := s.send(to, wire.TypeHeartbeat, hb)
		if err == nil {
			p.sentAt = now
			return
		}
		if wire.ReasonOf(err) != wire.ReasonSize || len(hints) == 0 {
			if s.logGate.pass("beat/" + string(to)) {
				s.log.Warn().Err(err).Str("peer", string(to)).Msg("heartbeat not sent")
			}
			return
		}
		hints = hints[:len(hints)-1]
	}
}

// onHeartbeat learns what a peer says of itself.
func (s *Service) onHeartbeat(d delivery, hb wire.Heartbeat) {
	p := s.peers[d.msg.Node]
	if p == nil {
		return // removed meanwhile
	}
	if d.msg.Boot == p.leftBoot && d.msg.Seq < p.leftSeq {
		return // on its way while the host ended
	}
	if err := s.compatible(p, hb); err != nil {
		s.reject(p.node, err)
		return
	}
	s.checkClaim(p, &hb)
	p.beat, p.beatAt, p.skew = hb, d.at, d.skew
	p.beat.KnownPeers = nil
	round := s.measure(p, hb, d.at)
	now := s.now()
	_, known := s.detector.LastHeard(p.node)
	s.swimHeard(p, d.msg.Boot, &hb, known || round)
	switch {
	case hb.Leaving:
		p.leftBoot, p.leftSeq = d.msg.Boot, d.msg.Seq
		if t, ok := s.detector.Leaving(p.node); ok {
			s.healthChanged(t)
		}
	case known || round:
		// A host that was never heard counts once it answered: being heard
		// one way only is not being there.
		s.heard(p, d.at)
	}
	s.onHints(p.node, hb.KnownPeers, now)
	s.onProbe(p, hb, now)
	s.introBeat(p, d.msg, &hb)
	p.seenBoot = hb.SeenBoot
	s.sampleLog(now)
	p.caughtUp = s.hasLog(hb.Log, hb.LogEvents, now)
	if hb.Members != wire.Digest(s.digest) {
		s.wantPull(p, hb.Members)
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
		p.rtts, p.probe.next = 0, 0 // perhaps another path
		s.retrySilent(at)
	}
}

// onLegacy takes an unsigned heartbeat of a host that was listed for it as a
// sign of life. The lease core hears nothing of such a host.
func (s *Service) onLegacy(d delivery) {
	if p := s.peers[d.msg.Node]; p != nil {
		s.heard(p, d.at)
	}
}

// measure takes the round trip from a heartbeat's echo; it reports whether the
// heartbeat answers one of this host.
func (s *Service) measure(p *peerState, hb wire.Heartbeat, at time.Duration) bool {
	if hb.EchoUS == 0 {
		return false
	}
	sent := time.Duration(hb.EchoUS) * time.Microsecond
	trip := at - sent - time.Duration(hb.HeldUS)*time.Microsecond
	if trip < -time.Millisecond || trip > maxRTT {
		return false // of an earlier start, or nonsense
	}
	p.echoed = max(p.echoed, sent)
	s.sampleRTT(p, max(trip, time.Microsecond))
	return true
}

// sampleRTT takes a round trip to p.
func (s *Service) sampleRTT(p *peerState, trip time.Duration) {
	switch {
	case p.rtts == 0:
		p.rtts++
		return
	case p.rtts == 1:
		p.rtt = trip
	case p.rtts < firstRTTs:
		p.rtt = min(p.rtt, trip)
	default:
		p.rtt += (trip - p.rtt) / 8
	}
	p.rtts = min(p.rtts+1, firstRTTs)
	s.m.rtt.WithLabelValues(string(p.node)).Set(p.rtt.Seconds())
}

// compatible refuses a peer of another major version and notes another
// profile, with which hosts may live together but not vote.
func (s *Service) compatible(p *peerState, hb wire.Heartbeat) error {
	ours, theirs := major(s.o.Version), major(hb.Version)
	if ours >= 0 && theirs >= 0 && ours != theirs {
		if !p.major {
			p.major = true
			p.incompatible = "runs version " + hb.Version + ", this host " + s.o.Version + ": other major version"
			s.log.Error().Str("peer", string(p.node)).Str("version", hb.Version).Str("own", s.o.Version).
				Msg("peer runs another major version: its messages are refused")
		}
		return wire.Refuse(reasonMajor, "%s runs %s, this host %s", p.node, hb.Version, s.o.Version)
	}
	if p.major {
		p.major, p.incompatible = false, ""
		s.log.Info().Str("peer", string(p.node)).Str("version", hb.Version).Msg("peer runs a compatible version again")
	}
	s.setProfile(p, hb.Profile)
	return nil
}

// setProfile notes whether a peer's profile is this host's.
func (s *Service) setProfile(p *peerState, theirs cluster.Profile) {
	other := theirs != s.o.Profile
	if other == p.profile {
		return
	}
	p.profile, s.dirty = other, true
	if !other {
		p.incompatible = ""
		s.log.Info().Str("peer", string(p.node)).Msg("peer has the same profile again")
		return
	}
	p.incompatible = "has profile " + strconv.Quote(string(theirs)) + ", this host " + strconv.Quote(string(s.o.Profile))
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

// ownLog is the newest sample of the own log.
func (s *Service) ownLog() LogState {
	if len(s.ownLogs) == 0 {
		return s.o.Log()
	}
	return s.ownLogs[len(s.ownLogs)-1].LogState
}

// sampleLog notes the state of the own log, at most every 50 ms.
func (s *Service) sampleLog(now time.Duration) {
	if n := len(s.ownLogs); n > 0 && now-s.ownLogs[n-1].at < 50*time.Millisecond {
		return
	}
	if len(s.ownLogs) == logSamples {
		s.ownLogs = append(s.ownLogs[:0], s.ownLogs[1:]...)
	}
	s.ownLogs = append(s.ownLogs, logSample{LogState: s.o.Log(), at: now})
}

// hasLog reports whether a log like this lacks nothing that the own one has
// had for a few seconds.
func (s *Service) hasLog(digest wire.Digest, events uint64, now time.Duration) bool {
	within := max(caughtUpWithin, 2*s.o.Timing.Heartbeat)
	for _, old := range slices.Backward(s.ownLogs) {
		if digest == wire.Digest(old.Digest) {
			return true
		}
		if events >= old.Events && old.Events > 0 {
			return true
		}
		if now-old.at > within {
			break
		}
	}
	return false
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
		if _, heard := s.detector.LastHeard(m.Node); !p.known && (p.beatAt == 0 || !heard) {
			continue
		}
		e := lease.PeerChanged{
			Node: m.Node, Priority: m.Priority,
			Eligible: p.beat.Eligible && !m.Witness && p.incompatible == "",
			Alive:    s.detector.Present(m.Node, now) && p.incompatible == "",
			CaughtUp: p.caughtUp, Gone: now < p.departs, Abstains: p.beat.Abstains,
			Publishing: p.beat.Role == cluster.RolePublisher, Holds: p.holds(), Zone: m.Zone,
		}
		if p.known && p.reported == e {
			continue
		}
		p.reported, p.known, s.dirty = e, true, true
		s.step(e)
	}
}

func (s *Service) healthChanged(t member.Transition) {
	s.dirty = true
	if s.peers[t.Node] == nil {
		return
	}
	s.log.Info().Str("peer", string(t.Node)).Str("from", string(t.From)).Str("to", string(t.To)).Msg("health changed")
	s.notifier.setHealth(t.Node, t.To)
	if t.To == cluster.Suspect || t.To == cluster.Dead {
		s.pathStep(path.Lost{Node: t.Node})
	}
}
