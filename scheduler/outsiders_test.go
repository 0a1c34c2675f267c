package scheduler

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/gateway/crew"
	"github.com/skein-project/skein/gateway/desk"
	"github.com/skein-project/skein/scheduler/stream"
)

// gatewayHost is a host that lets outside workers in. Killed, it forgets all of them.
type gatewayHost struct {
	mu    sync.Mutex
	ctx   context.Context
	from  *cluster.NodeID // the holder
	crew  *crew.Crew
	stop  context.CancelFunc
	conns []net.Conn
}

func newGatewayHost(ctx context.Context, holder *cluster.NodeID) *gatewayHost {
	g := &gatewayHost{ctx: ctx, from: holder}
	g.start()
	return g
}

func (g *gatewayHost) start() {
	g.mu.Lock()
	defer g.mu.Unlock()
	start := time.Now()
	c, err := crew.New(crew.Options{Now: func() time.Duration { return time.Since(start) + time.Hour }, Logger: zerolog.Nop()})
	if err != nil {
		panic(err)
	}
	ctx, stop := context.WithCancel(g.ctx)
	g.crew, g.stop = c, stop
	go func() { _ = c.Run(ctx) }()
}

// kill lets the host vanish with all that it knows.
func (g *gatewayHost) kill() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.crew != nil {
		g.stop()
	}
	g.crew = nil
	g.drop()
}

// cut ends the holder's streams.
func (g *gatewayHost) cut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.drop()
}

func (g *gatewayHost) drop() {
	for _, c := range g.conns {
		c.Close()
	}
	g.conns = nil
}

func (g *gatewayHost) now() *crew.Crew {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.crew
}

func (g *gatewayHost) dial() (net.Conn, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.crew == nil {
		return nil, errDown
	}
	ours, theirs := net.Pipe()
	g.conns = append(g.conns, ours)
	go g.crew.Serve(g.ctx, *g.from, ours)
	return theirs, nil
}

// outsider is somebody's computer, as a gateway's front shows it to the desk.
type outsider struct {
	id       cluster.NodeID
	owner    string
	lies     bool
	hostile  string // what else it does; see finish and complete
	heard    job.ID // of which it had chunks
	gateways []*gatewayHost

	mu    sync.Mutex
	at    int // of gateways
	queue []job.Attempt
	specs map[job.Attempt]*job.Spec
	kept  map[job.Attempt]stream.Result
	after uint64
	moves chan struct{} // capacity 1: attach elsewhere, without a word
	quits chan struct{} // capacity 1: all is lost
	takes int           // results that were taken
}

func newOutsider(i int, owner string, gateways ...*gatewayHost) *outsider {
	return &outsider{
		id: cluster.OutsideID([]byte{byte(i), 7}), owner: owner, gateways: gateways, at: i % len(gateways), specs: make(map[job.Attempt]*job.Spec),
		kept: make(map[job.Attempt]stream.Result), moves: make(chan struct{}, 1), quits: make(chan struct{}, 1),
	}
}

func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

func (o *outsider) run(ctx context.Context) {
	for ctx.Err() == nil {
		if s, c := o.attach(); s != nil {
			o.serve(ctx, s, c)
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
	}
}

func (o *outsider) attach() (*crew.Seat, *crew.Crew) {
	o.mu.Lock()
	defer o.mu.Unlock()
	c := o.gateways[o.at].now()
	if c == nil {
		o.at = (o.at + 1) % len(o.gateways)
		return nil, nil
	}
	a := desk.Attach{Worker: o.id, Owner: o.owner, Slots: 1, Room: 2, Executors: []string{job.ExecutorWASM}, Running: slices.Clone(o.queue), After: o.after}
	for ref := range o.kept {
		if len(a.Kept)+len(a.Running) < desk.MaxRefs {
			a.Kept = append(a.Kept, ref)
		}
	}
	s, st, err := c.Attach(a)
	if err != nil {
		panic(err)
	}
	for _, g := range st.Chunks {
		o.take(g)
	}
	o.forget(st.Stop)
	return s, c
}

func (o *outsider) take(g desk.Given) {
	for _, r := range g.Refs {
		o.heard = r.Job
		if _, done := o.kept[r]; !done && o.specs[r] == nil {
			o.specs[r] = g.Spec
			o.queue = append(o.queue, r)
		}
	}
}

func (o *outsider) forget(refs []job.Attempt) {
	for _, r := range refs {
		delete(o.kept, r)
		delete(o.specs, r)
		o.queue = slices.DeleteFunc(o.queue, func(q job.Attempt) bool { return q == r })
	}
}

// serve lives one session.
func (o *outsider) serve(ctx context.Context, s *crew.Seat, c *crew.Crew) {
	beat, work := time.NewTicker(10*time.Second), time.NewTicker(2*time.Second)
	defer beat.Stop()
	defer work.Stop()
	o.complete(s)
	for {
		select {
		case <-ctx.Done():
			return
		case <-o.moves:
			o.mu.Lock()
			o.at = (o.at + 1) % len(o.gateways)
			o.mu.Unlock()
			return
		case <-o.quits:
			o.mu.Lock()
			o.forget(slices.Clone(o.queue))
			clear(o.kept)
			o.mu.Unlock()
			return
		case <-s.Ready():
		case <-beat.C:
			o.mu.Lock()
			b := desk.Beat{Ready: true, Kept: len(o.kept)}
			for _, r := range o.queue {
				b.Have = append(b.Have, desk.Progress{Attempt: r})
			}
			o.mu.Unlock()
			if _, err := s.Beat(b); err != nil {
				return
			}
			o.complete(s) // again: they are duplicates
		case <-work.C:
			o.finish()
			o.complete(s)
		}
		o.mu.Lock()
		if now := o.gateways[o.at].now(); now != c {
			o.mu.Unlock()
			return // it was killed
		}
		for _, p := range s.Take() {
			switch p.Kind {
			case desk.PushChunks:
				o.take(p.Chunks)
			case desk.PushStop, desk.PushSettled:
				o.forget(p.Refs)
			case desk.PushGone:
				o.after = max(o.after, p.After)
				o.mu.Unlock()
				return
			}
		}
		o.mu.Unlock()
	}
}

// finish does the first that it has.
func (o *outsider) finish() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.queue) == 0 || o.hostile == "silent" {
		return
	}
	r := o.queue[0]
	o.queue = o.queue[1:]
	spec := o.specs[r]
	delete(o.specs, r)
	_, n := spec.ChunkRange(r.Chunk)
	res := *goodResult(r, n).Result
	if o.lies {
		res.Result.Metrics["x"] = job.Metric{N: n, Mean: -1, Min: -1, Max: -1}
	}
	switch o.hostile {
	case "fail":
		res.Result, res.Error, res.Class = nil, "exit status 1", job.FailedWork
	case "hurry":
		res.Seconds = 1e-9
	}
	o.kept[r] = res
}

func (o *outsider) complete(s *crew.Seat) {
	o.mu.Lock()
	defer o.mu.Unlock()
	var all []stream.Result
	for _, k := range o.kept {
		if all = append(all, k); len(all) == desk.MaxResults {
			break
		}
	}
	if o.hostile == "flood" && o.heard != "" { // of what others have
		for i := range desk.MaxResults - len(all) {
			all = append(all, *goodResult(job.Attempt{Job: o.heard, Chunk: i, Number: 1}, 10).Result)
		}
	}
	said, err := s.Complete(all)
	if err != nil {
		return
	}
	for i, v := range said {
		switch v {
		case desk.Unknown:
			delete(o.kept, all[i].Attempt)
		case desk.Taken:
			o.takes++
		}
	}
}

func (o *outsider) keeps() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.kept)
}

// TestOutsiders: outside workers at two hosts that come and go, move, lie and are lost,
// hosts and streams that end, and holders that change in the middle: each chunk counts
// once, and the job is what hosts alone make of it.
func TestOutsiders(t *testing.T) {
	strange, terms, seeds := 0, 0, rounds(6, 300)
	for seed := range uint64(seeds) {
		synctest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 3))
			holder := cluster.NodeID("a")
			a, b, c := newFakeWorker("a", 2), newFakeWorker("b", 2), newFakeWorker("c", 2)
			gates := []*gatewayHost{newGatewayHost(t.Context(), &holder), newGatewayHost(t.Context(), &holder)}
			a.crew, b.crew = gates[0], gates[1]
			a.delay, b.delay, c.delay = 4*time.Second, 4*time.Second, 4*time.Second
			r := newRig(t, newMemLog("a"), a, b, c)
			ctx, cancel := context.WithCancel(t.Context())
			var all []*outsider
			var wg sync.WaitGroup
			for i := range 12 {
				o := newOutsider(i, fmt.Sprintf("visitor:%d", i), gates...)
				o.lies = i < 2
				all = append(all, o)
				wg.Go(func() { o.run(ctx) })
			}
			term := cluster.Term(1)
			stop := r.run(term)
			time.Sleep(5 * time.Second)
			const chunks = 400
			id := r.submitOutside("k", chunks)
			for range 30 {
				time.Sleep(time.Duration(rng.IntN(8000)) * time.Millisecond)
				g := gates[rng.IntN(2)]
				o := all[rng.IntN(len(all))]
				switch rng.IntN(7) {
				case 0:
					g.kill()
					time.Sleep(time.Duration(rng.IntN(20000)) * time.Millisecond)
					g.start()
				case 1:
					g.cut()
				case 2, 3:
					poke(o.moves)
				case 4:
					poke(o.quits)
				default:
					_ = stop()
					time.Sleep(time.Duration(rng.IntN(5000)) * time.Millisecond)
					term++
					stop = r.run(term)
				}
			}
			j := r.ended(id, 30*time.Minute)
			wantDone(t, j)
			if n := r.log.accepted(); n != chunks {
				t.Errorf("seed %d: %d accepts logged, want %d", seed, n, chunks)
			}
			if a := j.Aggregates[0]; a.N != 10*chunks || a.Mean != float64(chunks-1)/2 || a.Min != 0 || a.Max != chunks-1 {
				t.Errorf("seed %d: aggregate %+v", seed, a)
			}
			if r.log.count(event.KindChunkFailed) > 0 {
				t.Errorf("seed %d: %d attempts failed", seed, r.log.count(event.KindChunkFailed))
			}
			for _, w := range j.Workers {
				if cluster.IsOutside(w.Worker) {
					strange += w.Chunks
				}
			}
			// All results are forgotten, by those who made them and on the way.
			r.until(desk.KeepResults+5*time.Minute, "results forgotten", func() bool {
				n := 0
				for _, o := range all {
					if !o.lies { // who is not believed is not let in any more
						n += o.keeps()
					}
				}
				for _, g := range gates {
					n += g.now().Stats().Results
				}
				return n == 0
			})
			terms += int(term)
			_ = stop()
			cancel()
			wg.Wait()
			for _, g := range gates {
				g.kill()
			}
			for _, w := range r.workers {
				w.kill()
			}
		})
	}
	t.Logf("%d terms, %d chunks of outside workers count", terms, strange)
	if strange == 0 || terms < 2*seeds {
		t.Error("the test lost its point")
	}
}
