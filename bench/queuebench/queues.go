package queuebench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/skein-project/skein/bench/suite"
	"github.com/skein-project/skein/internal/servertest"
)

// queue hands pieces of work to workers and makes durable that they are done.
type queue interface {
	// fill puts so many pieces in.
	fill(ctx context.Context, n int) error
	// done is how many pieces were done, durably, since the queue was opened.
	done(ctx context.Context) (int64, error)
	// one puts a single piece in while all workers wait, and says how long it
	// took to reach one.
	one(ctx context.Context) (time.Duration, error)
	close() error
}

// queuePeer is one system, set in one way.
type queuePeer struct {
	name, with string
	open       func(ctx context.Context, dir string, workers int) (queue, error)
	// perSecond is about what it does in a second at most: what is put in.
	perSecond int
	// slow says that a piece takes long to reach a worker: few are measured.
	slow bool
}

// Queues compares durable completions per second and the time from submission
// to worker with job queues.
func Queues(ctx context.Context, s *suite.Suite) (err error) {
	peers, stop, err := queuePeers(ctx, s)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	ours := queuePeer{name: "skein", open: openChunks, perSecond: 300_000}
	for _, workers := range s.Size.Workers {
		if err := completions(ctx, s, workers, ours, peers); err != nil {
			return err
		}
	}
	return assignments(ctx, s, ours, peers)
}

// completions measures all sides in turn, in another order each round.
func completions(ctx context.Context, s *suite.Suite, workers int, ours queuePeer, peers []queuePeer) error {
	all := append([]queuePeer{ours}, peers...)
	figures := make([][]float64, len(all))
	rounds := s.Size.Rounds
	if workers != suite.TargetWorkers {
		rounds = (rounds + 1) / 2
	}
	for round := range rounds + 1 {
		s.Progress("chunks by %d workers, round %d of %d", workers, round, rounds)
		for i := range all {
			at := (round + i) % len(all)
			v, err := completionRate(ctx, s, all[at], workers)
			if err != nil {
				return fmt.Errorf("%s: %w", all[at].name, err)
			}
			if round > 0 { // the first warms up
				figures[at] = append(figures[at], v)
			}
		}
	}
	best := 1
	for i, p := range peers {
		row := suite.Series{
			Name: fmt.Sprintf("durable chunks, %d workers, against %s", workers, p.name), Unit: "chunks/s",
			With: p.with, Digest: suite.Median, Ours: figures[0], Peer: figures[i+1],
		}
		if workers == suite.TargetWorkers {
			row.Target = suite.Want("ratio", ">=", 3)
		}
		s.Add(row)
		if suite.Median(figures[i+1]) > suite.Median(figures[best]) {
			best = i + 1
		}
	}
	if workers == suite.TargetWorkers && len(peers) > 0 {
		s.Add(suite.Series{
			Name: fmt.Sprintf("durable chunks, %d workers, against the best", workers), Unit: "chunks/s",
			With: peers[best-1].name, Target: suite.Want("ours", ">=", 60_000), Digest: suite.Median, Ours: figures[0], Peer: figures[best],
		})
	}
	return nil
}

// completionRate opens a queue of its own, lets it warm up and measures. If
// the work runs out before the time is over, more is put into another one.
func completionRate(ctx context.Context, s *suite.Suite, p queuePeer, workers int) (perSecond float64, err error) {
	warm := s.Size.Burst / 5
	n := int(float64(p.perSecond) * (warm + s.Size.Burst + 100*time.Millisecond).Seconds())
	for range 4 {
		v, enough, err := completionBurst(ctx, s, p, workers, n, warm)
		if err != nil || enough {
			return v, err
		}
		n *= 2
	}
	return 0, fmt.Errorf("all %d pieces were done before the time was over", n/2)
}

func completionBurst(ctx context.Context, s *suite.Suite, p queuePeer, workers, n int, warm time.Duration) (perSecond float64, enough bool, err error) {
	dir, err := os.MkdirTemp(s.Dir, "queue-")
	if err != nil {
		return 0, false, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	q, err := p.open(ctx, dir, workers)
	if err != nil {
		return 0, false, err
	}
	defer func() { err = errors.Join(err, q.close()) }()
	if err := q.fill(ctx, n); err != nil {
		return 0, false, fmt.Errorf("fill: %w", err)
	}
	// One that looks for work now and then is timed from when it found some.
	var before int64
	err = suite.Poll(ctx, "a first piece is done", time.Minute, func() bool {
		before, err = q.done(ctx)
		return err != nil || before > 0
	})
	if err := errors.Join(err, suite.Pause(ctx, warm)); err != nil {
		return 0, false, err
	}
	before, err = q.done(ctx)
	if err != nil {
		return 0, false, err
	}
	began := time.Now()
	if err := suite.Pause(ctx, s.Size.Burst); err != nil {
		return 0, false, err
	}
	took := time.Since(began)
	after, err := q.done(ctx)
	if err != nil {
		return 0, false, err
	}
	return float64(after-before) / took.Seconds(), after < int64(n), nil
}

// assignments measures the time from submission to worker.
func assignments(ctx context.Context, s *suite.Suite, ours queuePeer, peers []queuePeer) error {
	all := append([]queuePeer{ours}, peers...)
	took := make([][]float64, len(all))
	var waited []float64
	for round := range s.Size.Rounds {
		s.Progress("time to a worker, round %d of %d", round+1, s.Size.Rounds)
		for i := range all {
			at := (round + i) % len(all)
			n := s.Size.Submits
			if all[at].slow {
				n = max(1, n/10)
			}
			v, w, err := arrivals(ctx, s, all[at], n)
			if err != nil {
				return fmt.Errorf("%s: %w", all[at].name, err)
			}
			took[at], waited = append(took[at], v...), append(waited, w...)
		}
	}
	for _, d := range []struct {
		name   string
		digest func([]float64) float64
		target suite.Target
	}{{"p50", suite.Median, suite.Want("ours", "<=", 0.3)}, {"p99", suite.P99, suite.Want("ours", "<=", 3)}} {
		s.Add(suite.Series{
			Name: fmt.Sprintf("assignable to worker, %d workers, %s", suite.TargetWorkers, d.name), Unit: "ms", With: "none",
			Target: d.target, Digest: d.digest, Ours: waited,
		})
		for i, p := range peers {
			s.Add(suite.Series{
				Name: fmt.Sprintf("submission to worker, %d workers, against %s, %s", suite.TargetWorkers, p.name, d.name), Unit: "ms",
				With: p.with, Digest: d.digest, Ours: took[0], Peer: took[i+1],
			})
		}
	}
	return nil
}

// arrivals submits single pieces, at moments that follow nobody's timers. Of our
// own queue it also says how long they waited once they could be given out.
func arrivals(ctx context.Context, s *suite.Suite, p queuePeer, n int) (took, waited []float64, err error) {
	dir, err := os.MkdirTemp(s.Dir, "queue-")
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	q, err := p.open(ctx, dir, suite.TargetWorkers)
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, q.close()) }()
	for i := range n + 1 {
		if err := suite.Pause(ctx, rand.N(20*time.Millisecond)); err != nil {
			return nil, nil, err
		}
		d, err := oneOf(ctx, q)
		if err != nil {
			return nil, nil, err
		}
		if i > 0 { // the first opens what is opened late
			took = append(took, suite.Ms(d))
		}
	}
	if c, ok := q.(*chunkQueue); ok {
		waited = c.waited[1:]
	}
	return took, waited, nil
}

func oneOf(ctx context.Context, q queue) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	return q.one(ctx)
}

// queuePeers starts what the peers need, and leaves out, with the reason, what
// this machine does not have.
func queuePeers(ctx context.Context, s *suite.Suite) (peers []queuePeer, stop func() error, err error) {
	var stops []func() error
	stop = func() error {
		var errs []error
		for _, f := range slices.Backward(stops) {
			errs = append(errs, f())
		}
		return errors.Join(errs...)
	}
	dir := filepath.Join(s.Dir, s.Group) // nothing is there of another group
	// A server that is not run as root has to get there.
	if err := errors.Join(os.Mkdir(dir, 0o711), os.Chmod(s.Dir, 0o711)); err != nil { //nolint:gosec // G302: to enter, not to read
		return nil, nil, err
	}
	for _, of := range []struct {
		names string
		start func(context.Context, string) ([]queuePeer, func() error, error)
	}{
		{"Redis Lua, asynq", startRedisPeers},
		{"river", startRiver},
		{"NATS JetStream", startJetStream},
	} {
		got, end, err := of.start(ctx, dir)
		if absent, ok := errors.AsType[*servertest.AbsentError](err); ok {
			s.Skip("durable chunks and submission to worker against "+of.names, absent.Error())
			continue
		}
		if err != nil {
			return nil, nil, errors.Join(fmt.Errorf("start %s: %w", of.names, err), stop())
		}
		peers = append(peers, got...)
		stops = append(stops, end)
	}
	return peers, stop, nil
}
