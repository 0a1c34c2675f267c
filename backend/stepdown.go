package backend

import (
	"context"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/coord"
	"github.com/skein-project/skein/forward"
)

// StepDown implements status.LeaseControl. It returns the lease that was given
// up.
func (l *leases) StepDown(ctx context.Context, actor string, req api.StepDownRequest) (api.Lease, error) {
	before, err := l.Lease(ctx)
	if err != nil {
		return before, err
	}
	if before.Holder == "" {
		return before, api.Errorf(api.CodeNoHolder, "nobody holds the lease, as far as %s knows: there is nothing to hand over", l.self).
			WithHint("`skein doctor` says why")
	}
	_, err = forward.AskHolder(ctx, l.remote, forward.StepDown, forward.At(actor, l.self), forward.StepDownTerm{Term: before.Term, StepDownRequest: req})
	return before, err
}

// stepDown hands the lease over; this host is the holder.
func (l *leases) stepDown(ctx context.Context, by forward.Asker, req forward.StepDownTerm) (done forward.None, err error) {
	v := l.view()
	if v.Lease.Term != req.Term {
		return done, nil // that term is over, as requested
	}
	if p := maySucceed(v, req.To); p != nil {
		return done, p
	}
	if err := by.Spend(); err != nil {
		return done, err
	}
	reason := req.Reason
	if reason == "" {
		reason = "asked by " + by.Actor
	}
	if err := l.coord.StepDown(ctx, req.To, reason, false); err != nil {
		return done, api.Errorf(api.CodeConflict, "%v", err)
	}
	l.record.Record(ctx, event.KindStepDownAsked, event.StepDownAsked{
		Term: v.Lease.Term, Successor: req.To, Reason: req.Reason, Actor: by.Actor,
	})
	return done, nil
}

// maySucceed says why the host that an operator named cannot take the lease over
// from this one, nil if it can; an empty name stands for the best host.
func maySucceed(v *coord.View, to cluster.NodeID) *api.Problem {
	if to == "" {
		return nil
	}
	m, ok := v.Member(to)
	switch {
	case !ok:
		return api.NoMember(to)
	case to == v.Self:
		return api.Errorf(api.CodeConflict, "%s holds the lease already", to)
	}
	why := ""
	switch {
	case m.Incompatible != "":
		why = m.Incompatible
	case m.Health != cluster.Alive:
		why = "it is " + string(m.Health)
	case m.Witness:
		why = "it is a witness"
	case !m.Eligible:
		why = "its lease.eligible is false"
	case !v.Lease.Config.Has(to):
		why = "it is no voter"
	case !m.CaughtUp:
		why = "its event log is behind"
	default:
		return nil
	}
	return api.Errorf(api.CodeConflict, "%s cannot take the lease over: %s", to, why).
		WithHint("see `skein members -o wide` and `skein lease`; without --to the best host takes over")
}
