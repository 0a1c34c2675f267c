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
func (ls *links) query(now time.Duration) {
	for _, n := range slices.Sorted(maps.Keys(ls.byNode)) {
		l := ls.byNode[n]
		if l.sess == nil || now-l.asked < queryEvery {
			continue
		}
		ls.nonce++
		l.asked, l.nonce = now, ls.nonce
		ls.ask(n, ls.nonce)
	}
	for _, q := range ls.seats.Queries(now) {
		ls.ask(q.Worker, q.Nonce)
	}
}

func (ls *links) ask(n cluster.NodeID, nonce uint64) {
	ls.push(n, stream.Frame{Query: &stream.Ping{Term: ls.term, Nonce: nonce}})
}

// answers takes the answer to the latest query and reports that it is one; a list
// that nobody asked for, or that comes late, says nothing.
func (ls *links) answers(n cluster.NodeID, nonce uint64) bool {
	l := ls.byNode[n]
	if l == nil {
		return ls.seats.Answers(n, nonce)
	}
	if l.nonce == 0 || nonce != l.nonce {
		return false
	}
	l.nonce = 0
	return true
}
