package daemon

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/coord"
	"github.com/skein-project/skein/lease"
)

// showVotersTime bounds the way to the holder, which knows more of the voters.
const showVotersTime = 2 * time.Second

// Voters implements status.LeaseControl. What only the holder knows is asked
// there; if it does not answer, this host shows what it knows.
func (b backend) Voters(ctx context.Context) (api.Voters, error) {
	v := b.coord.View()
	if v.Lease.Holder == "" || v.Lease.Holder == b.id.Node {
		return votersOf(v), nil
	}
	ctx, cancel := context.WithTimeout(ctx, showVotersTime)
	defer cancel()
	reply, err := b.ask(ctx, v.Lease.Holder, remoteRequest{ShowVoters: &struct{}{}}, true)
	if err != nil || reply.Voters == nil {
		return votersOf(v), nil
	}
	reply.Voters.Header = api.Header{}
	return *reply.Voters, nil
}

// SetVoters implements status.LeaseControl.
func (b backend) SetVoters(ctx context.Context, actor string, req api.VotersRequest) (api.Voters, error) {
	reply, err := b.toHolder(ctx, remoteRequest{Actor: b.at(actor), Voters: &req})
	if err != nil {
		return api.Voters{}, err
	}
	reply.Voters.Header = api.Header{}
	return *reply.Voters, nil
}

// votersOf shows who votes, shall vote or could, as v has it.
func votersOf(v *coord.View) api.Voters {
	l := v.Lease
	out := api.Voters{
		Config: apiConfig(l.Config), Target: slices.Clone(l.Target), TargetAuto: l.TargetAuto, Holder: l.Holder, Voters: []api.Voter{},
	}
	if l.Role == cluster.RoleHolder {
		out.Pending = new(l.Pending)
	}
	known := map[cluster.NodeID]bool{}
	add := func(id cluster.NodeID) {
		if known[id] {
			return
		}
		known[id] = true
		x := api.Voter{Node: id, State: cluster.Left, Voter: l.Config.Has(id), Target: slices.Contains(l.Target, id)}
		if m, ok := v.Member(id); ok {
			x.Zone, x.State, x.Priority, x.Witness = m.Zone, m.Health, m.Priority, m.Witness
			x.Abstaining = abstains(v, id)
		}
		if i := slices.IndexFunc(l.Acks, func(a lease.VoterStatus) bool { return a.Node == id && a.Epoch != 0 }); i >= 0 {
			x.Epoch = new(l.Acks[i].Epoch)
		}
		out.Voters = append(out.Voters, x)
	}
	for _, m := range v.Members {
		add(m.Node)
	}
	for _, id := range slices.Concat(l.Config.Voters, l.Target) {
		add(id) // one that left is still to go
	}
	slices.SortFunc(out.Voters, func(x, y api.Voter) int { return cmp.Compare(x.Node, y.Node) })
	return out
}

// abstaining lists who is known to grant nothing for want of its votes: voters,
// and this host also while it is taken out of them to be admitted again.
func abstaining(v *coord.View) []cluster.NodeID {
	out := slices.DeleteFunc(slices.Clone(v.Lease.Config.Voters), func(id cluster.NodeID) bool { return abstains(v, id) == "" })
	if v.Lease.Abstaining != "" && !slices.Contains(out, v.Self) {
		out = append(out, v.Self)
		slices.Sort(out)
	}
	return out
}

// abstains says why voter id grants nothing, as far as this host knows, empty
// if it does: of itself a host knows it, others say so.
func abstains(v *coord.View, id cluster.NodeID) string {
	if id == v.Self {
		return v.Lease.Abstaining
	}
	const lost = "its record of votes was lost"
	for _, a := range v.Lease.Acks {
		if a.Node == id && a.Abstaining {
			return lost
		}
	}
	if m, ok := v.Member(id); ok && m.Health == cluster.Alive && m.Abstains {
		return lost
	}
	return ""
}

// setVoters is the holder's part: it judges the request, hands it to the lease
// core and writes down who asked.
func (n *node) setVoters(ctx context.Context, from cluster.NodeID, actor string, req api.VotersRequest) remoteReply {
	if err := req.Check(); err != nil {
		return remoteReply{Problem: problemOf(err)}
	}
	// Who chooses the voters decides who may schedule: one plain member that
	// was taken over must not.
	if from != n.id.Node && !n.maySponsor(from) {
		return remoteReply{Problem: api.Errorf(api.CodeForbidden, "%s is no sponsor: it may not change the voters", from).
			WithHint("do it on the holder, %s, or on a sponsor: see `skein members -o wide`", n.id.Node)}
	}
	var want lease.SetVoters
	// Of two requests at once the later builds on the earlier.
	err := n.coord.ChangeVoters(ctx, func(v *coord.View) (lease.SetVoters, error) {
		w, p := wantVoters(v, req)
		if p == nil {
			p = n.spare(from, favourVoters)
		}
		if p != nil {
			return w, p
		}
		want = w
		return w, nil
	})
	switch {
	case errors.Is(err, coord.ErrNotHolder):
		return remoteReply{Problem: api.Errorf(api.CodeNoHolder, "%v", err)}
	case errors.Is(err, lease.ErrVoters):
		return remoteReply{Problem: api.Errorf(api.CodeConflict, "%v", err).WithHint("see `skein lease voters` and `skein members -o wide`; `skein lease step-down --to NODE` lets another hold")}
	case err != nil:
		return remoteReply{Problem: problemOf(err)}
	}
	n.log.Info().Str("actor", actor).Strs("voters", names(want.Voters)).Str("mode", string(want.Mode)).Bool("auto", want.Auto).
		Msg("voters wanted")
	n.record(ctx, cluster.KindVotersSet, cluster.VotersSet{Voters: want.Voters, Mode: want.Mode, Auto: want.Auto, Actor: actor})
	out := votersOf(n.coord.View())
	if !want.Auto {
		out.Target = want.Voters
	}
	out.TargetAuto = want.Auto
	for i, x := range out.Voters {
		out.Voters[i].Target = slices.Contains(out.Target, x.Node)
	}
	return remoteReply{Voters: &out}
}

// wantVoters turns what an operator asks for into the whole set that shall
// vote. It refuses a set that could not hold the lease now: to get there the
// old and the new voters must agree, and until they do nobody may act.
func wantVoters(v *coord.View, req api.VotersRequest) (lease.SetVoters, *api.Problem) {
	l := v.Lease
	want := lease.SetVoters{Mode: req.Mode}
	now := l.Target
	switch {
	case req.Auto, len(req.Voters) == 0 && req.Add == "" && req.Remove == "" && l.TargetAuto:
		want.Auto = true
		return want, nil
	case len(req.Voters) > 0:
		want.Voters = slices.Sorted(slices.Values(req.Voters))
	case req.Add != "":
		want.Voters = slices.Clone(now)
		if i, ok := slices.BinarySearch(now, req.Add); !ok {
			want.Voters = slices.Insert(want.Voters, i, req.Add)
		}
	default:
		want.Voters = slices.DeleteFunc(slices.Clone(now), func(id cluster.NodeID) bool { return id == req.Remove })
	}
	if req.Remove != "" && !isMember(v, req.Remove) && !l.Config.Has(req.Remove) {
		return want, noMember(req.Remove)
	}
	switch {
	case len(want.Voters) == 0:
		return want, api.Errorf(api.CodeConflict, "nobody would vote")
	case len(want.Voters) > cluster.MaxVoters:
		return want, api.Errorf(api.CodeConflict, "%d voters, at most %d are possible", len(want.Voters), cluster.MaxVoters)
	}
	return want, mayVote(v, want.Voters)
}

// mayVote says why these cannot be the voters now.
func mayVote(v *coord.View, voters []cluster.NodeID) *api.Problem {
	var down []string
	holders := 0
	for _, id := range voters {
		m, ok := v.Member(id)
		switch {
		case !ok:
			return noMember(id)
		case m.Incompatible != "" && !v.Lease.Config.Has(id):
			return api.Errorf(api.CodeConflict, "%s cannot vote: %s", id, m.Incompatible).WithHint("see `skein members -o wide`")
		case m.Health != cluster.Alive && !v.Lease.Config.Has(id):
			return api.Errorf(api.CodeConflict, "%s cannot become a voter: it is %s", id, m.Health).WithHint("start it first, or leave it out")
		case m.Health != cluster.Alive || m.Incompatible != "" || abstains(v, id) != "":
			down = append(down, string(id))
		}
		if !m.Witness {
			holders++
		}
	}
	if alive, need := len(voters)-len(down), len(voters)/2+1; alive < need {
		return api.Errorf(api.CodeConflict, "of these %d voters only %d work, which is no majority", len(voters), alive).
			WithHint("see to %s, or leave out who is gone for good", strings.Join(down, " and "))
	}
	if holders == 0 {
		return api.Errorf(api.CodeConflict, "all of these are witnesses, which never hold the lease")
	}
	return nil
}

func isMember(v *coord.View, id cluster.NodeID) bool {
	_, ok := v.Member(id)
	return ok
}

func noMember(id cluster.NodeID) *api.Problem {
	return api.Errorf(api.CodeNotFound, "no member %s", id).WithHint("see `skein members`")
}
