package coord

import (
	"errors"
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/coord/member"
	"github.com/skein-project/skein/coord/path"
	"github.com/skein-project/skein/coord/swim"
	"github.com/skein-project/skein/coord/wire"
	"github.com/skein-project/skein/lease"
)

const (
	// announceRate bounds introductions per second of a host that is well.
	announceRate = 20
	// announceFull is how many of a start's introductions bring records in a
	// large cluster; the other hosts pull them from those.
	announceFull = 16
	// expireEvery is how often records are looked at that may be over.
	expireEvery = 5 * time.Minute
)

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
	if !s.queueOnion(m, kind, data) {
		s.queue(datagram{to: s.udpAddr(m), kind: kind, data: data})
	}
	return nil
}

func (s *Service) seal(to cluster.NodeID, kind wire.Type, payload any) ([]byte, error) {
	s.seq++
	return wire.Seal(s.o.Key, wire.Header{
		Node: s.o.Self, Time: s.o.Wall().Unix(), Type: kind, To: to, Boot: s.o.Boot, Seq: s.seq,
	}, payload)
}

// queue hands a datagram to the writer, revocations to its fast lane.
func (s *Service) queue(d datagram) {
	lane := s.sendq
	if d.kind == wire.TypeRevoke {
		lane = s.urgent
	}
	select {
	case lane <- d:
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
	// What it says beside the records decides nothing; it must not contradict.
	if c, err := member.ParseCert(cert); err == nil && a.TunnelIP != c.IP4 && a.TunnelIP != c.IP6 {
		s.reject(d.msg.Node, wire.Refuse(wire.ReasonRecord, "%s announces %s at %s, its certificate says otherwise", d.msg.Node, c.Node, a.TunnelIP))
		return
	}
	err = s.addRecords(member.Records{Certs: []member.Signed{cert}, Anns: []member.Signed{ann}}, d.msg.Node, false)
	if err == nil {
		return
	}
	s.refuseRecord(d.msg.Node, err)
}

// refuseRecord counts a record that a peer brought and that the table refused.
// If the table lacks its issuer, the peer is asked for what it has: it may know
// a sponsor that this host does not.
func (s *Service) refuseRecord(from cluster.NodeID, err error) {
	if p := s.peers[from]; p != nil && errors.Is(err, member.ErrNoIssuer) {
		s.m.rejected.WithLabelValues(string(wire.ReasonRecord)).Inc()
		s.rejects.add(wire.ReasonRecord)
		s.wantPull(p, wire.Digest{})
		return
	}
	s.reject(from, wire.Refuse(wire.ReasonRecord, "brought by %s: %v", from, err))
}

// addRecords merges records, whoever brought them, and carries out what
// follows; push says that they come from this host, so that everyone is to be
// told. The error joins the refusals.
func (s *Service) addRecords(rs member.Records, from cluster.NodeID, push bool) error {
	revoking := s.newRevokes(rs.Revokes)
	targets := s.members // the revoked hosts are told as well
	before := s.table.Evidence()
	ch, err := s.table.AddAll(rs, s.o.Wall())
	evidence := newEvidence(before, s.table.Evidence())
	for _, e := range evidence {
		s.m.equivocation.Inc()
		s.log.Error().Err(e.Why).Str("peer", string(e.Node)).Msg("records contradict each other")
	}
	if f := s.o.OnChange; f != nil && (!ch.Empty() || len(evidence) > 0) {
		s.notifier.notice(func() { f(ch, evidence) })
	}
	if !ch.Stored {
		return err
	}
	// Before all else: whoever is revoked is to lose every peer at once.
	s.pushRevokes(revoking, targets, from, push)
	s.stored()
	for _, n := range ch.Joined {
		s.log.Info().Str("peer", string(n)).Str("from", string(from)).Msg("member joined")
		s.introduce(n)
	}
	for _, n := range ch.Removed {
		s.log.Info().Str("peer", string(n)).Str("from", string(from)).Bool("left", slices.Contains(ch.Left, n)).Msg("member removed")
	}
	for _, n := range ch.Left {
		s.notifier.setHealth(n, cluster.Left)
	}
	if push {
		s.pushRecords(slices.Concat(ch.Joined, ch.Updated))
	}
	if push && s.swim.core.Active() && slices.Contains(ch.Updated, s.o.Self) {
		// Everyone is to know its next key before it uses it.
		s.tellRecords = len(s.members)
		s.introduceAll()
	}
	return err
}

// stored follows what the table took: everything that is derived from it, and
// the disk.
func (s *Service) stored() {
	s.dirty, s.tellMembers = true, true
	s.refreshMembers()
	s.saver.set(s.table.Records())
}

// expire lets the table forget what is over.
func (s *Service) expire(now time.Duration) {
	if now < s.expireAt {
		return
	}
	s.expireAt = now + expireEvery
	if s.table.Expire(s.o.Wall()).Stored {
		s.stored()
	}
}

// newEvidence returns what of after is not in before. Both are bounded.
func newEvidence(before, after []member.Evidence) []member.Evidence {
	return slices.DeleteFunc(slices.Clone(after), func(e member.Evidence) bool {
		return slices.ContainsFunc(before, func(o member.Evidence) bool {
			return o.Kept.Equal(e.Kept) && o.Other.Equal(e.Other)
		})
	})
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
			s.self = m
			continue
		}
		p := s.peers[m.Node]
		if p == nil {
			p = &peerState{node: m.Node, since: s.now()}
			s.peers[m.Node] = p
			s.detector.Add(m.Node, s.now())
		}
		p.addr = net.UDPAddrFromAddrPort(netip.AddrPortFrom(meshAddr(m), s.o.Port))
	}
	s.addPaths()
	for node, p := range s.peers {
		if _, ok := dir.byNode[node]; !ok {
			s.dropPeer(p)
		}
	}
	if ok := dir.same(s.o.Self, publicKey(s.o.Key)); s.removed == ok {
		s.removed = !ok
		reason := ""
		if s.removed {
			reason = "this host is no member any more"
		}
		s.tellSelf()
		s.setFailing(memberCheck, reason)
	}
	if s.running.Load() {
		s.tellSelf()
	}
}

// dropPeer forgets a host that is no member any more.
func (s *Service) dropPeer(p *peerState) {
	delete(s.peers, p.node)
	s.pathStep(path.Remove{Node: p.node})
	delete(s.fallback.since, p.node)
	delete(s.endpoints.seen, p.node)
	delete(s.endpoints.seenAs, p.node)
	s.skews.forget(p.node)
	s.swimStep(swim.Remove{Node: p.node})
	s.duplicates.forget(p.node)
	s.detector.Forget(p.node)
	s.m.rtt.DeleteLabelValues(string(p.node))
	// Also one that was never heard: it may be a voter of before this start.
	s.step(lease.PeerChanged{Node: p.node, Priority: p.reported.Priority, Gone: true})
}

// introduce queues this host's own announcement for a member that is new here.
func (s *Service) introduce(to cluster.NodeID) {
	if p := s.peers[to]; p != nil && !s.removed && !p.queued {
		p.queued = true
		s.announce = append(s.announce, to)
	}
}

// introduceAll queues all members, from this host on: many that start at once
// are not to begin with the same.
func (s *Service) introduceAll() {
	i := max(0, slices.IndexFunc(s.members, func(m cluster.Member) bool { return m.Node == s.o.Self }))
	for _, m := range slices.Concat(s.members[i:], s.members[:i]) {
		s.introduce(m.Node)
	}
}

// announceSome sends queued introductions, a bounded number per second.
func (s *Service) announceSome(now time.Duration) {
	if now-s.announceT >= time.Second || s.announceT == 0 {
		s.announceT, s.announceN = max(now, 1), s.slower(announceRate)
	}
	large := s.swim.core.Active()
	for len(s.announce) > 0 && s.announceN > 0 {
		to := s.announce[0]
		s.announce = s.announce[1:]
		p := s.peers[to]
		if p == nil {
			continue // removed meanwhile
		}
		p.queued = false
		if large && s.tellRecords == 0 && p.beatAt > 0 && p.echoed > 0 {
			continue // it was first
		}
		s.announceN--
		if !large || s.tellRecords > 0 {
			s.tellRecords = max(0, s.tellRecords-1)
			s.sendRecords(to, s.o.Self)
		}
		s.beatTo(to, now, false)
		p.toldAt = now
	}
}

// pushRecords sends the records of changed members to everyone who lives, so
// that they need not wait for a pull.
func (s *Service) pushRecords(changed []cluster.NodeID) {
	for _, about := range changed {
		for _, to := range s.reach() {
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
