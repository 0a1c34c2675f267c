package scheduler

import (
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
	over := t.jobs.expire(t.o.Now(), t.o.Wall())
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
