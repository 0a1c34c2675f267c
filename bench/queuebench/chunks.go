package queuebench

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/skein-project/skein/bench/suite"
	"github.com/skein-project/skein/bench/testbed"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/eventlog"
	"github.com/skein-project/skein/scheduler"
	"github.com/skein-project/skein/scheduler/stream"
)

// chunkQueue is the scheduler of one host with its event log on the disk and
// workers that it reaches by streams over loopback. Their chunks take no time.
type chunkQueue struct {
	log     *countingLog
	sched   *scheduler.Scheduler
	workers map[cluster.NodeID]*idleWorker
	jobs    int
	waited  []float64 // milliseconds from when a chunk could be given out until a worker had it
	stop    func() error
}

// countingLog counts the accepted results that are on the disk.
type countingLog struct {
	*eventlog.Log
	accepted atomic.Int64
	synced   atomic.Pointer[time.Time] // when the last submission was
}

// Append counts after the group is synced.
func (l *countingLog) Append(ctx context.Context, drafts []event.Draft) ([]event.Event, error) {
	events, err := l.Log.Append(ctx, drafts)
	if err == nil {
		n := 0
		for _, d := range drafts {
			if b, ok := d.Body.(event.ChunksAccepted); ok {
				n += len(b.Accepts)
			}
			if d.Kind == event.KindJobSubmitted {
				now := time.Now()
				l.synced.Store(&now)
			}
		}
		l.accepted.Add(int64(n))
	}
	return events, err
}

// openChunks starts a scheduler and so many workers, and waits until each is
// connected.
func openChunks(ctx context.Context, dir string, workers int) (queue, error) {
	o, err := testbed.LogOptions(filepath.Join(dir, "log"))
	if err != nil {
		return nil, err
	}
	l, stopLog, err := testbed.RunLog(o)
	if err != nil {
		return nil, err
	}
	alone := []cluster.NodeID{o.Self}
	l.SetVoters(cluster.VoterConfig{Epoch: 1, Term: 1, Voters: alone, Mode: cluster.AutoMode(len(alone))})
	q := &chunkQueue{log: &countingLog{Log: l}, workers: make(map[cluster.NodeID]*idleWorker), stop: stopLog}
	began := time.Now()
	q.sched, err = scheduler.New(scheduler.Options{
		Self: o.Self, Log: q.log, MayAct: testbed.AnyTerm, Dial: q.dial,
		Now: func() time.Duration { return time.Since(began) }, Logger: zerolog.Nop(),
	})
	if err != nil {
		return nil, errors.Join(err, q.stop())
	}
	var names []cluster.NodeID
	for i := range workers {
		w, err := newIdleWorker()
		if err != nil {
			return nil, errors.Join(err, q.close())
		}
		name := o.Self
		if i > 0 {
			name = cluster.NodeID(fmt.Sprintf("worker-%03d", i))
		}
		q.workers[name] = w
		names = append(names, name)
	}
	q.sched.SetWorkers(names)
	runCtx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- q.sched.Run(runCtx, 1) }()
	q.stop = func() error {
		cancel()
		err := <-done
		if errors.Is(err, context.Canceled) {
			err = nil
		}
		return errors.Join(err, stopLog())
	}
	if err := q.connected(ctx, workers); err != nil {
		return nil, errors.Join(err, q.close())
	}
	return q, nil
}

func (q *chunkQueue) connected(ctx context.Context, workers int) error {
	return suite.Poll(ctx, "all workers connected", 30*time.Second, func() bool {
		n := 0
		for _, w := range q.sched.Workers() {
			if w.Connected {
				n++
			}
		}
		return n == workers
	})
}

func (q *chunkQueue) dial(ctx context.Context, to cluster.NodeID) (net.Conn, error) {
	w := q.workers[to]
	if w == nil {
		return nil, fmt.Errorf("no worker %s", to)
	}
	var d net.Dialer
	return d.DialContext(ctx, "tcp", w.listener.Addr().String())
}

// submit hands in a job of so many chunks.
func (q *chunkQueue) submit(ctx context.Context, chunks int) error {
	q.jobs++
	_, err := q.sched.Submit(ctx, job.Spec{
		Key: fmt.Sprintf("job-%d", q.jobs), Artefact: cluster.Hash{1}, Iterations: 1000 * uint64(chunks), Chunk: 1000,
	}, "bench", scheduler.WaitLocal, true)
	return err
}

func (q *chunkQueue) fill(ctx context.Context, n int) error { return q.submit(ctx, n) }

func (q *chunkQueue) done(context.Context) (int64, error) { return q.log.accepted.Load(), nil }

func (q *chunkQueue) one(ctx context.Context) (time.Duration, error) {
	seen := make(chan time.Time, 1)
	for _, w := range q.workers {
		w.seen.Store(&seen)
	}
	began := time.Now()
	if err := q.submit(ctx, 1); err != nil {
		return 0, err
	}
	select {
	case at := <-seen:
		q.waited = append(q.waited, suite.Ms(at.Sub(*q.log.synced.Load())))
		return at.Sub(began), nil
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

func (q *chunkQueue) close() error {
	err := q.stop()
	for _, w := range q.workers {
		w.close()
	}
	return err
}

// idleWorker speaks the worker's side of the stream and answers each chunk as
// it comes, as a worker with one slot does whose chunks take no time.
type idleWorker struct {
	listener net.Listener
	seen     atomic.Pointer[chan time.Time] // where the arrival of a chunk is told, if there is room
	wg       sync.WaitGroup
}

func newIdleWorker() (*idleWorker, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	w := &idleWorker{listener: l}
	w.wg.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			w.wg.Go(func() { _ = w.serve(conn) }) // the scheduler closes it
		}
	})
	return w, nil
}

func (w *idleWorker) close() {
	_ = w.listener.Close()
	w.wg.Wait()
}

const (
	// statusEvery is how often a worker shows that it is there.
	statusEvery = 2 * time.Second
	// queueLength is how many chunks wait at a worker at most, as the daemon is
	// configured by default.
	queueLength = 64
)

func (w *idleWorker) serve(conn net.Conn) error {
	defer conn.Close()
	in, out := stream.NewDecoder(conn), bufio.NewWriterSize(conn, 16<<10)
	if f, err := in.Read(); err != nil || f.Hello == nil {
		return fmt.Errorf("no hello: %w", err)
	}
	welcome := stream.Welcome{Slots: 1, Room: 1 + queueLength, Executors: []string{job.ExecutorWASM}, Assigned: []job.Attempt{}}
	if err := stream.Write(out, stream.Frame{Welcome: &welcome}); err != nil {
		return err
	}
	if err := out.Flush(); err != nil {
		return err
	}
	spoke := time.Now()
	var mu sync.Mutex // out and spoke: of the reader and the ticker
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	w.wg.Go(func() {
		for suite.Pause(ctx, statusEvery) == nil {
			mu.Lock()
			if time.Since(spoke) >= statusEvery/2 {
				_ = errors.Join(stream.Write(out, stream.Frame{Status: &stream.Status{Running: []job.Attempt{}}}), out.Flush())
			}
			mu.Unlock()
		}
	})
	for {
		f, err := in.Read()
		if err != nil {
			return err
		}
		if seen := w.seen.Load(); seen != nil && f.Assign != nil {
			select {
			case *seen <- time.Now():
			default:
			}
		}
		mu.Lock()
		if f.Assign != nil {
			err = w.answer(out, *f.Assign)
			spoke = time.Now()
		}
		if err == nil && in.Buffered() == 0 {
			err = out.Flush()
		}
		mu.Unlock()
		if err != nil {
			return err
		}
	}
}

func (w *idleWorker) answer(out *bufio.Writer, a stream.Assign) error {
	for _, c := range a.Chunks {
		offset, n := a.Spec.ChunkRange(c.Chunk)
		mean := 0.5 + float64(offset%97)/1000
		err := stream.Write(out, stream.Frame{Result: &stream.Result{
			Attempt: job.Attempt{Job: a.Job, Chunk: c.Chunk, Number: c.Number}, Seconds: 1e-5,
			Result: &job.ChunkResult{Iterations: n, Metrics: map[string]job.Metric{
				"x": {N: n, Mean: mean, M2: 0.1 * float64(n), Min: 0, Max: 1},
			}},
		}})
		if err != nil {
			return err
		}
	}
	return nil
}
