package voters

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/rs/zerolog"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/backend/convert"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/coord"
	"github.com/skein-project/skein/forward"
	"github.com/skein-project/skein/lease"
)

// Of lists who votes, who is meant to and who could, according to v.
func Of(v *coord.View) api.Voters {
	l := v.Lease
	out := api.Voters{
		Config: convert.LeaseConfig(l.Config), Target: slices.Clone(l.Target), TargetAuto: l.TargetAuto, Holder: l.Holder, Voters: []api.Voter{},
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
			x.Zone, x.State, x.Stopped, x.Priority, x.Witness = m.Zone, m.Health, m.Stopped, m.Priority, m.Witness
			x.Abstaining = v.Abstains(id)
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
		add(id) // also one that left and is still in the configuration
	}
	slices.SortFunc(out.Voters, func(x, y api.Voter) int { return cmp.Compare(x.Node, y.Node) })
	return out
}

// Coord is what a change of the voters needs of the coordination service.
type Coord interface {
	View() *coord.View
	ChangeVoters(ctx context.Context, want func(*coord.View) (lease.SetVoters, error)) error
}

// Options are what Voters need.
type Options struct {
	Coord Coord
	// Record logs what an operator changed.
	Record func(ctx context.Context, kind event.Kind, body any)
	Logger zerolog.Logger
}

// Voters is the holder's part in changes of the voters.
type Voters struct{ o Options }

// New returns Voters.
func New(o Options) *Voters { return &Voters{o: o} }

// Set judges a request, hands it to the lease core and writes down who asked.
func (s *Voters) Set(ctx context.Context, by forward.Asker, req api.VotersRequest) (api.Voters, error) {
	var want lease.SetVoters
	// Of two simultaneous requests the later builds on the earlier.
	err := s.o.Coord.ChangeVoters(ctx, func(v *coord.View) (lease.SetVoters, error) {
		w, p := wantVoters(v, req)
		if p != nil {
			return w, p
		}
		if err := by.Spend(); err != nil {
			return w, err
		}
		want = w
		return w, nil
	})
	switch {
	case errors.Is(err, coord.ErrNotHolder):
		return api.Voters{}, api.Errorf(api.CodeNoHolder, "%v", err)
	case errors.Is(err, lease.ErrVoters):
		return api.Voters{}, api.Errorf(api.CodeConflict, "%v", err).
			WithHint("see `skein lease voters` and `skein members -o wide`; `skein lease step-down --to NODE` lets another hold")
	case err != nil:
		return api.Voters{}, err
	}
	s.o.Logger.Info().Str("actor", by.Actor).Strs("voters", names(want.Voters)).Str("mode", string(want.Mode)).Bool("auto", want.Auto).
		Msg("change of voters requested")
	s.o.Record(ctx, event.KindVotersSet, event.VotersSet{Voters: want.Voters, Mode: want.Mode, Auto: want.Auto, Actor: by.Actor})
	out := Of(s.o.Coord.View())
	if !want.Auto {
		out.Target = want.Voters
	}
	out.TargetAuto = want.Auto
	for i, x := range out.Voters {
		out.Voters[i].Target = slices.Contains(out.Target, x.Node)
	}
	return out, nil
}

// Show is the holder's answer to a host that knows less of the voters.
func (s *Voters) Show(context.Context, forward.Asker, forward.None) (api.Voters, error) {
	return Of(s.o.Coord.View()), nil
}

// wantVoters turns an operator's request into the full set of voters. It refuses a
// set that could not hold the lease now: to get there the old and the new voters
// must agree, and until they do nobody may act.
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
	_, known := v.Member(req.Remove)
	if req.Remove != "" && !known && !l.Config.Has(req.Remove) {
		return want, api.NoMember(req.Remove)
	}
	switch {
	case len(want.Voters) == 0:
		return want, api.Errorf(api.CodeConflict, "nobody would vote")
	case len(want.Voters) > cluster.MaxVoters:
		return want, api.Errorf(api.CodeConflict, "%d voters, at most %d are possible", len(want.Voters), cluster.MaxVoters)
	}
	return want, mayVote(v, want.Voters)
}

// mayVote reports why these cannot be the voters now.
func mayVote(v *coord.View, voters []cluster.NodeID) *api.Problem {
	var down []string
	holders := 0
	for _, id := range voters {
		m, ok := v.Member(id)
		switch {
		case !ok:
			return api.NoMember(id)
		case m.Incompatible != "" && !v.Lease.Config.Has(id):
			return api.Errorf(api.CodeConflict, "%s cannot vote: %s", id, m.Incompatible).WithHint("see `skein members -o wide`")
		case m.Health != cluster.Alive && !v.Lease.Config.Has(id):
			return api.Errorf(api.CodeConflict, "%s cannot become a voter: it is %s", id, m.Health).WithHint("start it first, or leave it out")
		case m.Health != cluster.Alive || m.Incompatible != "" || v.Abstains(id) != "":
			down = append(down, string(id))
		}
		if !m.Witness {
			holders++
		}
	}
	if alive, need := len(voters)-len(down), len(voters)/2+1; alive < need {
		return api.Errorf(api.CodeConflict, "of these %d voters only %d work, which is no majority", len(voters), alive).
			WithHint("repair %s, or leave out those that are gone for good", strings.Join(down, " and "))
	}
	if holders == 0 {
		return api.Errorf(api.CodeConflict, "all of these are witnesses, which never hold the lease")
	}
	return nil
}

func names(ids []cluster.NodeID) []string {
	out := make([]string, len(ids))
	for i, id := range ids {
		out[i] = string(id)
	}
	return out
}
