package outside

import (
	"context"
	"slices"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/eventlog/state"
	fold "github.com/skein-project/skein/eventlog/state/registry"
	"github.com/skein-project/skein/forward"
	"github.com/skein-project/skein/status/outside"
)

// errAccess is all that anybody learns of an access token that is not good.
func errAccess() *api.Problem {
	return api.Errorf(api.CodeUnauthorized, "no good access token for work").WithHint("`skein gateway token create --role work` makes one")
}

// OwnWorker makes an outside worker one of the owner of token, or without a key shuts out
// one that is. The holder judges the token, from its own log.
func (d *Desk) OwnWorker(ctx context.Context, token api.Secret, id cluster.NodeID, key []byte, name string) (api.OutsideWorker, error) {
	a, ok := d.reg.Access(token.Reveal(), time.Now())
	if !ok {
		return api.OutsideWorker{}, errAccess()
	}
	end, kind := len(key) == 0, event.KindWorkerEnrolled
	if end {
		kind = event.KindWorkerRevoked
	}
	if err := d.o.Aware(kind); err != nil {
		return api.OutsideWorker{}, err
	}
	if _, err := forward.AskHolder(ctx, d.o.Remote, forward.Own, d.at("token:"+a.ID), forward.OwnWorker{Token: token, Worker: id, Key: key, Name: name}); err != nil {
		return api.OutsideWorker{}, err
	}
	return d.worker(ctx, id, func(w fold.Worker) bool { return w.Revoked == end }).Worker, nil
}

// OwnWorkers lists the outside workers of an owner, at most limit of them.
func (d *Desk) OwnWorkers(owner string, limit int) []api.OutsideWorker {
	out := []api.OutsideWorker{}
	d.o.Log.View(func(s *state.State) {
		for w := range s.Outside().Workers("") {
			if w.Owner == owner && len(out) < limit {
				out = append(out, shown(w))
			}
		}
	})
	return out
}

// own has this host's scheduler log what a user wants of a worker; this host is the holder.
func (d *Desk) own(ctx context.Context, by forward.Asker, w forward.OwnWorker) (forward.None, error) {
	a, ok := d.reg.Access(w.Token.Reveal(), time.Now())
	if !ok || !slices.Contains(a.Roles, "work") {
		return forward.None{}, errAccess()
	}
	return d.decide(ctx, func(s *state.State) (event.Register, error) {
		known, there := s.Outside().Worker(w.Worker)
		switch mine := there && known.Owner == a.Owner; {
		case len(w.Key) == 0 && !mine:
			return nil, outside.NoWorker(w.Worker)
		case len(w.Key) == 0 && known.Revoked:
			return nil, nil
		case len(w.Key) == 0:
			return event.WorkerRevoked{Worker: w.Worker, Actor: by.Actor}, nil
		case s.Outside().Revoked(w.Worker):
			return nil, api.Errorf(api.CodeForbidden, "%s was revoked: its key is never let in again", w.Worker).WithHint("enrol the worker under a new key")
		case there && !mine:
			return nil, api.Errorf(api.CodeConflict, "%s is another user's worker", w.Worker)
		case there: // an operator may have said more of it
			return nil, nil
		}
		b := w.Enrolled(a.Owner)
		b.Actor = by.Actor
		return b, nil
	})
}
