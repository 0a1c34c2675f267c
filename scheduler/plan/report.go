package plan

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/scheduler/plan/step"
	"github.com/skein-project/skein/scheduler/plan/trust"
	"github.com/skein-project/skein/scheduler/plan/vital"
)

// connect compares what the worker has with what the plan thinks it has.
func (p *Plan) connect(e step.WorkerConnected, now time.Duration) {
	w := p.roster.get(e.Worker, now)
	w.Connected, w.slots, w.credits, w.host.Executors = true, e.Slots, e.Credits, slices.Clone(e.Executors)
	w.draining, w.unready, w.Stranger, w.host.Memory = e.Draining, false, e.Stranger, e.Memory
	if w.Stranger {
		w.slots = min(e.Slots, trust.MaxSlots)
		w.credits = min(cmp.Or(e.Credits, 2*w.slots), 2*w.slots)
	}
	w.host.Files, w.host.Full = e.Files && !e.Stranger, false
	p.roster.learn(w)
	p.accepts(w, e.Owner, e.Accept)
	if w.output = now; w.signal == vital.Stuck && now >= w.until {
		w.signal = vital.Idle
	}
	has := make(map[job.Attempt]bool, len(e.Assigned))
	for _, r := range e.Assigned {
		has[r.At(w.node)] = true
	}
	for _, t := range w.tries {
		if t.Lost = !has[t.ref()]; t.Lost {
			// Its result may follow on this stream; else it never got there, or
			// was lost in a restart.
			p.work.shorten(t, now+p.cfg.Recover+w.rtt)
		}
		delete(has, t.ref())
	}
	for _, r := range e.Assigned {
		if r = r.At(w.node); has[r] {
			delete(has, r)
			p.meet(w, r, now)
		}
	}
	p.roster.review(w, now)
}

// accepts takes in whose worker w is and whose jobs it runs. While any worker
// narrows, jobs of two owners are held against the workers apart.
func (p *Plan) accepts(w *worker, owner string, a job.Acceptance) {
	p.roster.accepts(w, owner, a)
	if p.roster.classes.Narrow(p.roster.narrow > 0) {
		p.work.reclass(p.work.jobs...)
	}
}

// meet decides about an attempt that a worker has and the plan does not know:
// an assignment that was lost with the holder that made it.
func (p *Plan) meet(w *worker, r job.Attempt, now time.Duration) {
	j := p.work.byID[r.Job]
	if j == nil || !j.has(r.Chunk) || r.Number < 1 {
		p.out.Cancel(w.node, r, "the attempt is unknown")
		return
	}
	if w.Stranger { // it would choose its chunks
		p.out.Cancel(w.node, r, "nobody gave it")
		return
	}
	c := &j.chunks[r.Chunk]
	if c.state > assigned || r.Number > int(c.attempts)+job.MaxAttempts || len(w.tries) >= w.holds(p.cfg) ||
		!p.roster.classes.Began(j.class, &w.host) || c.at(w) != nil || w.Gone() {
		p.out.Cancel(w.node, r, "the attempt is not needed")
		return
	}
	p.work.open(j, r.Chunk, r.Number, w, now).Adopted = true
	p.out.Emit(step.Adopt{Worker: w.node, Job: j.id, Chunks: []job.Attempt{{Chunk: r.Chunk, Number: r.Number, Worker: w.node}}})
}

func (p *Plan) disconnect(e step.WorkerDisconnected, now time.Duration) {
	w := p.roster.get(e.Worker, now)
	w.Lose(now)
	p.roster.review(w, now)
	p.roster.forget(w, now)
}

// setHealth takes in what is believed of a worker's host; what a dead one had is
// taken back.
func (p *Plan) setHealth(e step.HealthChanged, now time.Duration) {
	w := p.roster.get(e.Worker, now)
	w.Believe(e.Health, now)
	reason := "worker is dead"
	switch e.Health {
	case cluster.Dead:
	case cluster.Left:
		reason = "worker left"
	default:
		p.roster.review(w, now)
		return
	}
	p.work.reclaimAll(w, reason, false, now)
	p.roster.review(w, now)
	p.roster.forget(w, now)
}

// status takes in what a worker says of itself.
func (p *Plan) status(e step.WorkerStatus, now time.Duration) {
	w := p.roster.get(e.Worker, now)
	p.work.advance(w, e.Progress, now)
	if w.draining != e.Draining || w.unready != !e.Ready || w.host.Full != e.Full || w.strain != e.Strain {
		w.draining, w.unready, w.host.Full, w.strain = e.Draining, !e.Ready, e.Full, e.Strain
		p.roster.review(w, now)
	}
}

// holds compares what a worker says it has with what the plan thinks. Only what
// differs twice in a row is believed: one list may cross an assignment.
func (p *Plan) holds(e step.WorkerHolds, now time.Duration) {
	w := p.roster.get(e.Worker, now)
	has := make(map[job.Attempt]bool, len(e.Refs)+len(e.Kept))
	for _, list := range [][]job.Attempt{e.Refs, e.Kept} {
		for _, r := range list {
			has[r.At(w.node)] = true
		}
	}
	for _, t := range w.tries {
		switch {
		case has[t.ref()]:
			t.Misses = 0
		case now-t.started < p.cfg.Recover+w.rtt:
		case t.Missed():
			p.work.shorten(t, now)
		}
	}
	var stray map[job.Attempt]bool
	for _, r := range e.Refs {
		r = r.At(w.node)
		if p.work.find(w, r) != nil {
			continue
		}
		if w.stray[r] && w.Stranger {
			p.out.Cancel(w.node, r, "nobody gave it")
			continue
		}
		if w.stray[r] {
			p.out.Emit(step.Notice{What: step.NoticeStray, Worker: w.node, Job: r.Job, Reason: fmt.Sprintf("it runs %s, and nobody asked for that", r)})
			p.out.Cancel(w.node, r, "nobody asked for it")
			continue
		}
		if stray == nil {
			stray = make(map[job.Attempt]bool)
		}
		stray[r] = true
	}
	w.stray = stray
	p.expire(now)
}

// evictStuck takes away from workers that are stuck what they have.
func (p *Plan) evictStuck(now time.Duration) {
	for _, w := range p.watch.look(p.roster.workers, now) {
		reason := p.roster.evict(w, now)
		p.out.Emit(step.Notice{What: step.NoticeEvicted, Worker: w.node, Reason: reason})
		p.work.reclaimAll(w, reason, true, now)
	}
}
