package membership

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/coord/join"
	"github.com/skein-project/skein/coord/member"
	"github.com/skein-project/skein/forward"
)

// removeWait bounds the wait for the voters before a removal. The removal happens
// even if they did not answer.
const removeWait = 8 * time.Second

// Remove ends a member's key. The revocation is signed before anything else
// happens, so that a removal that cannot be signed changes nothing. Then the
// voters go on without the host, and only then does its key end.
func (s *Sponsor) Remove(ctx context.Context, by forward.Asker, req forward.RemoveNode) (forward.Removed, error) {
	var none forward.Removed
	done := forward.Removed{By: s.o.Identity.Node}
	sponsor := s.sponsor.Load()
	if sponsor == nil {
		return none, forward.Lacking(s.NotSponsor())
	}
	root, err := s.rootKey()
	if err != nil {
		return none, api.Errorf(api.CodeInternal, "%v", err)
	}
	m, ok := s.o.Roster.Member(req.Node)
	switch {
	case !ok && s.o.Roster.LeftSponsor(req.Node) && root != nil && (by.Own() || s.o.Roster.IsSponsor(by.From)):
		return s.endLeft(ctx, sponsor, by.Actor, req)
	case !ok && s.o.Roster.IsRetired(req.Node):
		return done, nil
	case !ok:
		return none, api.NoMember(req.Node)
	case req.Node == s.o.Identity.Node:
		return none, forward.Lacking(api.Errorf(api.CodeConflict, "%s does not remove itself", req.Node).
			WithHint("run `skein leave` there; if it is a sponsor, another host with the root key can remove it"))
	case slices.Contains(m.Caps, member.CapSponsor) && root == nil:
		return none, forward.Lacking(problemNeedRoot(req.Node))
	case slices.Contains(m.Caps, member.CapSponsor) && !by.Own() && !s.o.Roster.IsSponsor(by.From):
		return none, api.Errorf(api.CodeForbidden, "%s is a sponsor: %s, which is not one, may not have it removed", req.Node, by.From).
			WithHint("%s", forward.SponsorHint([]cluster.NodeID{s.o.Identity.Node}))
	}
	if err := by.Spend(); err != nil {
		return none, err
	}
	rec, err := sponsor.Revoke(ctx, req.Node, req.Reason)
	switch {
	case errors.Is(err, join.ErrNotSponsor), errors.Is(err, join.ErrNeedRoot):
		return none, forward.Lacking(problemNeedRoot(req.Node))
	case err != nil:
		return none, api.Errorf(api.CodeConflict, "remove %s: %v", req.Node, err)
	}
	if p := s.departs(ctx, by.Actor, req.Node); p != nil {
		return none, p
	}
	if err := s.o.Coord.Leave(ctx, rec); err != nil {
		return none, api.Errorf(api.CodeConflict, "remove %s: %v", req.Node, err)
	}
	s.o.Logger.Info().Str("peer", string(req.Node)).Str("actor", by.Actor).Str("reason", req.Reason).Msg("member removed")
	s.o.Journal.Record(ctx, event.KindMemberRemoved, event.MemberRemoved{Node: req.Node, IDPub: m.IDPub, Actor: by.Actor, Reason: req.Reason})
	return done, nil
}

// endLeft ends the key of a sponsor that left, by the root key. Whoever stole
// that key may have signed the departure, and could otherwise go on to sign
// records dated before it.
func (s *Sponsor) endLeft(ctx context.Context, sponsor *join.Sponsor, actor string, req forward.RemoveNode) (forward.Removed, error) {
	rec, err := sponsor.Revoke(ctx, req.Node, req.Reason)
	if err == nil {
		err = s.o.Coord.Leave(ctx, rec)
	}
	if err != nil {
		return forward.Removed{}, api.Errorf(api.CodeConflict, "remove %s: %v", req.Node, err)
	}
	s.o.Logger.Info().Str("peer", string(req.Node)).Str("actor", actor).Str("reason", req.Reason).Msg("sponsor that left removed")
	s.o.Journal.Record(ctx, event.KindMemberRemoved, event.MemberRemoved{Node: req.Node, IDPub: s.o.Roster.KeyOf(req.Node), Actor: actor, Reason: req.Reason})
	return forward.Removed{By: s.o.Identity.Node}, nil
}

// problemNeedRoot refuses to remove a sponsor on a host without the root key.
func problemNeedRoot(node cluster.NodeID) *api.Problem {
	return api.Errorf(api.CodeConflict, "%s is a sponsor: only the root key ends its key", node).
		WithHint("bring the key to a host that is up, `skein root import FILE`, and remove %s there; or run `skein leave` on %s itself", node, node)
}

// departs has a voter taken out of the configuration before its removal. Only a
// refusal by the holder stops the removal.
func (s *Sponsor) departs(ctx context.Context, actor string, node cluster.NodeID) *api.Problem {
	if !s.o.Coord.View().Lease.Config.Has(node) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, removeWait)
	defer cancel()
	err := s.o.Depart(ctx, actor, node)
	if p, ok := errors.AsType[*api.Problem](err); ok && p.Code == api.CodeConflict {
		return p
	} else if err != nil {
		s.o.Logger.Warn().Err(err).Str("peer", string(node)).Msg("removed although the holder did not take it out of the voters")
	}
	return nil
}
