package daemon

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/coord/join"
	"github.com/skein-project/skein/coord/member"
)

// Bounds of leaving and removing.
const (
	// leaveTime bounds the whole of a leave, answer included.
	leaveTime = 25 * time.Second
	// departTime is how long the holder leaves a voter out that said it goes,
	// and how long it waits for the others to agree.
	departTime = 15 * time.Second
	// departPause lies between two looks at the voters.
	departPause = 50 * time.Millisecond
	// removeWait bounds the wait for the voters before a removal, which then
	// happens all the same.
	removeWait = 8 * time.Second
	// leftLogWait bounds the wait until others have the event of a leave.
	leftLogWait = 3 * time.Second
	// noticeTime bounds the sending of the notice, which takes half a second.
	noticeTime = 3 * time.Second
)

// Ends of a daemon that its cluster wants.
var (
	// errLeft ends the daemon of a host that left, which is no failure.
	errLeft = errors.New("left the cluster")
	// ErrRemoved ends the daemon of a host whose key was revoked.
	ErrRemoved = errors.New("this host was removed from the cluster")
)

// leave takes this host out of the cluster: the voters go on without it, the
// state directory is marked, the log says so, and every member gets the notice
// that ends its key. Until the mark is on the disk everything can be taken
// back; from then on it goes to its end, whoever loses patience, and a host
// that dies within is one that the others remove.
func (s *selfCare) leave(ctx context.Context, actor string) (api.Left, error) {
	ctx, cancel := context.WithTimeout(ctx, leaveTime)
	defer cancel()
	n := s.n
	others := s.others()
	if err := s.mayLeave(others); err != nil {
		return api.Left{}, err
	}
	var rec member.Signed
	if len(others) > 0 {
		var err error
		if rec, err = n.selfRevoke(ctx); err != nil {
			return api.Left{}, fmt.Errorf("leave: %w", err)
		}
		// The holder takes this host out of the voters; if that is this host,
		// it hands over first.
		if _, err := n.toHolder(ctx, remoteRequest{Actor: actor, Depart: &departRequest{Node: n.id.Node}}); err != nil {
			return api.Left{}, err
		}
	}
	if err := join.MarkLeft(n.cfg.StateDir); err != nil {
		return api.Left{}, fmt.Errorf("leave: %w", err)
	}
	s.gone = true
	n.left.Store(true)
	told := []cluster.NodeID{}
	if len(others) > 0 {
		ctx := context.WithoutCancel(ctx) // each step has its own bound
		s.logLeave(ctx, actor)
		told = n.reachable()
		s.notice(ctx, rec)
	}
	n.log.Info().Str("actor", actor).Int("told", len(told)).Msg("left the cluster")
	n.finish(errLeft)
	return api.Left{Told: told}, nil
}

// notice tells the others that this host's key ends.
func (s *selfCare) notice(ctx context.Context, rec member.Signed) {
	ctx, cancel := context.WithTimeout(ctx, noticeTime)
	defer cancel()
	if err := s.n.coord.Leave(ctx, rec); err != nil {
		s.n.log.Warn().Err(err).Msg("notice of leaving not sent to all")
	}
}

// mayLeave refuses a leave that would leave the others without a root key.
func (s *selfCare) mayLeave(others []cluster.NodeID) error {
	if s.gone {
		return api.Errorf(api.CodeConflict, "%s has left the cluster", s.n.id.Node)
	}
	root, err := s.n.rootKey()
	if err != nil {
		return err
	}
	if root != nil && len(others) > 0 {
		return api.Errorf(api.CodeConflict, "the cluster's root key lies on this host, in %s", s.n.cfg.StateDir).
			WithHint("move it to a safe place first: skein root export --out FILE --remove")
	}
	return nil
}

// logLeave writes the event and waits a moment until others have it.
func (s *selfCare) logLeave(ctx context.Context, actor string) {
	ctx, cancel := context.WithTimeout(ctx, leftLogWait)
	defer cancel()
	seq, err := s.n.appendNow(ctx, cluster.KindMemberLeft, cluster.MemberLeft{Node: s.n.id.Node, Actor: actor})
	if err == nil {
		_, err = s.n.events.WaitStable(ctx, seq)
	}
	if err != nil {
		s.n.log.Warn().Err(err).Msg("event of leaving may not reach the others")
	}
}

// selfRevoke signs the end of this host's own key.
func (n *node) selfRevoke(ctx context.Context) (member.Signed, error) {
	var cert member.Cert
	var ok bool
	if err := n.coord.WithTable(ctx, func(t *member.Table) { cert, ok = t.Cert(n.id.Node) }); err != nil {
		return member.Signed{}, err
	}
	if !ok {
		return member.Signed{}, fmt.Errorf("no certificate of %s", n.id.Node)
	}
	return join.Leave(n.id, cert, time.Now())
}

// finish ends the daemon for reason, which the first caller gives.
func (n *node) finish(reason error) {
	select {
	case n.ended <- reason:
	default:
	}
}

// depart is the holder's part: it takes a voter out of the configuration while
// that host can still agree, and answers when the others have agreed. A host
// asks that for itself, a sponsor for whom it is about to remove.
func (n *node) depart(ctx context.Context, from, node cluster.NodeID) *api.Problem {
	ctx, cancel := context.WithTimeout(ctx, departTime)
	defer cancel()
	if from != node && !n.maySponsor(from) {
		return api.Errorf(api.CodeForbidden, "%s may not take %s out of the voters", from, node)
	}
	if p := n.mayDepart(node); p != nil {
		return p
	}
	if p := n.spare(from, favourDepart); p != nil {
		return p
	}
	if node == n.id.Node {
		if err := n.coord.StepDown(ctx, "", "leaves the cluster", false); err != nil {
			return api.Errorf(api.CodeConflict, "%v", err)
		}
		return api.Errorf(api.CodeNoHolder, "%s handed over", node) // who asks follows the lease
	}
	if err := n.coord.Depart(ctx, node, departTime); err != nil {
		return api.Errorf(api.CodeConflict, "%v", err)
	}
	for {
		l := n.coord.View().Lease
		switch {
		case l.Role != cluster.RoleHolder:
			return api.Errorf(api.CodeNoHolder, "%s does not hold the lease any more", n.id.Node)
		case !l.Pending && !l.Config.Has(node):
			return nil
		}
		if err := pauseFor(ctx, departPause); err != nil {
			return api.Errorf(api.CodeTimeout, "voters without %s not agreed upon: %v", node, err)
		}
	}
}

// maySponsor reports whether id is a member that may end others' keys.
func (n *node) maySponsor(id cluster.NodeID) bool {
	m, ok := n.member(id)
	return ok && slices.Contains(m.Caps, member.CapSponsor)
}

// mayDepart refuses to shrink the voters to a set that has no majority alive:
// the lease would be lost, and nobody could mend it.
func (n *node) mayDepart(node cluster.NodeID) *api.Problem {
	v := n.coord.View()
	if !v.Lease.Config.Has(node) {
		return nil
	}
	rest, alive := 0, 0
	var down []cluster.NodeID
	for _, voter := range v.Lease.Config.Voters {
		if voter == node {
			continue
		}
		rest++
		if m, ok := v.Member(voter); ok && m.Health == cluster.Alive {
			alive++
		} else {
			down = append(down, voter)
		}
	}
	switch {
	case rest == 0:
		return api.Errorf(api.CodeNotReady, "%s is the only voter yet", node)
	case alive >= rest/2+1:
		return nil
	}
	return api.Errorf(api.CodeConflict, "without %s only %d of %d voters would be alive, which is no majority", node, alive, rest).
		WithHint("start what is down, or remove it first: skein remove %s", down[0])
}

// at says on which host the actor of a change was, "uid:0@n1".
func (n *node) at(actor string) string { return actor + "@" + string(n.id.Node) }

// Leave implements status.MeshControl.
func (b backend) Leave(ctx context.Context, actor string) (api.Left, error) {
	actor = b.at(actor)
	return ask(ctx, b.self, func(ctx context.Context) (api.Left, error) { return b.self.leave(ctx, actor) })
}

// Remove implements status.MeshControl.
func (b backend) Remove(ctx context.Context, actor string, node cluster.NodeID, reason string) (api.Removed, error) {
	if err := (api.RemoveRequest{Reason: reason}).Check(); err != nil {
		return api.Removed{}, err
	}
	if _, ok := b.member(node); !ok {
		switch {
		case b.leftSponsor(node): // see endLeft
		case b.isRetired(node):
			return api.Removed{Member: node}, nil
		default:
			return api.Removed{}, api.Errorf(api.CodeNotFound, "no member %s", node).WithHint("see `skein members`")
		}
	}
	if node == b.id.Node {
		return api.Removed{}, api.Errorf(api.CodeConflict, "%s is the host that was asked", node).WithHint("run `skein leave` here, or remove it on another host")
	}
	reply, err := b.toSponsor(ctx, remoteRequest{Actor: b.at(actor), Remove: &removeRequest{Node: node, Reason: reason}})
	if err != nil {
		return api.Removed{}, err
	}
	return api.Removed{Member: node, By: reply.By}, nil
}

// remove is the sponsor's part of a removal. The revocation is signed before
// anything happens, so that what cannot be signed changes nothing; then the
// voters go on without the host, and then its key ends.
func (n *node) remove(ctx context.Context, from cluster.NodeID, actor string, req removeRequest) remoteReply {
	done := remoteReply{By: n.id.Node}
	if err := (api.RemoveRequest{Reason: req.Reason}).Check(); err != nil {
		return remoteReply{Problem: problemOf(err)}
	}
	sponsor := n.sponsor.Load()
	if sponsor == nil {
		return lacking(n.notSponsor())
	}
	root, err := n.rootKey()
	if err != nil {
		return remoteReply{Problem: api.Errorf(api.CodeInternal, "%v", err)}
	}
	m, ok := n.member(req.Node)
	switch {
	case !ok && n.leftSponsor(req.Node) && root != nil && (from == n.id.Node || n.maySponsor(from)):
		return n.endLeft(ctx, sponsor, actor, req)
	case !ok && n.isRetired(req.Node):
		return done
	case !ok:
		return remoteReply{Problem: api.Errorf(api.CodeNotFound, "no member %s", req.Node).WithHint("see `skein members`")}
	case req.Node == n.id.Node:
		return lacking(api.Errorf(api.CodeConflict, "%s does not remove itself", req.Node).
			WithHint("run `skein leave` there; if it is a sponsor, another host with the root key can remove it"))
	case slices.Contains(m.Caps, member.CapSponsor) && root == nil:
		return lacking(problemNeedRoot(req.Node))
	case slices.Contains(m.Caps, member.CapSponsor) && from != n.id.Node && !n.maySponsor(from):
		return remoteReply{Problem: api.Errorf(api.CodeForbidden, "%s is a sponsor, and %s is none: it may not have it removed", req.Node, from).
			WithHint("%s", askSponsors([]cluster.NodeID{n.id.Node}))}
	}
	if p := n.spare(from, favourRemove); p != nil {
		return remoteReply{Problem: p}
	}
	rec, err := sponsor.Revoke(ctx, req.Node, req.Reason)
	switch {
	case errors.Is(err, join.ErrNotSponsor), errors.Is(err, join.ErrNeedRoot):
		return lacking(problemNeedRoot(req.Node))
	case err != nil:
		return remoteReply{Problem: api.Errorf(api.CodeConflict, "remove %s: %v", req.Node, err)}
	}
	if p := n.departs(ctx, actor, req.Node); p != nil {
		return remoteReply{Problem: p}
	}
	if err := n.coord.Leave(ctx, rec); err != nil {
		return remoteReply{Problem: api.Errorf(api.CodeConflict, "remove %s: %v", req.Node, err)}
	}
	n.log.Info().Str("peer", string(req.Node)).Str("actor", actor).Str("reason", req.Reason).Msg("member removed")
	n.record(ctx, cluster.KindMemberRemoved, cluster.MemberRemoved{Node: req.Node, IDPub: m.IDPub, Actor: actor, Reason: req.Reason})
	return done
}

// endLeft lets the root key end a sponsor that left: a thief of its key may have
// signed that, and goes on to sign by dates before it otherwise.
func (n *node) endLeft(ctx context.Context, sponsor *join.Sponsor, actor string, req removeRequest) remoteReply {
	rec, err := sponsor.Revoke(ctx, req.Node, req.Reason)
	if err == nil {
		err = n.coord.Leave(ctx, rec)
	}
	if err != nil {
		return remoteReply{Problem: api.Errorf(api.CodeConflict, "remove %s: %v", req.Node, err)}
	}
	n.log.Info().Str("peer", string(req.Node)).Str("actor", actor).Str("reason", req.Reason).Msg("sponsor that left removed")
	n.record(ctx, cluster.KindMemberRemoved, cluster.MemberRemoved{Node: req.Node, IDPub: n.keyOf(req.Node), Actor: actor, Reason: req.Reason})
	return remoteReply{By: n.id.Node}
}

// problemNeedRoot answers who asks for the end of a sponsor where the root key
// is not.
func problemNeedRoot(node cluster.NodeID) *api.Problem {
	return api.Errorf(api.CodeConflict, "%s is a sponsor: only the root key ends its key", node).
		WithHint("bring the key to a host that is up, `skein root import FILE`, and remove %s there; or run `skein leave` on %s itself", node, node)
}

// departs takes a voter that is to be removed out of the configuration. Only a
// holder's refusal stops the removal.
func (n *node) departs(ctx context.Context, actor string, node cluster.NodeID) *api.Problem {
	if !n.coord.View().Lease.Config.Has(node) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, removeWait)
	defer cancel()
	_, err := n.toHolder(ctx, remoteRequest{Actor: actor, Depart: &departRequest{Node: node}})
	if p, ok := errors.AsType[*api.Problem](err); ok && p.Code == api.CodeConflict {
		return p
	} else if err != nil {
		n.log.Warn().Err(err).Str("peer", string(node)).Msg("removed without the holder's help")
	}
	return nil
}

// pauseFor waits for d or until ctx ends.
func pauseFor(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
