package backend

import (
	"context"
	"errors"
	"slices"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/backend/groupsync"
	"github.com/skein-project/skein/backend/reserves"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/eventlog/state"
	"github.com/skein-project/skein/forward"
)

// groups shows and changes the groups that permissions name.
type groups struct {
	*reserves.Desk
	self   cluster.NodeID
	log    fold
	sched  setter
	remote *forward.Router
	sync   *groupsync.Sync
}

// setter logs what registers are to say, on the holder.
type setter interface {
	Set(ctx context.Context, b event.Register) error
}

// Groups implements status.JobControl.
func (g *groups) Groups(context.Context) (api.Groups, error) {
	out := api.Groups{Groups: []api.Group{}}
	g.log.View(func(s *state.State) {
		for _, x := range s.Groups() {
			out.Groups = append(out.Groups, api.Group{Name: x.Name, Members: x.Members, Actor: x.Actor, At: x.At.Time()})
		}
	})
	for _, h := range g.sync.Waiting() {
		out.Waiting = append(out.Waiting, api.GroupWaiting{Name: h.Group, Members: h.Members, From: h.From})
	}
	return out, nil
}

// fromConfig has the holder log a group that the configuration names.
func (g *groups) fromConfig(ctx context.Context, b event.GroupSet) (again bool, err error) {
	_, err = forward.AskHolder(ctx, g.remote, forward.Group, forward.At("config", g.self), b)
	p, ok := errors.AsType[*api.Problem](err)
	return !ok || p.Retryable() || p.Code == api.CodeTimeout, err
}

// SetGroup implements status.JobControl.
func (g *groups) SetGroup(ctx context.Context, actor string, set event.GroupSet) (api.GroupSet, error) {
	_, err := forward.AskHolder(ctx, g.remote, forward.Group, forward.At(actor, g.self), set)
	return api.GroupSet{Name: set.Group, Members: len(set.Members)}, err
}

// setGroup has this host's scheduler log the members of a group; this host is the
// holder.
func (g *groups) setGroup(ctx context.Context, by forward.Asker, set event.GroupSet) (forward.None, error) {
	set.Actor = by.Actor
	set.Members = slices.Compact(slices.Sorted(slices.Values(set.Members)))
	return forward.None{}, g.sched.Set(ctx, set)
}
