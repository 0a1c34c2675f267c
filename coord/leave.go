package coord

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/coord/member"
	"github.com/skein-project/skein/coord/wire"
)

const (
	// leaveRounds and leavePause say how often a host says that it leaves:
	// afterwards nobody can ask it.
	leaveRounds = 4
	leavePause  = 150 * time.Millisecond
	// forwardTo is how many others a host passes a revocation on to that it
	// was told of. All heard of it already; this mends losses at once, and
	// the digests of the next heartbeats the rest.
	forwardTo = 16
)

// revocation is a revocation that is new here.
type revocation struct {
	id  member.Revoke
	rec member.Signed
}

// Leave takes a revocation, this host's own or one that a sponsor signed for
// another, and tells every member at once; it returns when that is sent,
// several times since datagrams get lost. A host that revoked itself gives the
// lease up before and says nothing after that.
func (s *Service) Leave(ctx context.Context, rec member.Signed) error {
	r, err := member.ParseRevoke(rec)
	if err != nil {
		return fmt.Errorf("leave: %w", err)
	}
	own := publicKey(s.o.Key).Equal(r.IDPub)
	var members []cluster.Member // as they were
	var refused error
	err = s.call(ctx, func() {
		members = s.members
		if own {
			s.leaving = true
			s.stopLease()
		}
		refused = s.addRecords(member.Records{Revokes: []member.Signed{rec}}, "", true)
	})
	if err = errors.Join(err, refused); err != nil {
		return fmt.Errorf("leave: %w", err)
	}
	for range leaveRounds - 1 {
		if err := pause(ctx, leavePause); err != nil {
			return fmt.Errorf("leave: %w", err)
		}
		err := s.call(ctx, func() { s.sendRevoke(rec, members, len(members)) })
		if err != nil {
			return fmt.Errorf("leave: %w", err)
		}
	}
	return nil
}

// newRevokes returns the revocations of keys that are not revoked here yet.
func (s *Service) newRevokes(rs []member.Signed) []revocation {
	var out []revocation
	for _, rec := range rs {
		if r, err := member.ParseRevoke(rec); err == nil && !s.table.Revoked(r.IDPub) {
			out = append(out, revocation{id: r, rec: rec})
		}
	}
	return out
}

// pushRevokes spreads those of rs that the table took: to everyone if they
// come from this host, else to some that were not necessarily told.
func (s *Service) pushRevokes(rs []revocation, targets []cluster.Member, from cluster.NodeID, all bool) {
	n := forwardTo
	if all {
		n = len(targets)
	}
	for _, r := range rs {
		if !s.table.Revoked(r.id.IDPub) {
			continue // refused
		}
		s.log.Info().Str("from", string(from)).Str("reason", r.id.Reason).Msg("key revoked")
		s.sendRevoke(r.rec, targets, n)
	}
}

// sendRevoke sends a revocation to n of the hosts, beginning behind the own
// place, so that those who pass it on do not all tell the same.
func (s *Service) sendRevoke(rec member.Signed, hosts []cluster.Member, n int) {
	start := slices.IndexFunc(hosts, func(m cluster.Member) bool { return m.Node == s.o.Self }) + 1
	for i := range hosts {
		m := hosts[(start+i)%len(hosts)]
		if m.Node == s.o.Self {
			continue
		}
		if n--; n < 0 {
			return
		}
		data, err := s.seal(m.Node, wire.TypeRevoke, wire.Revoke{Record: rec.String()})
		if err != nil {
			s.m.unsent.WithLabelValues("seal").Inc()
			return
		}
		s.queue(datagram{to: s.udpAddr(m), kind: wire.TypeRevoke, data: data})
	}
}

// onRevoke takes a revocation that a peer passed on; its signature decides,
// not who brought it.
func (s *Service) onRevoke(d delivery, r wire.Revoke) {
	rec, err := member.ParseSigned(r.Record)
	if err == nil {
		err = s.addRecords(member.Records{Revokes: []member.Signed{rec}}, d.msg.Node, false)
	}
	if err != nil {
		s.refuseRecord(d.msg.Node, err)
	}
}

// Tune changes what may change while the service runs.
func (s *Service) Tune(t Tunables) {
	next := &tuned{tolerance: t.Tolerance, legacy: make(map[cluster.NodeID]bool, len(t.Legacy))}
	if next.tolerance <= 0 {
		next.tolerance = DefaultTolerance
	}
	for _, n := range t.Legacy {
		next.legacy[n] = true
	}
	s.tuned.Store(next)
}
