package daemon

import (
	"context"
	"crypto/ed25519"
	"errors"
	"net/netip"
	"slices"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/coord/join"
	"github.com/skein-project/skein/coord/member"
)

// roster is the membership for lookups: who is a member, and who was. It is
// immutable.
type roster struct {
	members []cluster.Member
	// retired hosts left or were removed. Their chains of the event log stay,
	// and are checked with their keys.
	retired []member.Retired
}

// rosterOf judges records as the table of the coordination will.
func rosterOf(id *join.Identity, records member.Records) roster {
	t := member.NewTable(id.Verifier())
	_, _ = t.Restore(records, time.Now()) // what is refused is reported by coord
	return roster{members: t.Members(), retired: t.Retired()}
}

// keyOf is the identity key of a host that is or was a member, nil if it is
// neither.
func (r roster) keyOf(id cluster.NodeID) ed25519.PublicKey {
	for _, m := range r.members {
		if m.Node == id {
			return m.IDPub
		}
	}
	for _, m := range r.retired {
		if m.Node == id {
			return m.Cert.IDPub
		}
	}
	return nil
}

// memberList is the members as of the last change.
func (n *node) memberList() []cluster.Member { return n.roster.Load().members }

func (n *node) member(id cluster.NodeID) (cluster.Member, bool) {
	for _, m := range n.memberList() {
		if m.Node == id {
			return m, true
		}
	}
	return cluster.Member{}, false
}

// isRetired reports whether id left or was removed.
func (n *node) isRetired(id cluster.NodeID) bool {
	return slices.ContainsFunc(n.roster.Load().retired, func(r member.Retired) bool { return r.Node == id })
}

// leftSponsor reports whether id was a sponsor and left by its own signature.
func (n *node) leftSponsor(id cluster.NodeID) bool {
	return slices.ContainsFunc(n.roster.Load().retired, func(r member.Retired) bool { return r.Node == id && r.Left && r.Cert.Sponsor() })
}

func (n *node) keyOf(id cluster.NodeID) ed25519.PublicKey { return n.roster.Load().keyOf(id) }

// goneFor is why this host cannot run: it is a member no more.
func (n *node) goneFor() error {
	for _, r := range n.roster.Load().retired {
		if r.Node == n.id.Node && r.Cert.IDPub.Equal(n.id.IDPub) {
			if r.Left {
				return join.ErrLeft
			}
			return ErrRemoved
		}
	}
	return nil
}

// readTableTime bounds one look at the table of members.
const readTableTime = 2 * time.Second

// onMembers makes the rest of the daemon follow the membership. A host that
// finds itself removed ends: without the others it can do nothing, and its key
// is refused for ever.
func (n *node) onMembers(ms []cluster.Member) {
	next := roster{members: ms, retired: n.roster.Load().retired}
	ctx, cancel := context.WithTimeout(context.Background(), readTableTime)
	defer cancel()
	if err := n.coord.WithTable(ctx, func(t *member.Table) { next.retired = t.Retired() }); err != nil {
		n.log.Debug().Err(err).Msg("retired members not read")
	}
	n.roster.Store(&next)
	if err := n.goneFor(); err != nil && !n.left.Load() {
		n.finish(err)
	}
	n.planner.wake()
	n.sched.SetWorkers(workersOf(ms))
	n.sched.SetZones(zonesOf(ms))
	if self, ok := n.member(n.id.Node); ok && meshAddr(self) != n.bound {
		n.finish(errAddress)
	}
}

// errAddress ends the daemon when a sponsor gave this host another address, on
// which its sockets are not.
var errAddress = errors.New("this host has a new mesh address: start again")

// meshAddr is where a member listens inside the mesh.
func meshAddr(m cluster.Member) netip.Addr {
	if m.IP4.IsValid() {
		return m.IP4
	}
	return m.IP6
}

func workersOf(ms []cluster.Member) []cluster.NodeID {
	out := make([]cluster.NodeID, len(ms))
	for i, m := range ms {
		out[i] = m.Node
	}
	return out
}

func zonesOf(ms []cluster.Member) map[cluster.NodeID]string {
	out := make(map[cluster.NodeID]string, len(ms))
	for _, m := range ms {
		out[m.Node] = m.Zone
	}
	return out
}

// onHealth follows what is believed of the others. The holder writes it down:
// what one host believes is news only there.
func (n *node) onHealth(id cluster.NodeID, h cluster.Health) {
	n.sched.SetHealth(id, h)
	was, known := n.healths[id]
	if !known {
		was = cluster.Joining
	}
	if n.healths[id] = h; was != h && n.coord.View().Lease.Role == cluster.RoleHolder {
		n.note(cluster.KindMemberHealth, cluster.MemberHealth{Node: id, From: was, To: h})
	}
}

// conflictTime bounds the way of a contradiction to the holder.
const conflictTime = 10 * time.Second

// onChange sees to it that contradictions among the records are written down.
func (n *node) onChange(_ member.Change, evidence []member.Evidence) {
	for _, e := range evidence {
		if e.Node == n.id.Node {
			n.self.forked.Store(true)
		}
		select {
		case n.conflicts <- cluster.MemberConflict{Node: e.Node, Why: e.Word(), Kept: e.Kept.String(), Other: e.Other.String()}:
		default: // they stay in the table, where doctor finds them
			n.log.Warn().Str("peer", string(e.Node)).Msg("contradiction not reported: too many wait")
		}
	}
}

// conflictsSize is how many contradictions may wait for the holder.
const conflictsSize = 64

// reportConflicts brings contradictions to the holder, which writes each down
// once, though many hosts may see it; until ctx ends.
func (n *node) reportConflicts(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case c := <-n.conflicts:
			try, cancel := context.WithTimeout(ctx, conflictTime)
			_, err := n.toHolder(try, remoteRequest{Conflict: &c})
			cancel()
			if err != nil && ctx.Err() == nil {
				n.log.Warn().Err(err).Str("peer", string(c.Node)).Msg("contradiction not reported to the holder")
			}
		}
	}
}

// Bounds of what the holder takes as a contradiction, and of how many disputes
// it remembers to have written down.
const (
	maxConflictText  = 2048 // one record with its signature, in text form
	maxConflictsKept = 256
)

// noteConflict writes down a contradiction that member from reports, if the
// records prove it and this host has not written down that dispute.
func (n *node) noteConflict(ctx context.Context, from cluster.NodeID, c cluster.MemberConflict) *api.Problem {
	e, ok := evidenceOf(c)
	if !ok {
		return api.Errorf(api.CodeInvalidRequest, "not a contradiction as hosts report it")
	}
	about := e.About()
	if n.conflictNoted(about, false) {
		return nil
	}
	if p := n.spare(from, favourConflict); p != nil {
		return p
	}
	proven := false
	if err := n.coord.WithTable(ctx, func(t *member.Table) { proven = t.Proves(e) }); err != nil {
		return api.Errorf(api.CodeInternal, "%v", err)
	}
	if !proven {
		n.log.Warn().Str("from", string(from)).Str("peer", string(c.Node)).Msg("contradiction reported that the records do not prove")
		return api.Errorf(api.CodeInvalidRequest, "the records do not prove a contradiction")
	}
	if !n.conflictNoted(about, true) {
		n.note(cluster.KindMemberConflict, c)
	}
	return nil
}

// evidenceOf reads c as evidence, of which nothing is verified yet.
func evidenceOf(c cluster.MemberConflict) (member.Evidence, bool) {
	e := member.Evidence{Node: c.Node}
	switch c.Why {
	case member.WhyForked:
		e.Why = member.ErrForked
	case member.WhyConflict:
		e.Why = member.ErrConflict
	default:
		return e, false
	}
	if max(len(c.Kept), len(c.Other)) > maxConflictText {
		return e, false
	}
	var err1, err2 error
	e.Kept, err1 = member.ParseSigned(c.Kept)
	e.Other, err2 = member.ParseSigned(c.Other)
	return e, err1 == nil && err2 == nil
}

// conflictNoted reports whether a dispute is remembered, and remembers it if
// asked to; the oldest is forgotten when there are too many.
func (n *node) conflictNoted(about string, remember bool) bool {
	n.conflictMu.Lock()
	defer n.conflictMu.Unlock()
	known := slices.Contains(n.conflictsKept, about)
	if remember && !known {
		n.conflictsKept = append(n.conflictsKept, about)
		if extra := len(n.conflictsKept) - maxConflictsKept; extra > 0 {
			n.conflictsKept = slices.Delete(n.conflictsKept, 0, extra)
		}
	}
	return known
}
