package scheduler

import (
	"fmt"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/eventlog/state"
	"github.com/skein-project/skein/scheduler/plan/step"
)

// sweep forgets the jobs whose time is over, by an event: all hosts forget the
// same ones.
func (t *term) sweep() {
	if t.quiet {
		return
	}
	over := t.jobs.expire(t.o.Now(), t.o.Wall(), t.o.MayForget)
	if len(over) == 0 {
		return
	}
	t.batch.add(event.Draft{Term: t.id, Kind: event.KindJobsForgotten, Body: event.JobsForgotten{Jobs: over}})
	t.log.Info().Int("jobs", len(over)).Msg("ended jobs forgotten")
}

// learnGroups tells the plan who belongs to the groups of the log.
func (t *term) learnGroups() {
	var groups []state.Group
	t.o.Log.View(func(st *state.State) { groups = st.Groups() })
	for _, g := range groups {
		t.step(step.GroupChanged{Group: g.Name, Members: g.Members})
	}
}

// set logs what a register is to say.
func (t *term) set(b event.Register) error {
	if who := t.o.Unaware(b.Kind()); len(who) > 0 {
		return &UnawareError{Kind: b.Kind(), Nodes: who}
	}
	if err := t.fits(b); err != nil {
		return err
	}
	if t.lookForRoom(); t.held {
		return ErrNoRoom
	}
	t.batch.add(event.Draft{Term: t.id, Kind: b.Kind(), Body: b})
	switch b := b.(type) {
	case event.GroupSet:
		t.step(step.GroupChanged{Group: b.Group, Members: b.Members})
	case event.UserSet:
		if b.Disabled {
			t.links.reviewOf(cluster.UserPrincipal(b.Name))
		}
	case event.WorkerEnrolled:
		t.links.review = append(t.links.review, b.Worker)
	case event.WorkerRevoked:
		t.links.review = append(t.links.review, b.Worker)
	case event.HostOwnerSet:
		if s := t.links.session(b.Node); s != nil { // who has none says what it accepts when it comes
			t.step(ownerOf(b.Node, s.Begin, b.Owner))
			t.tellUp(b.Node, s.Begin, b.Owner)
		}
	}
	return nil
}

// fits refuses one register more than there may be.
func (t *term) fits(b event.Register) error {
	known, count, most := false, 0, 0
	t.o.Log.View(func(st *state.State) {
		switch b := b.(type) {
		case event.GroupSet:
			_, known = st.Group(b.Group)
			known = known || len(b.Members) == 0
			count, most = len(st.Groups()), cluster.MaxGroups
		case event.UserSet:
			_, known = st.User(b.Name)
			count, most = len(st.Users().All), cluster.MaxUsers
		case event.WorkerEnrolled:
			_, known = st.Outside().Worker(b.Worker)
			count, _ = st.Outside().Counts()
			most = cluster.MaxOutsideWorkers
		case event.AccessSet:
			_, known = st.Outside().Token(b.ID)
			_, count = st.Outside().Counts()
			most = cluster.MaxAccessTokens
		default:
			known = true // one for each member, or worker
		}
	})
	if !known && count >= most {
		return fmt.Errorf("%w: at most %d", ErrMany, most)
	}
	return nil
}

// hostOwner is whose a host is by the log; empty: nobody's in particular. The host
// itself has no say in it.
func (t *term) hostOwner(n cluster.NodeID) (owner string) {
	t.o.Log.View(func(st *state.State) { owner = st.Owner(n) })
	return owner
}
