package backend

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/skein-project/skein/access"
	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/backend/outside"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/coord"
	"github.com/skein-project/skein/eventlog/state"
	"github.com/skein-project/skein/forward"
	"github.com/skein-project/skein/internal/wait"
)

// users shows and changes users and the owners of hosts, and carries requests of users
// to other hosts.
type users struct {
	*outside.Desk // who is let in from outside

	self   cluster.NodeID
	log    fold
	sched  setter
	roster Roster
	view   func() *coord.View
	remote *forward.Router
	known  atomic.Pointer[directory]
	serve  atomic.Pointer[func(context.Context, cluster.NodeID, api.Carried) api.Answered]
}

// directory is made of the users of one moment.
type directory struct {
	of *state.Users
	*access.Directory
}

// Directory implements status.UserControl. It is made anew when a user changes.
func (u *users) Directory() *access.Directory {
	var now *state.Users
	u.log.View(func(s *state.State) { now = s.Users() })
	if d := u.known.Load(); d != nil && d.of == now {
		return d.Directory
	}
	list := make([]access.User, 0, len(now.All))
	for _, x := range now.All {
		list = append(list, userOf(x))
	}
	d := &directory{of: now, Directory: access.NewDirectory(list)}
	u.known.Store(d)
	return d.Directory
}

func userOf(x state.User) access.User {
	role, _ := access.ParseRole(x.Role) // the fold has checked it
	out := access.User{Name: x.Name, Role: role, UIDs: x.UIDs, Disabled: x.Disabled}
	for _, k := range x.Keys {
		out.Keys = append(out.Keys, ed25519.PublicKey(k))
	}
	return out
}

// Users implements status.UserControl.
func (u *users) Users(context.Context) (api.Users, error) {
	var now *state.Users
	u.log.View(func(s *state.State) { now = s.Users() })
	out := api.Users{Users: make([]api.User, 0, len(now.All))}
	for _, x := range now.All {
		out.Users = append(out.Users, shownUser(x.UserSet, x.At))
	}
	return out, nil
}

func shownUser(x event.UserSet, at cluster.HLC) api.User {
	out := api.User{Name: x.Name, Role: x.Role, UIDs: x.UIDs, Disabled: x.Disabled, Actor: x.Actor, At: at.Time()}
	for _, k := range x.Keys {
		out.Keys = append(out.Keys, access.FormatPublicKey(k))
		out.KeyIDs = append(out.KeyIDs, access.KeyID(k))
	}
	return out
}

// SetUser implements status.UserControl.
func (u *users) SetUser(ctx context.Context, actor string, set event.UserSet) (api.UserSet, error) {
	if _, err := forward.AskHolder(ctx, u.remote, forward.User, forward.At(actor, u.self), set); err != nil {
		return api.UserSet{}, err
	}
	shown := api.UserSet{}
	u.await(ctx, func(s *state.State) bool {
		x, _ := s.User(set.Name)
		shown.User = shownUser(x.UserSet, x.At)
		x.Actor = set.Actor
		return sameUser(x.UserSet, set)
	})
	return shown, nil
}

// SetOwner implements status.UserControl.
func (u *users) SetOwner(ctx context.Context, actor string, set event.HostOwnerSet) (api.OwnerSet, error) {
	if _, ok := u.roster.Member(set.Node); !ok {
		return api.OwnerSet{}, api.NoMember(set.Node)
	}
	if _, err := forward.AskHolder(ctx, u.remote, forward.HostOwner, forward.At(actor, u.self), set); err != nil {
		return api.OwnerSet{}, err
	}
	u.await(ctx, func(s *state.State) bool { return s.Owner(set.Node) == set.Owner })
	return api.OwnerSet{Node: set.Node, Owner: set.Owner}, nil
}

// await waits, not for long, until this host's log has what the holder has logged.
func (u *users) await(ctx context.Context, here func(*state.State) bool) {
	ctx, cancel := context.WithTimeout(ctx, awaitJobTime)
	defer cancel()
	_ = wait.Seen(ctx, u.log.Changed, func() (is bool) { // what is not here soon is shown without it
		u.log.View(func(s *state.State) { is = here(s) })
		return is
	})
}

// setUser has this host's scheduler log who a user is; this host is the holder.
func (u *users) setUser(ctx context.Context, by forward.Asker, set event.UserSet) (forward.None, error) {
	set.Actor = by.Actor
	var taken string
	var as state.User
	u.log.View(func(s *state.State) {
		taken = takenKey(s.Users(), set)
		as, _ = s.User(set.Name)
	})
	switch {
	case taken != "":
		return forward.None{}, api.Errorf(api.CodeConflict, "%s: a key or a uid is one user's only", taken)
	case as.Name == set.Name && sameUser(as.UserSet, set):
		return forward.None{}, nil // said again, as to see another host's pin
	}
	return forward.None{}, u.sched.Set(ctx, set)
}

// setOwner has this host's scheduler log whose a host is; this host is the holder.
func (u *users) setOwner(ctx context.Context, by forward.Asker, set event.HostOwnerSet) (forward.None, error) {
	set.Actor = by.Actor
	return forward.None{}, u.sched.Set(ctx, set)
}

// Holder implements status.UserControl.
func (u *users) Holder() cluster.NodeID { return u.view().Lease.Holder }

// ServeCarried says who carries out the requests of users that other hosts bring.
func (u *users) ServeCarried(f func(context.Context, cluster.NodeID, api.Carried) api.Answered) {
	u.serve.Store(&f)
}

// Carry implements status.UserControl: the holder carries it out, wherever it is.
func (u *users) Carry(ctx context.Context, to cluster.NodeID, req api.Carried) (api.Answered, error) {
	return forward.AskHost(ctx, u.remote, forward.Carry, to, "", req)
}

// carried carries out what another host brings.
func (u *users) carried(ctx context.Context, by forward.Asker, req api.Carried) (api.Answered, error) {
	f := u.serve.Load()
	if f == nil {
		return api.Answered{}, api.Errorf(api.CodeNotReady, "%s is starting", u.self)
	}
	return (*f)(ctx, by.From, req), nil
}

// sameUser reports whether both say the same of one user.
func sameUser(a, b event.UserSet) bool {
	return a.Role == b.Role && a.Disabled == b.Disabled && slices.Equal(a.UIDs, b.UIDs) && slices.EqualFunc(a.Keys, b.Keys, bytes.Equal)
}

// takenKey says what of set is another user's; empty: nothing.
func takenKey(all *state.Users, set event.UserSet) string {
	for _, x := range all.All {
		if x.Name == set.Name {
			continue
		}
		for _, k := range set.Keys {
			if slices.ContainsFunc(x.Keys, func(o []byte) bool { return bytes.Equal(k, o) }) {
				return "key " + access.KeyID(k) + " is user " + x.Name + "'s"
			}
		}
		for _, uid := range set.UIDs {
			if slices.Contains(x.UIDs, uid) {
				return fmt.Sprintf("uid %d is user %s's", uid, x.Name)
			}
		}
	}
	return ""
}
