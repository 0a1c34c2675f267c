package scheduler

import (
	"context"
	"time"

	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/scheduler/link"
	"github.com/skein-project/skein/scheduler/plan/step"
	"github.com/skein-project/skein/scheduler/stream"
)

// commitAll logs what was decided and carries it out, and then what follows from it for
// the runs of workflows.
func commitAll(ctx context.Context, t *term) error {
	for {
		if err := t.commit(ctx); err != nil || t.quiet {
			return err
		}
		if again := t.jobs.after.Follow(heldHost{t}); !t.jobs.flows.Follow() && !again {
			return nil
		}
	}
}

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
	b.logging = len(b.drafts) > 0
	if err := t.write(ctx, b.drafts); err != nil {
		return err
	}
	if len(b.drafts) > 0 && !t.o.MayAct(t.id) {
		return ErrLeaseLost
	}
	for _, a := range b.actions {
		t.act(a)
	}
	for _, r := range b.replies {
		r.seq = t.appender.seq
		r.to <- r.reply
	}
	t.batch = batch{}
	t.links.tellLater(t.step) // what follows goes with the next commit
	return nil
}

// write appends drafts. If that fails, what earlier runs did is unsure.
func (t *term) write(ctx context.Context, drafts []event.Draft) error {
	err := t.appender.write(ctx, drafts)
	if err != nil {
		t.s.unsure = true
	}
	return err
}

// barrier makes sure that the log shows all that earlier runs have written. One
// that failed or was ended within an append does not know whether that comes
// through; whatever is appended after it does so later.
func (t *term) barrier(ctx context.Context) error {
	if !t.s.unsure {
		return nil
	}
	if err := t.write(ctx, []event.Draft{{Term: t.id, Kind: event.KindJobsForgotten, Body: event.JobsForgotten{}}}); err != nil {
		return err
	}
	t.s.unsure = false
	return nil
}

// act carries out a decision that is durable.
func (t *term) act(action step.Action) {
	count := func(state string, n int) { t.m.chunks.WithLabelValues(state).Add(float64(n)) }
	t.m.service.Acted(action, t.batch.began, time.Now())
	switch a := action.(type) {
	case step.Assign:
		count("assigned", len(a.Chunks))
		count("copied", a.Copies)
		if j, ok := t.jobs.specs[a.Job]; ok {
			t.s.orders++
			t.links.push(a.Worker, stream.Frame{Assign: &stream.Assign{
				Term: t.id, Seq: t.s.orders, Job: a.Job, Spec: j.spec, Owner: j.owner, Chunks: onWire(a.Chunks), Resume: t.jobs.resume(j.spec, a),
			}})
		}
	case step.Accept:
		count("accepted", 1)
		t.settling.Add(a.Attempt, t.appender.seq)
	case step.Fail:
		count("failed", 1)
		t.settling.Add(a.Attempt, t.appender.seq)
		t.log.Debug().Str("job", string(a.Job)).Str("peer", string(a.Worker)).Int("chunk", a.Chunk).
			Int("attempt", a.Number).Str("reason", a.Reason).Msg("attempt failed")
	case step.Reclaim:
		count("reclaimed", 1)
		t.log.Debug().Str("job", string(a.Job)).Str("peer", string(a.Worker)).Int("chunk", a.Chunk).
			Int("attempt", a.Number).Str("reason", a.Reason).Msg("attempt reclaimed")
	case step.Extend:
		count(answered(a), 1)
	case step.Save:
		count("checkpointed", 1)
	case step.Settled:
		count("settled", 1)
		t.settling.Add(a.Attempt, t.appender.seq)
	case step.Cancel:
		t.cancel(a)
	case step.Finish:
		t.jobs.end(a.Job)
		t.jobs.left.Ended(a.Job)
		t.jobs.flows.JobEnded(a.Job)
		t.m.finished.WithLabelValues(string(a.State)).Inc()
		t.log.Info().Str("job", string(a.Job)).Str("state", string(a.State)).Str("reason", a.Reason).Msg("job ended")
	case step.Offence:
		t.offence(a)
	case step.Notice:
		t.m.notices.WithLabelValues(string(a.What)).Inc()
		t.log.Warn().Str("peer", string(a.Worker)).Str("job", string(a.Job)).Str("notice", string(a.What)).Str("reason", a.Reason).
			Msg("scheduler noticed something about a worker")
		if a.What == step.NoticeDistrust {
			t.links.drop(t.links.seats.Contradicted(a.Worker, t.links.putOff))
		}
	case step.Released:
		t.jobs.flows.JobReleased(a.Job)
	case step.Waiting:
		if t.jobs.flows.JobHeld(a.Job, a.Reason) {
			break // its run decides
		}
		t.log.Warn().Str("job", string(a.Job)).Str("reason", a.Reason).Msg("job waits for an operator")
	case step.Starved:
		t.log.Warn().Str("job", string(a.Job)).Str("reason", a.Reason).Msg("job waits, no worker may run it")
	}
}

// offence ends the stream of a worker that broke the protocol. An outside worker's is
// that of many others as well: it alone is detached.
func (t *term) offence(a step.Offence) {
	t.m.links.Offences.Inc()
	t.log.Warn().Str("peer", string(a.Worker)).Str("reason", a.Reason).Msg("worker broke the protocol, stream ended")
	if s := t.links.session(a.Worker); s != nil {
		s.End(link.ErrOffence)
		return
	}
	t.links.expel(a)
}
