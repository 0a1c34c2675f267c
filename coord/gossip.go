package coord

import (
	"encoding/json"
	"errors"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/coord/member"
	"github.com/skein-project/skein/coord/wire"
	"github.com/skein-project/skein/lease"
)

const (
	// maxDirect bounds the hosts that one round of heartbeats goes to; in a
	// larger cluster the voters and the holder come first and the rest in turn.
	maxDirect = 64
	// announceRate bounds introductions per second.
	announceRate = 20
	// replyPause bounds heartbeats sent in answer to one peer's.
	replyPause = 200 * time.Millisecond
	// maxRTT bounds a credible echo.
	maxRTT = time.Minute
	// logSamples and caughtUpWithin say how old a state of the own log may be
	// for a host that has it to count as caught up.
	logSamples     = 32
	caughtUpWithin = 3 * time.Second
)

// peerState is what the loop remembers of another member.
type peerState struct {
	node     cluster.NodeID
	addr     net.Addr
	beat     wire.Heartbeat // last one
	beatAt   time.Duration  // when it came; 0: none yet
	sentAt   time.Duration  // last heartbeat to it
	rtt      time.Duration
	reported lease.PeerChanged // last told to the core
	known    bool              // reported is valid

	logEvents uint64
	caughtUp  bool
	departs   time.Duration // until when the lease does without it, see Depart

	major        bool   // runs another major version
	profile      bool   // has another profile
	incompatible string // why, for people

	pull pullState
}

// heartbeat is the payload that this package sends: wire's, and the size of
// the log, by which a host that is a few events behind is told from one that
// lacks a day.
type heartbeat struct {
	wire.Heartbeat
	LogEvents uint64 `json:"log_events"`
}

// logSample is a state of the own log.
type logSample struct {
	LogState
	at time.Duration
}

// send seals a message and queues it.
func (s *Service) send(to cluster.NodeID, kind wire.Type, payload any) error {
	m, ok := s.dir.Load().byNode[to]
	if !ok {
		return ErrNotMember
	}
	data, err := s.seal(to, kind, payload)
	if err != nil {
		s.m.unsent.WithLabelValues("seal").Inc()
		return err
	}
	s.queue(datagram{to: s.udpAddr(m), kind: kind, data: data})
	return nil
}

func (s *Service) seal(to cluster.NodeID, kind wire.Type, payload any) ([]byte, error) {
	s.seq++
	return wire.Seal(s.o.Key, wire.Header{
		Node: s.o.Self, Time: s.o.Wall().Unix(), Type: kind, To: to, Boot: s.o.Boot, Seq: s.seq,
	}, payload)
}

func (s *Service) queue(d datagram) {
	select {
	case s.sendq <- d:
	default:
		s.m.unsent.WithLabelValues("queue").Inc()
	}
}

func (s *Service) udpAddr(m cluster.Member) net.Addr {
	if p := s.peers[m.Node]; p != nil && p.addr != nil {
		return p.addr
	}
	return net.UDPAddrFromAddrPort(netip.AddrPortFrom(meshAddr(m), s.o.Port))
}

// beat sends a round of heartbeats and sets the time of the next.
func (s *Service) beat(now time.Duration) {
	// A tenth of jitter keeps hosts that started together apart.
	every := s.o.Timing.Heartbeat
	s.beatAt = now + every - every/20 + time.Duration(s.o.Rand()*float64(every/10))
	s.sampleLog(now)
	s.drain(s.o.Local().Draining)
	s.beatAll(now, false)
	s.dirty = true
}

func (s *Service) beatAll(now time.Duration, leaving bool) {
	for _, node := range s.direct() {
		s.beatTo(node, now, leaving)
	}
	s.rotate++
}

// direct returns the hosts that this round's heartbeats go to.
func (s *Service) direct() []cluster.NodeID {
	st := s.lease.Status()
	var first, rest []cluster.NodeID
	for _, m := range s.members {
		switch {
		case m.Node == s.o.Self:
		case m.Node == st.Holder || st.Config.Has(m.Node):
			first = append(first, m.Node)
		default:
			rest = append(rest, m.Node)
		}
	}
	if room := maxDirect - len(first); len(rest) > room {
		start := s.rotate * room % len(rest)
		rest = append(rest[start:], rest[:start]...)[:room]
	}
	return append(first, rest...)
}

// beatTo sends one heartbeat: the fewer hints about other hosts, the longer
// the names, so that it always fits.
func (s *Service) beatTo(to cluster.NodeID, now time.Duration, leaving bool) {
	p := s.peers[to]
	if p == nil {
		return
	}
	st, local, own := s.lease.Status(), s.o.Local(), s.ownLog()
	hb := heartbeat{Heartbeat: wire.Heartbeat{
		Role: cluster.RoleStandby, LastPublish: local.LastPublish, IntroPoints: local.IntroPoints,
		Version: s.o.Version, Profile: s.o.Profile, Zone: s.self.Zone, Priority: s.self.Priority, Witness: s.self.Witness,
		Eligible: s.eligible() && !leaving, Leaving: leaving, Term: st.Term, Holder: st.Holder,
		Members: s.digest, Log: own.Digest, Slots: local.Slots, Busy: min(local.Busy, local.Slots),
		SentUS: uint64(now.Microseconds()),
	}, LogEvents: min(own.Events, wire.MaxNumber)}
	if st.Role == cluster.RoleHolder {
		hb.Role = cluster.RolePublisher
	}
	if p.beatAt > 0 && p.beat.SentUS > 0 {
		hb.EchoUS, hb.HeldUS = p.beat.SentUS, uint64(max(0, now-p.beatAt).Microseconds())
	}
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

// hints names some other members, in turn.
func (s *Service) hints(to cluster.NodeID) []wire.PeerHint {
	out := make([]wire.PeerHint, 0, wire.MaxKnownPeers)
	n := len(s.members)
	for i := range n {
		m := s.members[(s.rotate*wire.MaxKnownPeers+i)%n]
		if m.Node == to || m.Node == s.o.Self || len(m.WGPub) != len(wire.WGKey{}) {
			continue
		}
		h := wire.PeerHint{Node: m.Node, WGPub: wire.WGKey(m.WGPub), TunnelIP: meshAddr(m)}
		if len(m.Endpoints) > 0 {
			h.Endpoint = m.Endpoints[0]
		}
		if out = append(out, h); len(out) == wire.MaxKnownPeers {
			break
		}
	}
	return out
}

// onHeartbeat learns what a peer says of itself.
func (s *Service) onHeartbeat(d delivery, hb wire.Heartbeat) {
	p := s.peers[d.msg.Node]
	if p == nil {
		return // removed meanwhile
	}
	if err := s.compatible(p, hb); err != nil {
		s.reject(p.node, err)
		return
	}
	var extra struct {
		LogEvents uint64 `json:"log_events"`
	}
	if err := json.Unmarshal(d.msg.Payload, &extra); err != nil {
		s.reject(p.node, wire.Refuse(wire.ReasonPayload, "heartbeat: %v", err))
		return
	}
	p.beat, p.beatAt, p.logEvents = hb, d.at, extra.LogEvents
	round := s.measure(p, hb, d.at)
	now := s.now()
	wasJoining := s.detector.Health(p.node) == cluster.Joining
	switch {
	case hb.Leaving:
		if t, ok := s.detector.Leaving(p.node); ok {
			s.healthChanged(t)
		}
	case !wasJoining || round:
		// A host that was never heard counts once it answered: being heard
		// one way only is not being there.
		if t, ok := s.detector.Heard(p.node, d.at); ok {
			s.healthChanged(t)
		}
	}
	s.sampleLog(now)
	p.caughtUp = s.hasLog(hb.Log, extra.LogEvents, now)
	if hb.Members != wire.Digest(s.digest) {
		s.wantPull(p, hb.Members)
	}
	confirmed := wasJoining && round
	if !hb.Leaving && (hb.EchoUS == 0 || confirmed) && (p.sentAt == 0 || now-p.sentAt >= replyPause || confirmed) {
		s.beatTo(p.node, now, false)
	}
}

// measure takes the round trip from a heartbeat's echo; it reports whether the
// heartbeat answers one of this host.
func (s *Service) measure(p *peerState, hb wire.Heartbeat, at time.Duration) bool {
	if hb.EchoUS == 0 {
		return false
	}
	trip := at - time.Duration(hb.EchoUS+hb.HeldUS)*time.Microsecond
	if trip < -time.Millisecond || trip > maxRTT {
		return false // of an earlier start, or nonsense
	}
	trip = max(trip, time.Microsecond)
	if p.rtt == 0 {
		p.rtt = trip
	} else {
		p.rtt += (trip - p.rtt) / 8
	}
	s.m.rtt.WithLabelValues(string(p.node)).Set(p.rtt.Seconds())
	return true
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
		if p == nil || (!p.known && s.detector.Health(m.Node) == cluster.Joining) {
			continue // never heard: unknown, it does not count
		}
		e := lease.PeerChanged{
			Node: m.Node, Priority: m.Priority,
			Eligible: p.beat.Eligible && !m.Witness && p.incompatible == "",
			Alive:    s.detector.Present(m.Node, now) && p.incompatible == "",
			CaughtUp: p.caughtUp, Gone: now < p.departs,
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
}

// onAnnounce merges the records that an announcement brings. Whoever brought
// them, signatures alone decide.
func (s *Service) onAnnounce(d delivery, a wire.PeerAnnounce) {
	if !a.CheckToken(s.o.Secret, d.msg.Node) {
		s.reject(d.msg.Node, wire.Refuse(wire.ReasonRecord, "announcement of %s with a wrong token", d.msg.Node))
		return
	}
	cert, err := member.ParseSigned(a.Cert)
	if err != nil {
		s.reject(d.msg.Node, wire.Refuse(wire.ReasonRecord, "%s: %v", d.msg.Node, err))
		return
	}
	ann, err := member.ParseSigned(a.Ann)
	if err != nil {
		s.reject(d.msg.Node, wire.Refuse(wire.ReasonRecord, "%s: %v", d.msg.Node, err))
		return
	}
	err = s.addRecords(member.Records{Certs: []member.Signed{cert}, Anns: []member.Signed{ann}}, d.msg.Node, false)
	if err == nil {
		return
	}
	if p := s.peers[d.msg.Node]; p != nil && errors.Is(err, member.ErrNoIssuer) {
		s.wantPull(p, wire.Digest{}) // it knows the sponsor that this host lacks
		return
	}
	s.reject(d.msg.Node, wire.Refuse(wire.ReasonRecord, "brought by %s: %v", d.msg.Node, err))
}

// addRecords merges records, whoever brought them, and carries out what
// follows. The error joins the refusals.
func (s *Service) addRecords(rs member.Records, from cluster.NodeID, push bool) error {
	forks := len(s.table.Evidence())
	ch, err := s.table.AddAll(rs, s.o.Wall())
	for _, e := range s.table.Evidence()[min(forks, len(s.table.Evidence())):] {
		s.m.equivocation.Inc()
		s.log.Error().Err(e.Why).Str("peer", string(e.Node)).Msg("records contradict each other")
	}
	if !ch.Stored {
		return err
	}
	s.dirty = true
	s.refreshMembers()
	s.saver.set(s.table.Records())
	s.notifier.setMembers(s.members)
	for _, n := range ch.Joined {
		s.log.Info().Str("peer", string(n)).Str("from", string(from)).Msg("member joined")
		s.introduce(n)
	}
	for _, n := range ch.Removed {
		s.log.Info().Str("peer", string(n)).Str("from", string(from)).Msg("member removed")
	}
	if push {
		s.pushRecords(slices.Concat(ch.Joined, ch.Updated))
	}
	return err
}

// refreshMembers derives from the table what the rest looks at.
func (s *Service) refreshMembers() {
	s.members = s.table.Members()
	s.digest = s.table.Digest()
	dir := newDirectory(s.members)
	s.dir.Store(dir)
	s.streams.prune(dir)
	for _, m := range s.members {
		if m.Node == s.o.Self {
			was := s.self.Priority
			if s.self = m; m.Priority != was {
				s.step(lease.PeerChanged{Node: m.Node, Priority: m.Priority})
			}
			continue
		}
		p := s.peers[m.Node]
		if p == nil {
			p = &peerState{node: m.Node}
			s.peers[m.Node] = p
			s.detector.Add(m.Node)
		}
		p.addr = net.UDPAddrFromAddrPort(netip.AddrPortFrom(meshAddr(m), s.o.Port))
	}
	for node, p := range s.peers {
		if _, ok := dir.byNode[node]; ok {
			continue
		}
		delete(s.peers, node)
		s.detector.Forget(node)
		s.m.rtt.DeleteLabelValues(string(node))
		if p.known {
			gone := p.reported
			gone.Alive, gone.Eligible, gone.CaughtUp, gone.Gone = false, false, false, true
			s.step(gone)
		}
	}
}

// introduce queues this host's own announcement for a member that is new here.
func (s *Service) introduce(to cluster.NodeID) {
	if to != s.o.Self && !slices.Contains(s.announce, to) {
		s.announce = append(s.announce, to)
	}
}

// announceSome sends queued introductions, a bounded number per second.
func (s *Service) announceSome(now time.Duration) {
	if now-s.announceT >= time.Second || s.announceT == 0 {
		s.announceT, s.announceN = max(now, 1), announceRate
	}
	for len(s.announce) > 0 && s.announceN > 0 {
		to := s.announce[0]
		s.announce = s.announce[1:]
		s.announceN--
		s.sendRecords(to, s.o.Self)
		s.beatTo(to, now, false)
	}
}

// pushRecords sends the records of changed members to everyone who lives, so
// that they need not wait for a pull.
func (s *Service) pushRecords(changed []cluster.NodeID) {
	for _, about := range changed {
		for _, to := range s.direct() {
			if to != about && s.detector.Health(to) == cluster.Alive {
				s.sendRecords(to, about)
			}
		}
	}
}

// sendRecords sends one member's records to another.
func (s *Service) sendRecords(to, about cluster.NodeID) {
	m, ok := s.dir.Load().byNode[about]
	cert, ann, have := s.table.Proof(about)
	if !ok || !have || ann.IsZero() || len(m.WGPub) != len(wire.WGKey{}) {
		return
	}
	a := wire.PeerAnnounce{WGPub: wire.WGKey(m.WGPub), TunnelIP: meshAddr(m), Cert: cert.String(), Ann: ann.String()}
	if len(m.Endpoints) > 0 {
		a.Endpoint = m.Endpoints[0]
	}
	a.ClusterToken = wire.AnnounceToken(s.o.Secret, s.o.Self, a)
	if err := s.send(to, wire.TypePeerAnnounce, a); err != nil && s.logGate.pass("announce/"+string(to)) {
		s.log.Warn().Err(err).Str("peer", string(to)).Msg("announcement not sent") // the pull will bring it
	}
}
