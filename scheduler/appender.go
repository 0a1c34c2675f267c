package scheduler

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/rs/zerolog"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/eventlog/state"
	"github.com/skein-project/skein/scheduler/weight"
)

const (
	// appendTimeout bounds one append, appendBytes its size.
	appendTimeout = 10 * time.Second
	appendBytes   = 4 << 20
)

// appender puts decisions into the log, in portions that it takes at once.
type appender struct {
	to      Log
	unaware func(event.Kind) []cluster.NodeID // who lives and does not know it
	m       *metrics
	log     zerolog.Logger

	seq  uint64        // last own event of this run
	took time.Duration // time of an append, smoothed
}

// write appends drafts, in order. After an error it is not known which of them
// are in the log.
func (a *appender) write(ctx context.Context, drafts []event.Draft) error {
	for len(drafts) > 0 {
		n := a.portion(drafts)
		if err := a.append(ctx, drafts[:n]); err != nil {
			return err
		}
		drafts = drafts[n:]
	}
	return nil
}

// portion returns how many drafts the next append takes. The end of a job tells
// its result, so all before it must be folded: it begins an append, and the
// result is filled in here.
func (a *appender) portion(drafts []event.Draft) int {
	n, size := 0, 0
	for n < len(drafts) {
		end := drafts[n].Kind == event.KindJobDone
		if end && n > 0 && drafts[n-1].Kind != event.KindJobDone {
			break
		}
		if end {
			drafts[n].Body = a.withResult(drafts[n].Body.(event.JobDone))
		}
		if n > 0 && size+weight.Of(drafts[n]) > appendBytes {
			break
		}
		size += weight.Of(drafts[n])
		n++
	}
	return n
}

// withResult adds what the job's chunks computed. A result that cannot be
// stated is left out, as is one that does not fit the end: the chunks tell it
// too, and nothing would mend it later.
func (a *appender) withResult(b event.JobDone) event.JobDone {
	a.to.View(func(st *state.State) {
		j, ok := st.Job(b.Job)
		if !ok {
			return
		}
		r, ok := st.Result(b.Job)
		if !ok || r.Validate(j.Spec) != nil || b.State == job.Completed && r.Accepted != j.Chunks && !j.Spec.EarlyStop.On() {
			a.log.Error().Str("job", string(b.Job)).Int("accepted", r.Accepted).Int("chunks", j.Chunks).
				Msg("job ends without its result in the log")
			return
		}
		r.Workers = named(r.Workers)
		if r.GivenUp = r.GivenUp[:min(len(r.GivenUp), maxShares)]; len(r.GivenUp) > 0 && len(a.unaware(event.FailedOfWorkers())) > 0 {
			r.GivenUp = nil // a member that lives would fold another job
		}
		b.Result = &r
	})
	if b.Result != nil && weight.Of(event.Draft{Body: b}) > appendBytes {
		b.Result = nil
	}
	return b
}

// maxShares is how many workers the end of a job names.
const maxShares = 1024

// named are the shares that the end of a job tells: those of all hosts, and the largest
// of outside workers. What more of these did stands together.
func named(shares []job.WorkShare) []job.WorkShare {
	if len(shares) <= maxShares {
		return shares
	}
	shares = slices.Clone(shares)
	slices.SortFunc(shares, func(a, b job.WorkShare) int {
		switch out := cluster.IsOutside(a.Worker); {
		case out == cluster.IsOutside(b.Worker):
			return cmp.Or(cmp.Compare(b.Iterations, a.Iterations), cmp.Compare(a.Worker, b.Worker))
		case out:
			return 1
		}
		return -1
	})
	others := job.WorkShare{Worker: cluster.OutsideOthers}
	out := shares[:maxShares-1]
	for _, sh := range shares[maxShares-1:] {
		if !cluster.IsOutside(sh.Worker) {
			out = append(out, sh)
			continue
		}
		others.Chunks += sh.Chunks
		others.Iterations += sh.Iterations
	}
	if others.Chunks > 0 {
		out = append(out, others)
	}
	slices.SortFunc(out, func(a, b job.WorkShare) int { return cmp.Compare(a.Worker, b.Worker) })
	return out
}

func (a *appender) append(ctx context.Context, drafts []event.Draft) error {
	ctx, cancel := context.WithTimeout(ctx, appendTimeout)
	defer cancel()
	start := time.Now()
	events, err := a.to.Append(ctx, drafts)
	if err != nil {
		return fmt.Errorf("log %d decisions: %w", len(drafts), err)
	}
	took := time.Since(start)
	a.m.appendDur.Observe(took.Seconds())
	a.took += (took - a.took) / 8
	a.seq = events[len(events)-1].Seq
	return nil
}
