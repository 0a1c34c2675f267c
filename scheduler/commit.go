package scheduler

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/eventlog/state"
	"github.com/skein-project/skein/scheduler/plan/step"
	"github.com/skein-project/skein/scheduler/stream"
)

// commit logs what was decided, then carries it out. The lease is checked
// before the one and before the other.
func (t *term) commit(ctx context.Context) error {
	b := &t.batch
	if len(b.drafts) == 0 && len(b.actions) == 0 && len(b.replies) == 0 {
		return nil
	}
	if !t.o.MayAct(t.id) {
		return ErrLeaseLost
	}
	for drafts := b.drafts; len(drafts) > 0; {
		n := t.portion(drafts)
		b.logging = true
		if err := t.append(ctx, drafts[:n]); err != nil {
			return err
		}
		drafts = drafts[n:]
	}
	if len(b.drafts) > 0 && !t.o.MayAct(t.id) {
		return ErrLeaseLost
	}
	for _, a := range b.actions {
		t.act(a)
	}
	for _, r := range b.replies {
		r.seq = t.seq
		r.to <- r.reply
	}
	t.batch = batch{}
	return nil
}

// portion returns how many drafts the next append takes. The end of a job tells
// its result, so all before it must be folded: it begins an append, and the
// result is filled in here.
func (t *term) portion(drafts []event.Draft) int {
	n, size := 0, 0
	for n < len(drafts) {
		end := drafts[n].Kind == event.KindJobDone
		if end && n > 0 && drafts[n-1].Kind != event.KindJobDone {
			break
		}
		if end {
			drafts[n].Body = t.withResult(drafts[n].Body.(event.JobDone))
		}
		if n > 0 && size+weight(drafts[n]) > appendBytes {
			break
		}
		size += weight(drafts[n])
		n++
	}
	return n
}

// withResult adds what the job's chunks computed. A result that cannot be
// stated is left out, as is one that does not fit the end: the chunks tell it
// too, and nothing would mend it later.
func (t *term) withResult(b event.JobDone) event.JobDone {
	t.o.Log.View(func(st *state.State) {
		j, ok := st.Job(b.Job)
		if !ok {
			return
		}
		r, ok := st.Result(b.Job)
		if !ok || r.Validate(j.Spec) != nil || b.State == job.Completed && r.Accepted != j.Chunks && !j.Spec.EarlyStop.On() {
			t.log.Error().Str("job", string(b.Job)).Int("accepted", r.Accepted).Int("chunks", j.Chunks).
				Msg("result of a job not told at its end")
			return
		}
		b.Result = &r
	})
	if b.Result != nil && weight(event.Draft{Body: b}) > appendBytes {
		b.Result = nil
	}
	return b
}

func (t *term) append(ctx context.Context, drafts []event.Draft) error {
	ctx, cancel := context.WithTimeout(ctx, appendTimeout)
	defer cancel()
	start := time.Now()
	events, err := t.o.Log.Append(ctx, drafts)
	if err != nil {
		t.s.unsure = true
		return fmt.Errorf("log %d decisions: %w", len(drafts), err)
	}
	took := time.Since(start)
	t.m.appendDur.Observe(took.Seconds())
	t.appended += (took - t.appended) / 8
	t.seq = events[len(events)-1].Seq
	return nil
}

// barrier makes sure that the log shows all that earlier runs have written. One
// that failed or was ended within an append does not know whether that comes
// through; whatever is appended after it does so later.
func (t *term) barrier(ctx context.Context) error {
	if !t.s.unsure {
		return nil
	}
	if err := t.append(ctx, []event.Draft{{Term: t.id, Kind: event.KindJobsForgotten, Body: event.JobsForgotten{}}}); err != nil {
		return err
	}
	t.s.unsure = false
	return nil
}

// act carries out a decision that is durable.
func (t *term) act(action step.Action) {
	count := func(state string, n int) { t.m.chunks.WithLabelValues(state).Add(float64(n)) }
	t.m.sight.acted(action, t.batch.began, time.Now())
	switch a := action.(type) {
	case step.Assign:
		count("assigned", len(a.Chunks))
		count("copied", a.Copies)
		if spec, ok := t.specs[a.Job]; ok {
			t.s.orders++
			t.push(a.Worker, stream.Frame{Assign: &stream.Assign{Term: t.id, Seq: t.s.orders, Job: a.Job, Spec: spec, Chunks: onWire(a.Chunks)}})
		}
	case step.Accept:
		count("accepted", 1)
		t.settle(a.Attempt)
	case step.Fail:
		count("failed", 1)
		t.settle(a.Attempt)
		t.log.Debug().Str("job", string(a.Job)).Str("peer", string(a.Worker)).Int("chunk", a.Chunk).
			Int("attempt", a.Number).Str("reason", a.Reason).Msg("attempt failed")
	case step.Reclaim:
		count("reclaimed", 1)
		t.log.Debug().Str("job", string(a.Job)).Str("peer", string(a.Worker)).Int("chunk", a.Chunk).
			Int("attempt", a.Number).Str("reason", a.Reason).Msg("attempt reclaimed")
	case step.Settled:
		count("settled", 1)
		t.settle(a.Attempt)
	case step.Cancel:
		t.cancel(a)
	case step.Finish:
		delete(t.specs, a.Job)
		t.m.finished.WithLabelValues(string(a.State)).Inc()
		t.log.Info().Str("job", string(a.Job)).Str("state", string(a.State)).Str("reason", a.Reason).Msg("job ended")
	case step.Offence:
		t.m.offences.Inc()
		t.log.Warn().Str("peer", string(a.Worker)).Str("reason", a.Reason).Msg("worker broke the protocol, stream ended")
		if l, ok := t.links[a.Worker]; ok && l.sess != nil {
			l.sess.end(errOffence)
		}
	case step.Notice:
		t.m.notices.WithLabelValues(string(a.What)).Inc()
		t.log.Warn().Str("peer", string(a.Worker)).Str("job", string(a.Job)).Str("notice", string(a.What)).Str("reason", a.Reason).
			Msg("scheduler noticed something about a worker")
	case step.Waiting:
		t.log.Warn().Str("job", string(a.Job)).Str("reason", a.Reason).Msg("job waits for an operator")
	case step.Starved:
		t.log.Warn().Str("job", string(a.Job)).Str("reason", a.Reason).Msg("job waits, no worker may run it")
	}
}

// push sends f if there is a stream; a worker without one learns it all from
// its next Hello.
func (t *term) push(n cluster.NodeID, f stream.Frame) {
	if l, ok := t.links[n]; ok && l.sess != nil {
		l.sess.send(f)
	}
}

// settlement is an attempt whose worker may forget it once seq is stable.
type settlement struct {
	seq     uint64
	attempt job.Attempt
}

func (t *term) settle(a job.Attempt) {
	t.waiting = append(t.waiting, settlement{seq: t.seq, attempt: a})
}

// maxRefs keeps an Accepted far below the longest frame.
const maxRefs = 4096

// settled tells the workers what they may forget.
func (t *term) settled(done []settlement) {
	refs := make(map[cluster.NodeID][]job.Attempt)
	for _, d := range done {
		worker := d.attempt.Worker
		refs[worker] = append(refs[worker], d.attempt.At(""))
	}
	for n, rs := range refs {
		for part := range slices.Chunk(rs, maxRefs) {
			t.push(n, stream.Frame{Accepted: &stream.Accepted{Term: t.id, Refs: part}})
		}
	}
}

// Times of the settler.
const (
	stableTimeout = 10 * time.Second
	stableRetry   = 100 * time.Millisecond
)

// settler waits for stability beside the loop, one batch at a time.
type settler struct {
	log Log
	in  chan []settlement // unbuffered; the loop gives when the last batch is back
	out chan []settlement // unbuffered; the loop always takes
}

func newSettler(log Log) *settler {
	return &settler{log: log, in: make(chan []settlement), out: make(chan []settlement)}
}

func (s *settler) run(ctx context.Context) {
	for {
		var batch []settlement
		select {
		case <-ctx.Done():
			return
		case batch = <-s.in:
		}
		if !s.wait(ctx, batch[len(batch)-1].seq) {
			return
		}
		select {
		case <-ctx.Done():
			return
		case s.out <- batch:
		}
	}
}

// wait tries until seq is stable or ctx ends: the lease bounds how long that
// can take.
func (s *settler) wait(ctx context.Context, seq uint64) bool {
	for seq > 0 {
		try, cancel := context.WithTimeout(ctx, stableTimeout)
		_, err := s.log.WaitStable(try, seq)
		cancel()
		if err == nil {
			break
		}
		timer := time.NewTimer(stableRetry)
		select {
		case <-ctx.Done():
			timer.Stop()
			return false
		case <-timer.C:
		}
	}
	return ctx.Err() == nil
}
