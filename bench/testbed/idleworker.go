package testbed

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/skein-project/skein/bench/suite"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/scheduler/stream"
)

// IdleWorker speaks a host's side of the stream to its worker, over loopback, and answers
// each chunk as it comes, as a worker does whose chunks take no time.
type IdleWorker struct {
	// Seen is where the arrival of a chunk is told, if there is room.
	Seen atomic.Pointer[chan time.Time]

	is       stream.Welcome
	listener net.Listener
	wg       sync.WaitGroup
}

// NewIdleWorker opens one that has slots, and takes room chunks in all. One without slots
// is a host that lets outside workers in.
func NewIdleWorker(slots, room int) (*IdleWorker, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	w := &IdleWorker{listener: l, is: stream.Welcome{
		Slots: slots, Room: room, Executors: []string{job.ExecutorWASM}, Assigned: []job.Attempt{}, Crew: slots == 0,
	}}
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

// Dial opens a stream to it.
func (w *IdleWorker) Dial(ctx context.Context) (net.Conn, error) {
	var d net.Dialer
	return d.DialContext(ctx, "tcp", w.listener.Addr().String())
}

// Close waits until the schedulers have closed their streams.
func (w *IdleWorker) Close() {
	_ = w.listener.Close()
	w.wg.Wait()
}

// statusEvery is how often a worker shows that it is there.
const statusEvery = 2 * time.Second

func (w *IdleWorker) serve(conn net.Conn) error {
	defer conn.Close()
	in, out := stream.NewDecoder(conn), bufio.NewWriterSize(conn, 16<<10)
	if f, err := in.Read(); err != nil || f.Hello == nil {
		return fmt.Errorf("no hello: %w", err)
	}
	if err := stream.Write(out, stream.Frame{Welcome: &w.is}); err != nil {
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
		if seen := w.Seen.Load(); seen != nil && f.Assign != nil {
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

func (w *IdleWorker) answer(out *bufio.Writer, a stream.Assign) error {
	for _, c := range a.Chunks {
		r := Done(&a.Spec, job.Attempt{Job: a.Job, Chunk: c.Chunk, Number: c.Number})
		if err := stream.Write(out, stream.Frame{Result: &r}); err != nil {
			return err
		}
	}
	return nil
}

// Done is the result of a chunk that took no time.
func Done(spec *job.Spec, of job.Attempt) stream.Result {
	offset, n := spec.ChunkRange(of.Chunk)
	mean := 0.5 + float64(offset%97)/1000
	return stream.Result{
		Attempt: of, Seconds: 1e-5,
		Result: &job.ChunkResult{Iterations: n, Metrics: map[string]job.Metric{
			"x": {N: n, Mean: mean, M2: 0.1 * float64(n), Min: 0, Max: 1},
		}},
	}
}
