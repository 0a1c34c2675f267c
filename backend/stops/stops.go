package stops

import (
	"context"
	"encoding/json"
	"iter"
	"slices"
	"sync/atomic"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/coord"
	"github.com/skein-project/skein/eventlog/state"
	"github.com/skein-project/skein/eventlog/store"
	"github.com/skein-project/skein/internal/wait"
)

// every is how often the log is looked into. The first time is as long after the start:
// by then a host that lives was heard.
const every = 5 * time.Second

// Log is the event log.
type Log interface {
	View(func(*state.State))
	Oldest() event.Cursor
	After(ctx context.Context, at event.Cursor, f store.Filter) iter.Seq2[event.Event, error]
}

// told is what the log says of a host that it calls dead.
type told struct {
	at      cluster.HLC // of the event
	stopped bool
}

// Stops is what is known. Its zero value is not usable.
type Stops struct {
	log  Log
	view func() *coord.View
	// stopped are the missing hosts that stopped; never changed once it is here.
	stopped atomic.Pointer[map[cluster.NodeID]bool]

	known map[cluster.NodeID]told // only of Run
}

// New returns Stops that know nothing yet.
func New(log Log, view func() *coord.View) *Stops {
	return &Stops{log: log, view: view, known: map[cluster.NodeID]told{}}
}

// missing reports whether nobody knows better than the log: nothing was heard of m since
// this host started, or it was too long ago.
func missing(v *coord.View, m coord.MemberView) bool {
	return m.Node != v.Self && !m.Stopped && (m.Health == cluster.Dead || m.Health == cluster.Joining && !m.Heard)
}

// View is what this host knows, and of hosts that it misses what the log says.
func (s *Stops) View() *coord.View {
	v := s.view()
	list := s.stopped.Load()
	if list == nil || len(*list) == 0 {
		return v
	}
	out := *v
	out.Members = slices.Clone(v.Members)
	for i, m := range out.Members {
		if (*list)[m.Node] && missing(v, m) {
			out.Members[i].Health, out.Members[i].Stopped = cluster.Dead, true
		}
	}
	return &out
}

// Run looks into the log until ctx ends.
func (s *Stops) Run(ctx context.Context) error {
	tick := wait.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			tick.Next()
		}
		s.look(ctx)
	}
}

// look asks the log of every host that is missing.
func (s *Stops) look(ctx context.Context) {
	v := s.view()
	stopped := map[cluster.NodeID]bool{}
	dead := map[cluster.NodeID]cluster.HLC{}
	if slices.ContainsFunc(v.Members, func(m coord.MemberView) bool { return missing(v, m) }) {
		s.log.View(func(st *state.State) {
			for _, m := range st.Members() {
				if m.Health == cluster.Dead {
					dead[m.Node] = m.HealthAt
				}
			}
		})
	}
	for _, m := range v.Members {
		at, isDead := dead[m.Node]
		if !isDead || !missing(v, m) {
			continue
		}
		if s.known[m.Node].at != at {
			says, ok := s.read(ctx, m.Node, at)
			if !ok {
				continue // the next time, or it is no longer kept
			}
			s.known[m.Node] = told{at, says}
		}
		if s.known[m.Node].stopped {
			stopped[m.Node] = true
		}
	}
	s.stopped.Store(&stopped)
}

// read finds the event that made a host dead; ok is false if it is not there.
func (s *Stops) read(ctx context.Context, node cluster.NodeID, at cluster.HLC) (stopped, ok bool) {
	f := store.Filter{Kinds: []string{string(event.KindMemberHealth)}, Since: at.Time(), About: event.Subject{Member: string(node)}}
	for e, err := range s.log.After(ctx, s.log.Oldest(), f) {
		if err != nil {
			return false, false
		}
		var b event.MemberHealth
		if e.HLC == at && json.Unmarshal(e.Body, &b) == nil && b.Node == node && b.To == cluster.Dead {
			return b.Stopped, true
		}
	}
	return false, false
}
