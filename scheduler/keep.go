package scheduler

import (
	"fmt"
	"slices"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/eventlog/state"
	"github.com/skein-project/skein/scheduler/plan/reserve"
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
	case event.JobZones:
		j := t.jobs.specs[b.Job]
		j.spec.Zones = b.Zones
		t.jobs.specs[b.Job] = j
		t.step(step.JobMoved{Job: b.Job, Zones: b.Zones})
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
	if b, ok := b.(event.JobZones); ok {
		if _, held := t.jobs.after.Get(b.Job); held || !t.jobs.open(b.Job) {
			return t.jobs.notOpen(b.Job) // or it waits for others, and moves once it begins
		}
		return nil
	}
	known, count, most := false, 0, 0
	t.o.Log.View(func(st *state.State) {
		switch b := b.(type) {
		case event.GroupSet:
			_, known = st.Group(b.Group)
			known = known || len(b.Members) == 0
			count, most = len(st.Groups()), cluster.MaxGroups
		case event.ReservationSet:
			all := st.Reservations(t.o.Wall())
			known = b.Slots == 0 || slices.ContainsFunc(all, func(r state.Reservation) bool { return r.Name == b.Name })
			count, most = len(all), maxReservations
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
	if r, ok := b.(event.ReservationSet); ok {
		return mayReserve(t, r)
	}
	return nil
}

// maxReservations bounds the reservations at a time.
const maxReservations = 256

// reserved is what the plan knows of reservations.
type reserved struct {
	told []reserve.Reservation
}

// mayReserve refuses more than half of a zone, all reservations together.
func mayReserve(t *term, b event.ReservationSet) error {
	sum, slots := b.Slots, t.plan.Slots(b.Zone)
	t.o.Log.View(func(st *state.State) {
		for _, r := range st.Reservations(t.o.Wall()) {
			if r.Zone == b.Zone && r.Name != b.Name {
				sum += r.Slots
			}
		}
	})
	if b.Slots > 0 && sum > slots/2 {
		return fmt.Errorf("%w: %d slots of zone %s would be reserved, at most half of its %d may be", job.ErrSpec, sum, b.Zone, slots)
	}
	return nil
}

// learn tells the plan which slots are kept now: they end by the time of day.
func (r *reserved) learn(t *term) {
	var list []reserve.Reservation
	t.o.Log.View(func(st *state.State) {
		for _, one := range st.Reservations(t.o.Wall()) {
			list = append(list, reserve.Reservation{Owner: one.Owner, Zone: one.Zone, Slots: one.Slots})
		}
	})
	if !slices.Equal(list, r.told) {
		r.told = list
		t.step(step.Reserved{List: list})
	}
}

// hostOwner is whose a host is by the log; empty: nobody's in particular. The host
// itself has no say in it.
func (t *term) hostOwner(n cluster.NodeID) (owner string) {
	t.o.Log.View(func(st *state.State) { owner = st.Owner(n) })
	return owner
}
