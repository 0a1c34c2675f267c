package scheduler

import (
	"maps"
	"slices"
	"time"

	"github.com/skein-project/skein/scheduler/stream"
)

// queryEvery is how often a worker is asked what it has. What only one side
// knows of twice in a row is an orphan: the plan gives an attempt that the worker
// does not have to another, and stops one that nobody asked for.
const queryEvery = 10 * time.Second

// query asks each worker whose turn it is; counted from its Welcome, which tells
// the same, so that not all are asked at once.
func (ls *links) query(now time.Duration) {
	for _, n := range slices.Sorted(maps.Keys(ls.byNode)) {
		s := ls.session(n)
		if s == nil || now-s.asked < queryEvery {
			continue
		}
		ls.nonce++
		s.asked, s.nonce = now, ls.nonce
		s.send(stream.Frame{Query: &stream.Ping{Term: ls.term, Nonce: ls.nonce}})
	}
}

// answers takes the answer to the latest query and reports that it is one; a list
// that nobody asked for, or that comes late, says nothing.
func (s *session) answers(m stream.Assigned) bool {
	if s.nonce == 0 || m.Nonce != s.nonce {
		return false
	}
	s.nonce = 0
	return true
}
