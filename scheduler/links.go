package scheduler

import (
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/rs/zerolog"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/scheduler/plan/step"
	"github.com/skein-project/skein/scheduler/stream"
)

// links are the streams of one term to the workers of all members. It belongs to
// the loop.
type links struct {
	o      *Options
	m      *metrics
	log    zerolog.Logger
	term   cluster.Term
	events chan<- linkEvent

	byNode map[cluster.NodeID]*link
	lives  *lives                            // what the log knows of them
	health map[cluster.NodeID]cluster.Health // as the plan knows it
	nonce  uint64                            // of the latest query of a worker
	wg     sync.WaitGroup
}

func newLinks(o *Options, m *metrics, log zerolog.Logger, term cluster.Term, events chan<- linkEvent) *links {
	return &links{
		o: o, m: m, log: log, term: term, events: events,
		byNode: make(map[cluster.NodeID]*link), lives: newLives(o.LogStarts), health: make(map[cluster.NodeID]cluster.Health),
	}
}

// meet opens and ends links as the membership asks, and tells of every change of
// zone and health.
func (ls *links) meet(ctx context.Context, members map[cluster.NodeID]cluster.Health, zones map[cluster.NodeID]string, tell func(step.Event)) {
	for _, n := range slices.Sorted(maps.Keys(members)) {
		h := members[n]
		l, ok := ls.byNode[n]
		if !ok {
			l = ls.open(ctx, n)
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
		if h == cluster.Alive {
			select {
			case l.kick <- struct{}{}:
			default:
			}
		}
	}
	for _, n := range slices.Sorted(maps.Keys(ls.byNode)) {
		if _, ok := members[n]; !ok {
			ls.byNode[n].stop()
			delete(ls.byNode, n)
			delete(ls.health, n)
			tell(step.HealthChanged{Worker: n, Health: cluster.Left})
			tell(step.WorkerDisconnected{Worker: n})
		}
	}
}

func (ls *links) open(ctx context.Context, n cluster.NodeID) *link {
	ctx, stop := context.WithCancel(ctx)
	l := &link{
		node: n, term: ls.term, o: ls.o, m: ls.m, events: ls.events, stop: stop, kick: make(chan struct{}, 1),
		log: ls.log.With().Str("peer", string(n)).Logger(),
	}
	ls.byNode[n] = l
	ls.wg.Go(func() { l.run(ctx) })
	return l
}

// wait waits for all links to end, after the context that they run under has.
func (ls *links) wait() { ls.wg.Wait() }

// session is the open stream to a worker, or nil.
func (ls *links) session(n cluster.NodeID) *session {
	if l, ok := ls.byNode[n]; ok {
		return l.sess
	}
	return nil
}

// push sends f if there is a stream; a worker without one learns it all from
// its next Hello.
func (ls *links) push(n cluster.NodeID, f stream.Frame) {
	if s := ls.session(n); s != nil {
		s.send(f)
	}
}

// end ends the stream to a worker, if there is one.
func (ls *links) end(n cluster.NodeID, why error) {
	if s := ls.session(n); s != nil {
		s.end(why)
	}
}

// maxRefs keeps an Accepted far below the longest frame.
const maxRefs = 4096

// settled tells the workers what they may forget.
func (ls *links) settled(done []settlement) {
	refs := make(map[cluster.NodeID][]job.Attempt)
	for _, d := range done {
		worker := d.attempt.Worker
		refs[worker] = append(refs[worker], d.attempt.At(""))
	}
	for n, rs := range refs {
		for part := range slices.Chunk(rs, maxRefs) {
			ls.push(n, stream.Frame{Accepted: &stream.Accepted{Term: ls.term, Refs: part}})
		}
	}
}
