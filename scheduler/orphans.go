package scheduler

import (
	"maps"
	"slices"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/scheduler/stream"
)

// queryEvery is how often a worker is asked what it has. What only one side
// knows of twice in a row is an orphan: the plan gives an attempt that the worker
// does not have to another, and stops one that nobody asked for.
const queryEvery = 10 * time.Second

// query asks each worker whose turn it is; counted from its Welcome, which tells
// the same, so that not all are asked at once.
func (t *term) query() {
	now := t.o.Now()
	if t.quiet {
		return
	}
	for _, n := range slices.Sorted(maps.Keys(t.links)) {
		s := t.links[n].sess
		if s == nil || now-s.asked < queryEvery {
			continue
		}
		t.nonce++
		s.asked, s.nonce = now, t.nonce
		s.send(stream.Frame{Query: &stream.Ping{Term: t.id, Nonce: t.nonce}})
	}
}

// holds takes the answer to the latest query; a list that nobody asked for, or
// that comes late, says nothing.
func (t *term) holds(n cluster.NodeID, s *session, m stream.Assigned) {
	if s.nonce == 0 || m.Nonce != s.nonce {
		return
	}
	s.nonce = 0
	t.step(holdsOf(n, m))
}
