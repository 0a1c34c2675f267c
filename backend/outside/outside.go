package outside

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/skein-project/skein/access"
	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/eventlog/state"
	fold "github.com/skein-project/skein/eventlog/state/registry"
	"github.com/skein-project/skein/forward"
	"github.com/skein-project/skein/gateway/registry"
	"github.com/skein-project/skein/internal/wait"
	"github.com/skein-project/skein/scheduler"
	"github.com/skein-project/skein/status/outside"
)

// awaitTime is how long a change waits for this host's log, at most.
const awaitTime = 5 * time.Second

// askTime bounds the question to the holder which workers there are.
const askTime = 2 * time.Second

// Log is the event log of this host.
type Log interface {
	registry.Log
	Changed() <-chan struct{}
}

// Scheduler logs what registers are to say, on the holder.
type Scheduler interface {
	Set(ctx context.Context, b event.Register) error
}

// Options are what a Desk is made of. All must be set.
type Options struct {
	Self      cluster.NodeID
	Log       Log
	Scheduler Scheduler
	Remote    *forward.Router
	// Workers lists the workers that the holder has, those of a gateway as one.
	Workers func(context.Context) (api.Workers, error)
	// Health is how a host is, as this one sees it.
	Health func(cluster.NodeID) cluster.Health
	// Aware refuses events of a kind that a member which lives does not know.
	Aware func(event.Kind) error
}

// Desk implements status/outside.Registry. Its methods may be called from any goroutine.
type Desk struct {
	o   Options
	reg *registry.Registry
	// changing has room for the one change that the holder decides on now.
	changing chan struct{}
}

var _ outside.Registry = (*Desk)(nil)

// New returns a Desk.
func New(o Options) *Desk {
	return &Desk{o: o, reg: registry.New(o.Log), changing: make(chan struct{}, 1)}
}

// Handle registers what this host carries out for others.
func (d *Desk) Handle(r *forward.Router) {
	forward.Handle(r, forward.Enrol, d.enrol)
	forward.Handle(r, forward.RevokeWorker, d.revoke)
	forward.Handle(r, forward.Access, d.access)
	forward.Handle(r, forward.RevokeAccess, d.revokeAccess)
	forward.Handle(r, forward.Own, d.own)
}

// Gateways implements status/outside.Registry. Of each host it names what it said last.
func (d *Desk) Gateways(ctx context.Context) (api.Gateways, error) {
	latest := map[cluster.NodeID]registry.Gateway{}
	for _, g := range d.reg.Gateways() {
		if g.At.After(latest[g.Node].At) {
			latest[g.Node] = g
		}
	}
	attached := map[cluster.NodeID]int{}
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	workers, err := d.o.Workers(ctx)
	for _, w := range workers.Workers {
		if w.Via != "" {
			attached[w.Via] += w.Workers
		}
	}
	out := api.Gateways{Gateways: []api.Gateway{}}
	for _, n := range slices.Sorted(maps.Keys(latest)) {
		g := latest[n]
		x := api.Gateway{Node: n, URL: g.URL, Live: d.o.Health(n), Opened: g.At, KeyEnds: time.Unix(g.Until, 0).UTC()}
		if err == nil {
			x.Workers = new(attached[n])
		}
		out.Gateways = append(out.Gateways, x)
	}
	return out, nil
}

// OutsideWorkers implements status/outside.Registry.
func (d *Desk) OutsideWorkers(_ context.Context, after cluster.NodeID, limit int) (api.OutsideWorkers, error) {
	out := api.OutsideWorkers{Workers: []api.OutsideWorker{}}
	d.o.Log.View(func(s *state.State) {
		for w := range s.Outside().Workers(after) {
			if len(out.Workers) == limit {
				out.Next = out.Workers[limit-1].Worker
				return
			}
			out.Workers = append(out.Workers, shown(w))
		}
	})
	for i, w := range out.Workers {
		if known, ok := d.reg.Worker(w.Worker); ok && known.Disabled && w.State == api.StateEnrolled {
			out.Workers[i].State = api.StateDisabled
		}
	}
	return out, nil
}

func shown(w fold.Worker) api.OutsideWorker {
	out := api.OutsideWorker{
		Worker: w.Worker, Key: access.FormatPublicKey(w.Key), Owner: w.Owner, Name: w.Name, Trusted: w.Trusted, Zone: w.Zone,
		State: api.StateEnrolled, Actor: w.Actor, At: w.At.Time(),
	}
	if out.Zone == "" {
		out.Zone = cluster.OutsideZone
	}
	if w.Revoked {
		out.State, out.RevokedBy, out.RevokedAt = api.StateRevoked, w.RevokedBy, new(w.RevokedAt.Time())
	}
	return out
}

// EnrolWorker implements status/outside.Registry.
func (d *Desk) EnrolWorker(ctx context.Context, actor string, b event.WorkerEnrolled) (api.OutsideWorkerSet, error) {
	if err := d.o.Aware(b.Kind()); err != nil {
		return api.OutsideWorkerSet{}, err
	}
	if _, err := forward.AskHolder(ctx, d.o.Remote, forward.Enrol, d.at(actor), b); err != nil {
		return api.OutsideWorkerSet{}, err
	}
	return d.worker(ctx, b.Worker, func(w fold.Worker) bool { return same(w.WorkerEnrolled, b) }), nil
}

// RevokeWorker implements status/outside.Registry.
func (d *Desk) RevokeWorker(ctx context.Context, actor string, id cluster.NodeID) (api.OutsideWorkerSet, error) {
	if err := d.o.Aware(event.KindWorkerRevoked); err != nil {
		return api.OutsideWorkerSet{}, err
	}
	if _, err := forward.AskHolder(ctx, d.o.Remote, forward.RevokeWorker, d.at(actor), event.WorkerRevoked{Worker: id}); err != nil {
		return api.OutsideWorkerSet{}, err
	}
	return d.worker(ctx, id, func(w fold.Worker) bool { return w.Revoked }), nil
}

// worker shows a worker once this host's log has what the holder has logged.
func (d *Desk) worker(ctx context.Context, id cluster.NodeID, here func(fold.Worker) bool) api.OutsideWorkerSet {
	out := api.OutsideWorkerSet{Worker: api.OutsideWorker{Worker: id}}
	d.await(ctx, func(s *state.State) bool {
		w, ok := s.Outside().Worker(id)
		if ok {
			out.Worker = shown(w)
		}
		return ok && here(w)
	})
	return out
}

// AccessTokens implements status/outside.Registry.
func (d *Desk) AccessTokens(context.Context) (api.AccessTokens, error) {
	out := api.AccessTokens{Tokens: []api.AccessToken{}}
	now := time.Now()
	d.o.Log.View(func(s *state.State) {
		for t := range s.Outside().Tokens() {
			out.Tokens = append(out.Tokens, token(s, t, now))
		}
	})
	return out, nil
}

func token(s *state.State, t fold.Token, now time.Time) api.AccessToken {
	out := api.AccessToken{
		ID: t.ID, Owner: t.Owner, Roles: append([]string{}, t.Roles...), State: api.StateValid, ExpiresAt: time.Unix(t.Expires, 0).UTC(),
		Actor: t.Actor, At: t.At.Time(),
	}
	switch {
	case len(t.Roles) == 0:
		out.State = api.StateRevoked
	case registry.Ended(t, now):
		out.State = api.StateExpired
	case s.Barred(t.Owner):
		out.State = api.StateDisabled
	}
	return out
}

// CreateAccess implements status/outside.Registry.
func (d *Desk) CreateAccess(ctx context.Context, actor, owner string, roles []string, ttl time.Duration) (api.AccessCreated, error) {
	if err := d.o.Aware(event.KindAccessSet); err != nil {
		return api.AccessCreated{}, err
	}
	now := time.Now()
	t := registry.NewToken(d.free(now))
	set := event.AccessSet{ID: t.ID, Hash: t.Hash(), Owner: owner, Roles: roles, Expires: now.Add(ttl).Unix(), Actor: d.at(actor)}
	if _, err := forward.AskHolder(ctx, d.o.Remote, forward.Access, set.Actor, set); err != nil {
		return api.AccessCreated{}, err
	}
	made := d.token(ctx, t.ID, func(x fold.Token) bool { return x.Hash == set.Hash })
	return api.AccessCreated{AccessToken: made, Secret: api.Secret(t.Text())}, nil
}

// free is the id of a token that is over, if there is no room for one more: the new one
// takes its place, and the former secret fits no longer. Empty: there is room, or no such
// token.
func (d *Desk) free(now time.Time) (id string) {
	d.o.Log.View(func(s *state.State) {
		if _, tokens := s.Outside().Counts(); tokens < cluster.MaxAccessTokens {
			return
		}
		oldest := cluster.HLC(0)
		for t := range s.Outside().Tokens() {
			if registry.Ended(t, now) && (id == "" || t.At < oldest) {
				id, oldest = t.ID, t.At
			}
		}
	})
	return id
}

// RevokeAccess implements status/outside.Registry.
func (d *Desk) RevokeAccess(ctx context.Context, actor, id string) (api.AccessSet, error) {
	if err := d.o.Aware(event.KindAccessSet); err != nil {
		return api.AccessSet{}, err
	}
	if _, err := forward.AskHolder(ctx, d.o.Remote, forward.RevokeAccess, d.at(actor), forward.AccessToken{ID: id}); err != nil {
		return api.AccessSet{}, err
	}
	return api.AccessSet{Token: d.token(ctx, id, func(t fold.Token) bool { return len(t.Roles) == 0 })}, nil
}

// token shows a token once this host's log has what the holder has logged.
func (d *Desk) token(ctx context.Context, id string, here func(fold.Token) bool) api.AccessToken {
	out := api.AccessToken{ID: id, Roles: []string{}}
	d.await(ctx, func(s *state.State) bool {
		t, ok := s.Outside().Token(id)
		if ok {
			out = token(s, t, time.Now())
		}
		return ok && here(t)
	})
	return out
}

// await waits, not for long, until this host's log has what the holder has logged.
func (d *Desk) await(ctx context.Context, here func(*state.State) bool) {
	ctx, cancel := context.WithTimeout(ctx, awaitTime)
	defer cancel()
	_ = wait.Seen(ctx, d.o.Log.Changed, func() (is bool) { // what is not here soon is shown without it
		d.o.Log.View(func(s *state.State) { is = here(s) })
		return is
	})
}

func (d *Desk) at(actor string) string { return forward.At(actor, d.o.Self) }

// enrol has this host's scheduler log whose a worker is; this host is the holder.
func (d *Desk) enrol(ctx context.Context, by forward.Asker, b event.WorkerEnrolled) (forward.None, error) {
	b.Actor = by.Actor
	return d.decide(ctx, func(s *state.State) (event.Register, error) {
		w, known := s.Outside().Worker(b.Worker)
		switch {
		case s.Outside().Revoked(b.Worker):
			return nil, api.Errorf(api.CodeConflict, "%s was revoked: its key is never let in again", b.Worker).WithHint("enrol the worker under a new key")
		case known && same(w.WorkerEnrolled, b):
			return nil, nil
		}
		return b, nil
	})
}

// revoke has this host's scheduler log the end of a worker; this host is the holder.
func (d *Desk) revoke(ctx context.Context, by forward.Asker, b event.WorkerRevoked) (forward.None, error) {
	b.Actor = by.Actor
	return d.decide(ctx, func(s *state.State) (event.Register, error) {
		switch _, known := s.Outside().Worker(b.Worker); {
		case !known:
			return nil, outside.NoWorker(b.Worker)
		case s.Outside().Revoked(b.Worker):
			return nil, nil
		}
		return b, nil
	})
}

// access has this host's scheduler log a new token; this host is the holder.
func (d *Desk) access(ctx context.Context, by forward.Asker, b event.AccessSet) (forward.None, error) {
	b.Actor = by.Actor
	now := time.Now()
	if most := now.Add(api.MaxAccessTTL + api.MinAccessTTL); b.Expires <= now.Unix() || b.Expires > most.Unix() {
		return forward.None{}, api.Errorf(api.CodeInvalidRequest, "expires is %d, want %d to %d", b.Expires, now.Unix()+1, most.Unix())
	}
	return d.decide(ctx, func(s *state.State) (event.Register, error) {
		switch t, known := s.Outside().Token(b.ID); {
		case known && t.Hash == b.Hash && len(t.Roles) > 0:
			return nil, nil // it is asked for again
		case known && (t.Hash == b.Hash || !registry.Ended(t, now)):
			return nil, api.Errorf(api.CodeConflict, "there is an access token %s already", b.ID).WithHint("try again")
		}
		return b, nil
	})
}

// revokeAccess has this host's scheduler log the end of a token; this host is the holder.
func (d *Desk) revokeAccess(ctx context.Context, by forward.Asker, req forward.AccessToken) (forward.None, error) {
	return d.decide(ctx, func(s *state.State) (event.Register, error) {
		t, known := s.Outside().Token(req.ID)
		switch {
		case !known:
			return nil, outside.NoToken(req.ID)
		case len(t.Roles) == 0:
			return nil, nil
		}
		b := t.AccessSet
		b.Roles, b.Actor = nil, by.Actor
		return b, nil
	})
}

// decide logs what follows from the state; nothing if that is so already. The next one
// sees what this one has logged.
func (d *Desk) decide(ctx context.Context, what func(*state.State) (event.Register, error)) (forward.None, error) {
	select {
	case d.changing <- struct{}{}:
		defer func() { <-d.changing }()
	case <-ctx.Done():
		return forward.None{}, ctx.Err()
	}
	var b event.Register
	var err error
	d.o.Log.View(func(s *state.State) { b, err = what(s) })
	if err != nil || b == nil {
		return forward.None{}, err
	}
	err = d.o.Scheduler.Set(ctx, b)
	if errors.Is(err, scheduler.ErrMany) {
		hint := "those that are revoked count"
		if b.Kind() == event.KindAccessSet {
			hint = "revoke one: `skein gateway token revoke`"
		}
		err = api.Errorf(api.CodeConflict, "%v", err).WithHint("%s", hint)
	}
	return forward.None{}, err
}

// same reports whether both say the same of one worker.
func same(a, b event.WorkerEnrolled) bool {
	return bytes.Equal(a.Key, b.Key) && a.Worker == b.Worker && a.Owner == b.Owner && a.Name == b.Name && a.Trusted == b.Trusted && a.Zone == b.Zone
}
