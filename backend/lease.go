package backend

import (
	"context"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/backend/convert"
	"github.com/skein-project/skein/backend/past"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/coord"
	"github.com/skein-project/skein/eventlog/state"
	"github.com/skein-project/skein/forward"
	"github.com/skein-project/skein/lease"
	"github.com/skein-project/skein/membership/voters"
)

// leaseCoord gives up the lease.
type leaseCoord interface {
	authority
	StepDown(ctx context.Context, to cluster.NodeID, reason string, stopping bool) error
}

// leases shows who holds the lease and who votes, and has that changed.
type leases struct {
	self   cluster.NodeID
	timing lease.Timing
	now    func() time.Duration
	view   func() *coord.View
	log    fold
	past   *past.Past
	coord  leaseCoord
	record Recorder
	remote *forward.Router
}

func (l *leases) summary(v *coord.View) api.LeaseSummary {
	sum := api.LeaseSummary{
		Holder: v.Lease.Holder, Term: v.Lease.Term, Mode: v.Lease.Config.Mode,
		Voters: len(v.Lease.Config.Voters), Profile: v.Profile,
		Publisher: v.Lease.Publisher, Publishing: v.Lease.Publishing, PublishWhy: v.Lease.PublishWhy,
		Abstaining: v.Abstaining(), Blocked: v.Lease.Blocked,
	}
	if v.Lease.Holder != "" {
		if v.Lease.Until != 0 { // its renewals reach this host
			left := v.Lease.Until - l.now()
			sum.ExpiresSeconds = new(max(0, left.Seconds()))
			sum.RenewedSeconds = new(max(0, (l.timing.Lease - left).Seconds()))
		}
		l.log.View(func(s *state.State) {
			if t, ok := s.LastTerm(); ok && t.Term == v.Lease.Term && t.Holder == v.Lease.Holder {
				sum.TenureSeconds = new(max(0, time.Since(t.Started.Time()).Seconds()))
			}
		})
	}
	return sum
}

// Lease implements status.LeaseControl.
func (l *leases) Lease(context.Context) (api.Lease, error) {
	v := l.view()
	out := api.Lease{
		LeaseSummary: l.summary(v), Config: convert.LeaseConfig(v.Lease.Config), Promised: v.Lease.Vote.PromisedTerm,
	}
	if v.Lease.Role == cluster.RoleHolder {
		out.Ready = new(v.Lease.Ready)
	}
	return out, nil
}

// LeaseHistory implements status.LeaseControl.
func (l *leases) LeaseHistory(ctx context.Context) (api.LeaseHistory, error) {
	var terms []state.Term
	l.log.View(func(s *state.State) { terms = s.Terms() })
	return api.LeaseHistory{Terms: l.past.Terms(ctx, terms, l.view().Lease.Holder == "")}, nil
}

// showVotersTime bounds asking the holder, which knows more of the voters.
const showVotersTime = 2 * time.Second

// Voters implements status.LeaseControl. What only the holder knows is asked
// there; if it does not answer, this host shows what it knows.
func (l *leases) Voters(ctx context.Context) (api.Voters, error) {
	v := l.view()
	if v.Lease.Holder == "" || v.Lease.Holder == l.self {
		return voters.Of(v), nil
	}
	ctx, cancel := context.WithTimeout(ctx, showVotersTime)
	defer cancel()
	out, err := forward.AskHolderOnce(ctx, l.remote, forward.ShowVoters, "", forward.None{})
	if err != nil {
		return voters.Of(v), nil
	}
	out.Header = api.Header{}
	return out, nil
}

// SetVoters implements status.LeaseControl.
func (l *leases) SetVoters(ctx context.Context, actor string, req api.VotersRequest) (api.Voters, error) {
	out, err := forward.AskHolder(ctx, l.remote, forward.Voters, forward.At(actor, l.self), req)
	out.Header = api.Header{}
	return out, err
}
