package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"time"
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

// crowd is the number of workers for which there are targets.
const crowd = 50

// queues compares durable completions per second and the time from submission
// to worker with job queues.
func queues(ctx context.Context, s *suite) (err error) {
	peers, stop, err := queuePeers(ctx, s)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	ours := queuePeer{name: "skein", open: openChunks, perSecond: 300_000}
	for _, workers := range s.size.workers {
		if err := completions(ctx, s, workers, ours, peers); err != nil {
			return err
		}
	}
	return assignments(ctx, s, ours, peers)
}

// completions measures all sides in turn, in another order each round.
func completions(ctx context.Context, s *suite, workers int, ours queuePeer, peers []queuePeer) error {
	all := append([]queuePeer{ours}, peers...)
	figures := make([][]float64, len(all))
	rounds := s.size.rounds
	if workers != crowd {
		rounds = (rounds + 1) / 2
	}
	for round := range rounds + 1 {
		s.progress("chunks by %d workers, round %d of %d", workers, round, rounds)
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
		row := series{
			name: fmt.Sprintf("durable chunks, %d workers, against %s", workers, p.name), unit: "chunks/s",
			with: p.with, digest: median, ours: figures[0], peer: figures[i+1],
		}
		if workers == crowd {
			row.target = target{"ratio", ">=", 3}
		}
		s.add(row)
		if median(figures[i+1]) > median(figures[best]) {
			best = i + 1
		}
	}
	if workers == crowd && len(peers) > 0 {
		s.add(series{
			name: fmt.Sprintf("durable chunks, %d workers, against the best", workers), unit: "chunks/s",
			with: peers[best-1].name, target: target{"ours", ">=", 60_000}, digest: median, ours: figures[0], peer: figures[best],
		})
	}
	return nil
}

// completionRate opens a queue of its own, lets it warm up and measures. If
// the work runs out before the time is over, more is put into another one.
func completionRate(ctx context.Context, s *suite, p queuePeer, workers int) (perSecond float64, err error) {
	warm := s.size.burst / 5
	n := int(float64(p.perSecond) * (warm + s.size.burst + 100*time.Millisecond).Seconds())
	for range 4 {
		v, enough, err := completionBurst(ctx, s, p, workers, n, warm)
		if err != nil || enough {
			return v, err
		}
		n *= 2
	}
	return 0, fmt.Errorf("all %d pieces were done before the time was over", n/2)
}

func completionBurst(ctx context.Context, s *suite, p queuePeer, workers, n int, warm time.Duration) (perSecond float64, enough bool, err error) {
	dir, err := os.MkdirTemp(s.dir, "queue-")
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
	err = poll(ctx, "a first piece is done", 10*time.Second, func() bool {
		before, err = q.done(ctx)
		return err != nil || before > 0
	})
	if err := errors.Join(err, pause(ctx, warm)); err != nil {
		return 0, false, err
	}
	before, err = q.done(ctx)
	if err != nil {
		return 0, false, err
	}
	began := time.Now()
	if err := pause(ctx, s.size.burst); err != nil {
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
func assignments(ctx context.Context, s *suite, ours queuePeer, peers []queuePeer) error {
	all := append([]queuePeer{ours}, peers...)
	took := make([][]float64, len(all))
	var waited []float64
	for round := range s.size.rounds {
		s.progress("time to a worker, round %d of %d", round+1, s.size.rounds)
		for i := range all {
			at := (round + i) % len(all)
			n := s.size.submits
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
		target target
	}{{"p50", median, target{"ours", "<=", 0.3}}, {"p99", p99, target{"ours", "<=", 3}}} {
		s.add(series{
			name: fmt.Sprintf("assignable to worker, %d workers, %s", crowd, d.name), unit: "ms", with: "none",
			target: d.target, digest: d.digest, ours: waited,
		})
		for i, p := range peers {
			s.add(series{
				name: fmt.Sprintf("submission to worker, %d workers, against %s, %s", crowd, p.name, d.name), unit: "ms",
				with: p.with, digest: d.digest, ours: took[0], peer: took[i+1],
			})
		}
	}
	return nil
}

// arrivals submits single pieces, at moments that follow nobody's timers. Of our
// own queue it also says how long they waited once they could be given out.
func arrivals(ctx context.Context, s *suite, p queuePeer, n int) (took, waited []float64, err error) {
	dir, err := os.MkdirTemp(s.dir, "queue-")
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	q, err := p.open(ctx, dir, crowd)
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, q.close()) }()
	for i := range n + 1 {
		if err := pause(ctx, rand.N(20*time.Millisecond)); err != nil {
			return nil, nil, err
		}
		d, err := oneOf(ctx, q)
		if err != nil {
			return nil, nil, err
		}
		if i > 0 { // the first opens what is opened late
			took = append(took, ms(d))
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
func queuePeers(ctx context.Context, s *suite) (peers []queuePeer, stop func() error, err error) {
	var stops []func() error
	stop = func() error {
		var errs []error
		for _, f := range slices.Backward(stops) {
			errs = append(errs, f())
		}
		return errors.Join(errs...)
	}
	for _, of := range []struct {
		names string
		start func(context.Context, string) ([]queuePeer, func() error, error)
	}{
		{"Redis Lua, asynq", startRedisPeers},
		{"river", startRiver},
		{"NATS JetStream", startJetStream},
	} {
		got, end, err := of.start(ctx, s.dir)
		if absent, ok := errors.AsType[*absentError](err); ok {
			s.skip("durable chunks and submission to worker against "+of.names, absent.Error())
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

// absentError says that a program is not installed.
type absentError struct{ program, pkg string }

func (e *absentError) Error() string {
	return fmt.Sprintf("%s is not installed; scripts/bench-deps installs the Debian package %s", e.program, e.pkg)
}
