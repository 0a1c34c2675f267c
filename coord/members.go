package coord

import (
	"crypto/ed25519"
	"slices"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/coord/member"
	"github.com/skein-project/skein/coord/swim"
	"github.com/skein-project/skein/lease"
)

// memberCheck is the self-check of being a member.
const memberCheck = "membership"

// membersChanged follows a change of the membership records.
func (s *Service) membersChanged() {
	s.members = s.records.Members()
	dir := s.net.SetMembers(s.members)
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
			s.shares.Add(m.Node)
		}
	}
	s.net.Paths().Set(s.members, s.o.Self)
	for node, p := range s.peers {
		if _, ok := dir.Member(node); !ok {
			s.dropPeer(p)
		}
	}
	if ok := dir.Same(s.o.Self, publicKey(s.o.Key)); s.removed == ok {
		s.removed = !ok
		s.elector.SetSelf(s.self, len(s.members), s.removed)
		reason := ""
		if s.removed {
			reason = "this host is no longer a member"
		}
		s.elector.TellSelf()
		s.elector.SetFailing(memberCheck, reason)
	}
	s.elector.SetSelf(s.self, len(s.members), s.removed)
	if s.running.Load() {
		s.elector.TellSelf()
	}
}

// dropPeer forgets a host that is no longer a member.
func (s *Service) dropPeer(p *peerState) {
	delete(s.peers, p.node)
	s.net.Forget(p.node)
	s.records.Forget(p.node)
	s.introductions.forget(p.node)
	s.shares.Forget(p.node)
	s.endpoints.Forget(p.node)
	s.swimStep(swim.Remove{Node: p.node})
	s.detector.Forget(p.node)
	s.m.rtt.DeleteLabelValues(string(p.node))
	// Also one that was never heard: it may be a voter of before this start.
	s.elector.Step(lease.PeerChanged{Node: p.node, Priority: p.core.Priority, Gone: true})
}

// merged follows records that changed the membership; push says that they come
// from this host, so that everyone is to be told.
func (s *Service) merged(ch member.Change, from cluster.NodeID, push bool) {
	for _, n := range ch.Joined {
		s.log.Info().Str("peer", string(n)).Str("from", string(from)).Msg("member joined")
		s.introduce(n)
	}
	for _, n := range ch.Removed {
		s.log.Info().Str("peer", string(n)).Str("from", string(from)).Bool("left", slices.Contains(ch.Left, n)).Msg("member removed")
	}
	for _, n := range ch.Left {
		s.notifier.SetHealth(n, cluster.Left)
	}
	if push {
		s.records.Push(slices.Concat(ch.Joined, ch.Updated))
	}
	if push && s.swim.core.Active() && slices.Contains(ch.Updated, s.o.Self) {
		// Everyone is to know its next key before it uses it.
		s.introductions.records = len(s.members)
		s.introduceAll()
	}
}

// keyOf returns the identity key of a member.
func (s *Service) keyOf(n cluster.NodeID) (ed25519.PublicKey, bool) {
	m, ok := s.net.Directory().Member(n)
	return ed25519.PublicKey(m.IDPub), ok
}

// formerKeys returns the identity keys that a host had which is no longer a
// member.
func (s *Service) formerKeys(n cluster.NodeID) []ed25519.PublicKey {
	var keys []ed25519.PublicKey
	for _, r := range s.records.Table().Retired() {
		if r.Node == n && len(r.Cert.IDPub) == ed25519.PublicKeySize {
			keys = append(keys, ed25519.PublicKey(r.Cert.IDPub))
		}
	}
	return keys
}
