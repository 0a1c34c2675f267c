package plan

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/scheduler/plan/step"
)

// Signal says how a worker gets on with what it has, the third of the signals
// that decide what it gets: live, ready, progressing.
type Signal uint8

// Values of Signal.
const (
	Idle     Signal = iota // it has nothing to do
	Normal                 // results come as fast as its rate lets expect
	Slow                   // they take more than twice as long
	Degraded               // they take more than four times as long
	Stuck                  // it has work, and nothing comes
)

// String implements fmt.Stringer.
func (s Signal) String() string {
	return [...]string{"idle", "normal", "slow", "degraded", "stuck"}[s]
}

// Verdict is what the three signals mean for a worker.
type Verdict string

// Values of Verdict.
const (
	VerdictRoute       Verdict = "route"       // it gets work
	VerdictInvestigate Verdict = "investigate" // it gets work, later than others
	VerdictDrain       Verdict = "drain"       // it finishes what it has
	VerdictEvict       Verdict = "evict"       // what it has runs elsewhere
)

// verdicts are the decisions by live, ready and progressing.
func verdict(live, ready bool, s Signal) Verdict {
	switch {
	case !live, s == Stuck:
		return VerdictEvict
	case !ready:
		return VerdictDrain
	case s == Slow, s == Degraded:
		return VerdictInvestigate
	}
	return VerdictRoute
}

func (w *worker) verdict() Verdict {
	return verdict(w.healthy(), w.slots > 0 && !w.draining && !w.unready, w.signal)
}

// Evictions.
const (
	minPatience = 10 * time.Second // what is expected earlier is not waited for less
	evictEvery  = 30 * time.Second
	firstEvict  = 30 * time.Second
	lastEvict   = 10 * time.Minute
	healthEvery = time.Second
)

// judge is how w gets on: how long ago its last output is, by how long one
// chunk takes it. What was never measured is judged by its deadlines only.
func (w *worker) judge(cfg Config, now time.Duration) Signal {
	if len(w.tries) == 0 {
		return Idle
	}
	longest := time.Duration(0)
	for _, t := range w.tries {
		if t.job.kind.rate == 0 {
			return Normal
		}
		longest = max(longest, t.load)
	}
	expected, silent := max(minPatience, longest), now-w.output
	switch {
	case silent > max(cfg.Stuck, 6*expected):
		return Stuck
	case silent > 4*expected:
		return Degraded
	case silent > 2*expected:
		return Slow
	}
	return Normal
}

// checkHealth looks at all workers, and takes away from the stuck ones what
// they have. When most seem to be stuck at once, the fault may be elsewhere:
// then they go one by one, the one that is silent longest first.
func (p *Plan) checkHealth(now time.Duration) {
	if now < p.healthAt {
		return
	}
	p.healthAt = now + healthEvery
	var stuck []*worker
	taking := 0
	for _, w := range p.workers {
		if w == nil || !w.healthy() {
			continue
		}
		taking++
		if w.signal == Stuck { // evicted, its timer gives it another chance
			continue
		}
		if s := w.judge(p.cfg, now); s == Stuck {
			stuck = append(stuck, w)
		} else {
			w.signal = s
		}
	}
	slices.SortFunc(stuck, func(a, b *worker) int { return cmp.Or(cmp.Compare(a.output, b.output), byName(a, b)) })
	if taking >= 3 && 2*len(stuck) > taking {
		if now < p.evictAt {
			return
		}
		stuck = stuck[:1]
	}
	for _, w := range stuck {
		p.evictAt = now + evictEvery
		p.evict(w, now)
	}
}

// evict takes everything away from a worker for a while.
func (p *Plan) evict(w *worker, now time.Duration) {
	reason := fmt.Sprintf("worker is stuck: nothing came from it for %s", (now - w.output).Round(time.Second))
	w.signal = Stuck
	w.until = now + min(lastEvict, firstEvict<<min(w.evictions, 10))
	w.evictions++
	p.set(&w.timer, w.until)
	p.review(w, now)
	p.emit(step.Notice{What: step.NoticeEvicted, Worker: w.node, Reason: reason})
	for _, t := range slices.Clone(w.tries) {
		if !t.gone {
			p.cancel(w, t.ref(), reason)
			p.reclaim(t, reason, now)
		}
	}
}

// status takes in what a worker says of itself.
func (p *Plan) status(e step.WorkerStatus, now time.Duration) {
	w := p.worker(e.Worker, now)
	p.progress(w, e.Progress, now)
	if w.draining != e.Draining || w.unready != !e.Ready {
		w.draining, w.unready = e.Draining, !e.Ready
		p.review(w, now)
	}
}

// drains lets a worker take nothing new, or does again.
func (p *Plan) drains(e step.Draining, now time.Duration) {
	w := p.worker(e.Worker, now)
	w.draining = e.On
	p.review(w, now)
}

// describe takes in what is known of a worker's host.
func (p *Plan) describe(e step.HostKnown, now time.Duration) {
	w := p.worker(e.Worker, now)
	w.zone = e.Zone
	p.review(w, now)
}

func byName(a, b *worker) int { return cmp.Compare(a.node, b.node) }

// WorkerView is what the plan knows of a worker.
type WorkerView struct {
	Worker    cluster.NodeID
	Connected bool
	Health    cluster.Health
	Slots     int
	Tries     int
	Backlog   uint64        // iterations assigned and not answered
	Drain     time.Duration // until it is done with them
	Rate      float64       // iterations per second at its latest work; 0: not measured yet
	Window    int           // attempts that it may hold
	Draining  bool
	Ready     bool
	Signal    Signal
	Verdict   Verdict
	Trusted   bool          // its results are believed without another's
	Until     time.Duration // it gets nothing until then; 0: it does
}

// Workers describes the workers by name.
func (p *Plan) Workers() []WorkerView {
	out := make([]WorkerView, 0, len(p.byNode))
	for _, w := range p.workers {
		if w == nil {
			continue
		}
		v := WorkerView{
			Worker: w.node, Connected: w.connected, Health: w.health, Slots: w.slots, Tries: len(w.tries), Backlog: w.backlog,
			Drain: w.load / time.Duration(max(1, w.slots)), Window: w.window(p.cfg), Draining: w.draining, Ready: !w.unready,
			Signal: w.signal, Verdict: w.verdict(), Trusted: !w.stranger || w.trust.agreed >= trustAfter,
		}
		if w.until > p.now {
			v.Until = w.until
		}
		if len(w.kinds) > 0 {
			v.Rate = w.kinds[0].rate * float64(w.slots)
		}
		out = append(out, v)
	}
	slices.SortFunc(out, func(a, b WorkerView) int { return cmp.Compare(a.Worker, b.Worker) })
	return out
}
