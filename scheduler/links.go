package scheduler

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/scheduler/link"
	"github.com/skein-project/skein/scheduler/lives"
	"github.com/skein-project/skein/scheduler/plan/step"
	"github.com/skein-project/skein/scheduler/seats"
	"github.com/skein-project/skein/scheduler/settle"
	"github.com/skein-project/skein/scheduler/stream"
)

// links are the streams of one term to all members, and the workers that they lead
// to. It belongs to the loop.
type links struct {
	o      *Options
	m      *metrics
	log    zerolog.Logger
	term   cluster.Term
	events chan<- link.Event

	byNode map[cluster.NodeID]*host
	seats  *seats.Seats                      // the outside workers
	lives  *lives.Lives                      // what the log knows of the hosts' workers
	health map[cluster.NodeID]cluster.Health // as the plan knows it
	nonce  uint64                            // of the latest query of a host's worker
	walked time.Duration                     // when all workers were looked at
	view   view
	later  []step.Event     // that the plan has not heard
	review []cluster.NodeID // outside workers of which the log is to say something else
	wg     sync.WaitGroup
}

// host is the streams to one member.
type host struct {
	link *link.Link
	sess *link.Session // nil: no stream
	zone string        // as the plan knows it

	// The latest query, when it went, 0: it was answered.
	nonce uint64
	asked time.Duration

	crew     *link.Link    // to its outside workers; nil: it lets none in
	crewSess *link.Session // nil: no stream
}

func newLinks(o *Options, m *metrics, log zerolog.Logger, term cluster.Term, events chan<- link.Event) *links {
	return &links{
		o: o, m: m, log: log, term: term, events: events, seats: seats.New(enrolled(o.Log)),
		byNode: make(map[cluster.NodeID]*host), lives: lives.New(o.LogStarts), health: make(map[cluster.NodeID]cluster.Health),
	}
}

// meet opens and ends links as the membership asks, and tells of every change of
// zone and health.
func (ls *links) meet(ctx context.Context, members map[cluster.NodeID]cluster.Health, zones map[cluster.NodeID]string, tell func(step.Event)) {
	now := ls.o.Now()
	for _, n := range slices.Sorted(maps.Keys(members)) {
		h := members[n]
		l, ok := ls.byNode[n]
		if !ok {
			l = &host{link: ls.open(ctx, n, false)}
			ls.byNode[n] = l
		}
		if z := zones[n]; z != l.zone {
			l.zone = z
			tell(step.HostKnown{Worker: n, Zone: z})
		}
		if old, ok := ls.health[n]; ok && old == h {
			continue
		}
		ls.health[n] = h
		tell(step.HealthChanged{Worker: n, Health: h})
		ls.seats.Believe(n, h, now, tell)
		if h == cluster.Alive {
			l.link.Kick()
			if l.crew != nil {
				l.crew.Kick()
			}
		}
	}
	for _, n := range slices.Sorted(maps.Keys(ls.byNode)) {
		if _, ok := members[n]; !ok {
			l := ls.byNode[n]
			l.link.Stop()
			ls.endCrew(l, n, tell)
			ls.seats.Believe(n, cluster.Left, now, tell)
			delete(ls.byNode, n)
			delete(ls.health, n)
			tell(step.WorkerDisconnected{Worker: n}) // first: who has left is forgotten
			tell(step.HealthChanged{Worker: n, Health: cluster.Left})
		}
	}
}

func (ls *links) open(ctx context.Context, n cluster.NodeID, crew bool) *link.Link {
	dial := ls.o.Dial
	if crew {
		dial = ls.o.DialCrew
	}
	l, run := link.New(ctx, link.Options{
		Node: n, Crew: crew, Self: ls.o.Self, Term: ls.term, Dial: dial, RTT: func() time.Duration { return ls.o.RTT(n) }, Now: ls.o.Now, Events: ls.events, Metrics: &ls.m.links, Logger: ls.log,
	})
	ls.wg.Go(run)
	return l
}

// wait waits for all links to end, after the context that they run under has.
func (ls *links) wait() { ls.wg.Wait() }

// session is the open stream to a host's worker, or nil.
func (ls *links) session(n cluster.NodeID) *link.Session {
	if l, ok := ls.byNode[n]; ok {
		return l.sess
	}
	return nil
}

// reach is the open stream that leads to a worker, or nil.
func (ls *links) reach(n cluster.NodeID) *link.Session {
	if at, ok := ls.seats.At(n); ok {
		return ls.byNode[at].crewSess
	}
	return ls.session(n)
}

// push sends f if there is a stream; a worker without one learns it all from
// its next Hello.
func (ls *links) push(n cluster.NodeID, f stream.Frame) {
	if s := ls.reach(n); s != nil {
		if s.Crew {
			f.Worker = n
		}
		s.Send(f)
	}
}

// maxWalked is how many workers are looked at with each tick, walkEvery how often more
// of them are.
const (
	maxWalked = 1000
	walkEvery = time.Second
)

// walks reports that it is time to look at all workers.
func (ls *links) walks(now time.Duration) bool {
	if len(ls.byNode)+ls.seats.Len() > maxWalked && now-ls.walked < walkEvery {
		return false
	}
	ls.walked = now
	return true
}

// maxRefs keeps an Accepted far below the longest frame.
const maxRefs = 4096

// settled tells the workers what they may forget.
func (ls *links) settled(done []settle.Settlement) {
	refs := make(map[cluster.NodeID][]job.Attempt)
	for _, d := range done {
		worker := d.Attempt.Worker
		refs[worker] = append(refs[worker], d.Attempt.At(""))
	}
	for n, rs := range refs {
		for part := range slices.Chunk(rs, maxRefs) {
			ls.push(n, stream.Frame{Accepted: &stream.Accepted{Term: ls.term, Refs: part}})
		}
	}
}
