package coord

import (
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/coord/wire"
	"github.com/skein-project/skein/lease"
)

// MayPublish reports whether this host has the publishing duty: as the holder
// of the lease, or because no lease is visible and no better host is there. It
// is not exclusive, unlike a term: two hosts that do not hear each other both
// have it. It may be called from any goroutine.
func (s *Service) MayPublish() bool { return s.publishing.Load() }

// onDuty follows a change of the publishing duty.
func (s *Service) onDuty(d lease.Duty) {
	if was := s.publishing.Swap(d.Publishing); was != d.Publishing {
		s.log.Info().Bool("publishing", d.Publishing).Str("peer", string(d.Publisher)).Str("reason", d.Why()).
			Uint64("term", uint64(d.Term)).Msg("publishing duty changed")
	}
	s.m.publishing.Set(oneIf(d.Publishing))
}

// endDuty takes the publishing duty back when the loop ends, whoever has it
// then.
func (s *Service) endDuty() {
	if s.publishing.Load() {
		d := lease.Duty{}
		s.onDuty(d)
		s.deliver(d)
	}
}

// role is what a heartbeat says of this host's publishing duty.
func (s *Service) role(leaving bool) cluster.Role {
	if s.publishing.Load() && !leaving {
		return cluster.RolePublisher
	}
	return cluster.RoleStandby
}

// checkClaim refuses, in hb, the claim to the publishing duty by a host that
// has not heard of the lease that is valid; the rest of its heartbeat is good.
// A host that was cut off claims so once or twice when it comes back.
func (s *Service) checkClaim(p *peerState, hb *wire.Heartbeat) {
	if hb.Role != cluster.RolePublisher || !lease.StaleClaim(s.lease, hb.Term) {
		return
	}
	hb.Role = cluster.RoleStandby
	s.reject(p.node, wire.Refuse(reasonStaleClaim, "%s claims the publishing duty under term %d, the lease has term %d",
		p.node, hb.Term, s.lease.Status().Term))
}

// holds is the term that p says to hold itself, 0 if none.
func (p *peerState) holds() cluster.Term {
	if p.beat.Holder != p.node {
		return 0
	}
	return p.beat.Term
}

func oneIf(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
