package scheduler

import (
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/eventlog/state"
	"github.com/skein-project/skein/scheduler/plan/step"
)

const (
	// sweepEvery is how often ended jobs are looked through, maxSweep how many
	// one event forgets.
	sweepEvery = 10 * time.Second
	maxSweep   = 256
)

// sweep forgets the jobs whose time is over, by an event: all hosts forget the
// same ones.
func (t *term) sweep() {
	now := t.o.Now()
	if t.quiet || t.swept != 0 && now-t.swept < sweepEvery {
		return
	}
	t.swept = max(now, 1)
	var over []job.ID
	t.o.Log.View(func(st *state.State) { over = st.Expired(cluster.NewHLC(t.o.Wall(), 0), maxSweep) })
	if len(over) == 0 {
		return
	}
	for _, id := range over {
		delete(t.created, id)
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

// setGroup logs who belongs to a group, unless the log says so already.
func (t *term) setGroup(b event.GroupSet) error {
	known, groups := false, 0
	t.o.Log.View(func(st *state.State) {
		groups = len(st.Groups())
		_, known = st.Group(b.Group)
	})
	if !known && len(b.Members) > 0 && groups >= cluster.MaxGroups {
		return ErrManyGroups
	}
	if t.lookForRoom(); t.held {
		return ErrNoRoom
	}
	t.batch.add(event.Draft{Term: t.id, Kind: event.KindGroupSet, Body: b})
	t.step(step.GroupChanged{Group: b.Group, Members: b.Members})
	return nil
}

// workerOwner is whose worker that of a host is.
func workerOwner(n cluster.NodeID) string { return "node:" + string(n) }
