package demo

import (
	"context"
	"errors"
	"fmt"
	"math"
	"syscall"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/internal/wait"
)

// follow prints progress until the given share of iterations is accepted or the
// job has ended.
func (d *demo) follow(ctx context.Context, h *host, id job.ID, share float64) (api.Job, error) {
	var job api.Job
	shown := time.Time{}
	_, err := h.api.FollowJob(ctx, string(id), api.FollowOptions{}, func(j api.Job) error {
		job = j
		done := float64(j.Iterations.Accepted) / float64(j.Iterations.Total)
		if time.Since(shown) > time.Second || j.State.Final() {
			d.progress(j, done)
			shown = time.Now()
		}
		if done >= share {
			return api.ErrStop
		}
		return nil
	})
	if err != nil {
		return job, err
	}
	if share >= 1 && !job.State.Final() {
		// All is accepted; the end itself is one event away.
		job, err = h.api.FollowJob(ctx, string(id), api.FollowOptions{}, func(api.Job) error { return nil })
		if err != nil {
			return job, err
		}
	}
	return job, nil
}

func (d *demo) progress(j api.Job, done float64) {
	rate, estimate := "-", ""
	if j.RatePerSecond != nil {
		rate = fmt.Sprintf("%.0f M/s", *j.RatePerSecond/1e6)
	}
	if m, ok := j.Aggregates["pi"]; ok && m.SE != nil {
		estimate = fmt.Sprintf("  pi = %.6f ± %.6f", m.Mean, *m.SE)
	}
	d.say("%5.1f %%  %d of %d chunks  %s%s", 100*done, j.Chunks.Accepted, j.Chunks.Total, rate, estimate)
}

func (d *demo) signalName() string {
	if d.o.Handover {
		return "SIGTERM"
	}
	return "SIGKILL"
}

// strike stops the holder and returns the term that it held.
func (d *demo) strike(ctx context.Context, h *host) (cluster.Term, time.Time, error) {
	l, err := h.api.Lease(ctx)
	if err != nil {
		return 0, time.Time{}, err
	}
	if l.Holder != cluster.NodeID(h.name) {
		return 0, time.Time{}, fmt.Errorf("the lease moved from %s to %s before the strike", h.name, l.Holder)
	}
	sig := syscall.SIGKILL
	if d.o.Handover {
		sig = syscall.SIGTERM
	}
	at := time.Now()
	if err := h.cmd.Process.Signal(sig); err != nil {
		return 0, at, fmt.Errorf("stop %s: %w", h.name, err)
	}
	d.say("%s to the holder %s", d.signalName(), h.name)
	return l.Term, at, nil
}

// takeover waits for the first assignment of a later term.
func (d *demo) takeover(ctx context.Context, h *host, term cluster.Term) (cluster.NodeID, api.Event, error) {
	var first api.Event
	err := h.api.Events(ctx, api.EventQuery{Follow: true}, api.FollowOptions{}, func(e api.Event) error {
		if e.Kind == event.KindChunksAssigned && e.Term > term {
			first = e
			return api.ErrStop
		}
		return nil
	})
	if err != nil {
		return "", first, fmt.Errorf("no successor assigned a chunk: %w", err)
	}
	return first.Source.Node, first, nil
}

// check proves that nothing was lost: all iterations are there, each chunk counts
// once in the log, the chains are sound, and the survivors agree.
func (d *demo) check(ctx context.Context, j api.Job) error {
	if j.State != job.Completed {
		return fmt.Errorf("job ended %s: %s", j.State, j.Reason)
	}
	if j.Iterations.Accepted != j.Iterations.Total {
		return fmt.Errorf("accepted %d iterations of %d", j.Iterations.Accepted, j.Iterations.Total)
	}
	pi := j.Aggregates["pi"]
	if pi.SE == nil || pi.N != j.Iterations.Total {
		return fmt.Errorf("result has %d samples of %d", pi.N, j.Iterations.Total)
	}
	d.say("result: pi = %.7f ± %.7f, off by %.1f standard errors", pi.Mean, *pi.SE, math.Abs(pi.Mean-math.Pi)/(*pi.SE))
	d.say("accepted %d iterations == submitted %d", j.Iterations.Accepted, j.Iterations.Total)
	if err := d.countAccepts(ctx, j); err != nil {
		return err
	}
	return d.compare(ctx)
}

// countAccepts counts the job's chunks in the log itself.
func (d *demo) countAccepts(ctx context.Context, job api.Job) error {
	var survivor *host
	for _, h := range d.hosts {
		if h.alive() {
			survivor = h
		}
	}
	seen := map[int]int{}
	err := survivor.api.Events(ctx, api.EventQuery{Kind: string(event.KindChunksAccepted)}, api.FollowOptions{}, func(e api.Event) error {
		for _, a := range acceptsOf(e, job.ID) {
			seen[a.Chunk]++
		}
		return nil
	})
	if err != nil {
		return err
	}
	extra := 0
	for _, n := range seen {
		extra += n - 1
	}
	if len(seen) != job.Chunks.Total {
		return fmt.Errorf("the log accepts %d chunks of %d", len(seen), job.Chunks.Total)
	}
	d.say("log: %d of %d chunks accepted, %d accepted again and void", len(seen), job.Chunks.Total, extra)
	return nil
}

// compare waits until the survivors hold the same events, verifies each log
// and compares what they fold to.
func (d *demo) compare(ctx context.Context) error {
	for {
		var up []*host
		same := true
		for _, h := range d.hosts {
			if !h.alive() {
				continue
			}
			s, err := h.api.Status(ctx)
			if err != nil {
				return err
			}
			h.last = s
			up = append(up, h)
			same = same && s.Log.Events == up[0].last.Log.Events && s.Log.StateHash == up[0].last.Log.StateHash
		}
		if same {
			if err := d.verify(ctx, up); !errors.Is(err, errMoved) {
				return err
			}
		}
		if err := wait.For(ctx, pollEvery); err != nil {
			return errors.New("the survivors do not agree")
		}
	}
}

// errMoved means that a host logged something after its status was read.
var errMoved = errors.New("the log changed meanwhile")

func (d *demo) verify(ctx context.Context, up []*host) error {
	for _, h := range up {
		report, err := h.verifyLog(ctx)
		if err != nil {
			return err
		}
		if !report.OK {
			return fmt.Errorf("log of %s: %s", h.name, report.Problem)
		}
		if report.StateHash != h.last.Log.StateHash {
			if s, err := h.api.Status(ctx); err != nil {
				return err
			} else if s.Log.StateHash != h.last.Log.StateHash {
				return errMoved
			}
			return fmt.Errorf("state of %s: replayed %s, running %s", h.name, report.StateHash, h.last.Log.StateHash)
		}
		d.say("log of %s verified: %d events of %d sources, state %s", h.name, report.Events, len(report.Sources), report.StateHash.String()[:16])
	}
	d.say("same state on %d survivors", len(up))
	return nil
}
