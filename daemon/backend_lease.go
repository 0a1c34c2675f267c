package daemon

import (
	"context"
	"slices"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/coord"
	"github.com/skein-project/skein/eventlog/state"
)

func (n *node) leaseSummary(v *coord.View) api.LeaseSummary {
	sum := api.LeaseSummary{
		Holder: v.Lease.Holder, Term: v.Lease.Term, Mode: v.Lease.Config.Mode,
		Voters: len(v.Lease.Config.Voters), Profile: v.Profile,
		Publisher: v.Lease.Publisher, Publishing: v.Lease.Publishing, PublishWhy: v.Lease.PublishWhy,
		Abstaining: abstaining(v), Blocked: v.Lease.Blocked,
	}
	if v.Lease.Holder != "" {
		if v.Lease.Until != 0 { // its renewals reach this host
			left := v.Lease.Until - n.now()
			sum.ExpiresSeconds = new(max(0, left.Seconds()))
			sum.RenewedSeconds = new(max(0, (n.timing.Lease - left).Seconds()))
		}
		n.events.View(func(s *state.State) {
			if t, ok := s.LastTerm(); ok && t.Term == v.Lease.Term && t.Holder == v.Lease.Holder {
				sum.TenureSeconds = new(max(0, time.Since(t.Started.Time()).Seconds()))
			}
		})
	}
	return sum
}

// apiConfig shows a configuration of voters.
func apiConfig(c cluster.VoterConfig) api.LeaseConfig {
	return api.LeaseConfig{Epoch: c.Epoch, Term: c.Term, Voters: append([]cluster.NodeID{}, c.Voters...), Mode: c.Mode}
}

// Lease implements status.LeaseControl.
func (b backend) Lease(context.Context) (api.Lease, error) {
	v := b.coord.View()
	out := api.Lease{
		LeaseSummary: b.leaseSummary(v), Config: apiConfig(v.Lease.Config), Promised: v.Lease.Vote.PromisedTerm,
	}
	if v.Lease.Role == cluster.RoleHolder {
		out.Ready = new(v.Lease.Ready)
	}
	return out, nil
}

// LeaseHistory implements status.LeaseControl.
func (b backend) LeaseHistory(context.Context) (api.LeaseHistory, error) {
	var terms []state.Term
	b.events.View(func(s *state.State) { terms = s.Terms() })
	out := api.LeaseHistory{Terms: make([]api.TermRecord, 0, len(terms))}
	for i, t := range slices.Backward(terms) {
		r := api.TermRecord{
			Term: t.Term, Holder: t.Holder, StartedAt: t.Started.Time(), Cause: t.Reason, Successor: t.Successor,
			Previous: t.Previous, Grants: append([]cluster.NodeID{}, t.Grants...), Voters: append([]cluster.NodeID{}, t.Voters...),
		}
		if t.Released != 0 {
			r.EndedAt = new(t.Released.Time())
		} else if i+1 < len(terms) {
			// A later term began, and the holder told nothing: it died.
			r.Cause, r.Successor = "expired", terms[i+1].Holder
		}
		out.Terms = append(out.Terms, r)
	}
	return out, nil
}
