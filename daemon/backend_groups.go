package daemon

import (
	"context"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/eventlog/state"
)

// Groups implements status.JobControl.
func (b backend) Groups(context.Context) (api.Groups, error) {
	out := api.Groups{Groups: []api.Group{}}
	b.events.View(func(s *state.State) {
		for _, g := range s.Groups() {
			out.Groups = append(out.Groups, api.Group{Name: g.Name, Members: g.Members, Actor: g.Actor, At: g.At.Time()})
		}
	})
	return out, nil
}

// SetGroup implements status.JobControl.
func (b backend) SetGroup(ctx context.Context, actor string, set cluster.GroupSet) (api.GroupSet, error) {
	if _, err := b.toHolder(ctx, remoteRequest{Group: &set, Actor: b.at(actor)}); err != nil {
		return api.GroupSet{}, err
	}
	return api.GroupSet{Name: set.Group, Members: len(set.Members)}, nil
}
