package worker

import (
	"fmt"
	"slices"
	"time"

	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/scheduler/stream"
	"github.com/skein-project/skein/worker/executor"
)

// cancelOrder is a Cancel whose attempts are still ending.
type cancelOrder struct {
	job  job.ID
	seq  uint64
	sess *session
	left int // attempts that run
}

// confirm answers a Cancel once nothing of it runs.
func (l *loop) confirm(o *cancelOrder) {
	if o.left > 0 || o.seq == 0 || o.sess != l.sess {
		return
	}
	l.answer(stream.Frame{Stopped: &stream.Stopped{Job: o.job, Seq: o.seq}})
}

// answer queues a reply; a holder that reads none loses its stream.
func (l *loop) answer(f stream.Frame) {
	if l.sess != nil && !l.sess.reply(f) {
		l.m.refused.WithLabelValues("slow").Inc()
		l.closeSession("replies are not read")
	}
}

// assign queues new attempts. What is queued or runs already is left as it
// is; what was finished is sent again. A draining worker gives all back.
func (l *loop) assign(a stream.Assign) bool {
	order := l.floors.Take(a.Job, a.Term, a.Seq)
	if order == stream.OrderStale {
		l.m.refused.WithLabelValues("stale_order").Inc()
		l.log.Warn().Str("job", string(a.Job)).Uint64("term", uint64(a.Term)).Uint64("order", a.Seq).Msg("late assignment refused")
		return true
	}
	if room := l.room(); len(l.queue)+len(a.Chunks) > room {
		l.m.refused.WithLabelValues("queue_full").Inc()
		l.closeSession(fmt.Sprintf("queue is full: %d waiting, %d more assigned, room for %d", len(l.queue), len(a.Chunks), room))
		return true // answered
	}
	wanted := l.runs(a.Owner)
	queued := make(map[job.Attempt]bool, len(l.queue))
	for _, t := range l.queue {
		queued[t.Attempt] = true
	}
	for _, c := range a.Chunks {
		ref := job.Attempt{Job: a.Job, Chunk: c.Chunk, Number: c.Number}
		if _, ok := l.running[ref]; ok || queued[ref] {
			continue
		}
		if _, ok := l.outbox.Get(ref); ok {
			l.sess.announce(ref)
			continue
		}
		switch {
		case order == stream.OrderAgain: // it was done, and its fate is known
		case l.stopping || l.drained:
			l.handBack(ref)
		case !wanted:
			l.refuse(ref, a.Owner)
		default:
			queued[ref] = true
			l.queue = append(l.queue, queuedTask{Task: executor.Task{Attempt: ref, Spec: a.Spec, Resume: resume(a.Resume, c.Chunk)}, owner: a.Owner, at: l.opts.Now()})
		}
	}
	return true
}

// cancel forgets attempts wherever they are and kills those that run. It is
// confirmed when they have ended.
func (l *loop) cancel(c stream.Cancel) {
	if l.floors.Take(c.Job, c.Term, c.Seq) == stream.OrderStale {
		l.m.refused.WithLabelValues("stale_order").Inc() // and obeyed: a stop is always safe
	}
	named := make(map[job.Attempt]bool, len(c.Chunks))
	for _, r := range c.Chunks {
		named[r] = true
	}
	hit := func(ref job.Attempt) bool {
		return ref.Job == c.Job && (len(named) == 0 || named[job.Attempt{Chunk: ref.Chunk, Number: ref.Number}])
	}
	l.queue = slices.DeleteFunc(l.queue, func(t queuedTask) bool { return hit(t.Attempt) })
	order := &cancelOrder{job: c.Job, seq: c.Seq, sess: l.sess}
	for _, ref := range l.refs() {
		if hit(ref) {
			l.stop(l.running[ref])
		}
	}
	for r := range l.ending {
		if hit(r.task.Attempt) {
			order.left++
			r.orders = append(r.orders, order)
		}
	}
	_, err := l.outbox.Drop(l.outbox.Hit(hit)...)
	l.journal(err)
	l.confirm(order)
}

// stop ends a running attempt whose result is of no interest any more.
func (l *loop) stop(r *run) {
	r.cancel()
	delete(l.running, r.task.Attempt)
	l.ending[r] = true
}

// handBack gives an attempt back unfinished: the holder gives it to another.
func (l *loop) handBack(ref job.Attempt) {
	why := "worker drains"
	if l.stopping {
		why = "worker stops"
	}
	l.giveBack(ref, why)
}

// keep puts a result into the outbox and offers it to the holder.
func (l *loop) keep(res stream.Result) {
	err := l.outbox.Add(res, time.Now())
	if err != nil && l.journal(err) { // a number that JSON cannot carry
		res.Result, res.Error = nil, job.ReasonOf(err)
		l.journal(l.outbox.Add(res, time.Now())) // a text always encodes
	}
	l.sess.announce(res.Attempt)
}

// maxHave is how many attempts an Assigned lists, so that it fits a frame.
const maxHave = 1 << 15

// have lists for the holder what this worker has of its assignments; of very many
// results only the latest: those that were kept for long have been sent.
func (l *loop) have(nonce uint64) stream.Frame {
	refs, kept := l.assigned(), l.outbox.Refs()
	refs = refs[:min(len(refs), maxHave)]
	kept = kept[max(0, len(kept)-(maxHave-len(refs))):]
	return stream.Frame{Assigned: &stream.Assigned{Nonce: nonce, Refs: refs, Kept: kept}}
}

// assigned lists what runs and what is queued.
func (l *loop) assigned() []job.Attempt {
	out := l.refs()
	for _, t := range l.queue {
		out = append(out, t.Attempt)
	}
	return out
}

// room is how many attempts this worker takes.
func (l *loop) room() int { return l.opts.Queue + l.opts.Slots }

// fence stops all work when no holder was heard for too long: by then what runs
// here counts as lost, and may run elsewhere. Results are kept.
func (l *loop) fence() {
	silent := l.opts.Now() - l.heard
	if silent < l.opts.FenceAfter || len(l.running)+len(l.queue) == 0 {
		return
	}
	l.m.fenced.Inc()
	l.log.Warn().Float64("silent_seconds", silent.Seconds()).Int("running", len(l.running)).Int("queued", len(l.queue)).
		Msg("no holder for longer than assignments last, work stopped")
	l.queue = nil
	for _, ref := range l.refs() {
		l.stop(l.running[ref])
	}
}

// resume is the checkpoint of a chunk; nil: none.
func resume(list []stream.Resume, chunk int) *job.Checkpoint {
	for _, r := range list {
		if r.Chunk == chunk {
			return &r.Checkpoint
		}
	}
	return nil
}
