package queuebench

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"time"

	"github.com/skein-project/skein/bench/suite"
	"github.com/skein-project/skein/bench/testbed"
	"github.com/skein-project/skein/cluster"
)

// chunkQueue is the scheduler of one host with its event log on the disk and
// workers that it reaches by streams over loopback. Their chunks take no time.
type chunkQueue struct {
	holder  *testbed.Holder
	workers map[cluster.NodeID]*testbed.IdleWorker
	waited  []float64 // milliseconds from when a chunk could be given out until a worker had it
}

// queueLength is how many chunks wait at a worker at most, as the daemon is
// configured by default.
const queueLength = 64

// openChunks starts a scheduler and so many workers, and waits until each is
// connected.
func openChunks(ctx context.Context, dir string, workers int) (queue, error) {
	q := &chunkQueue{workers: make(map[cluster.NodeID]*testbed.IdleWorker)}
	var names []cluster.NodeID
	for i := range workers {
		w, err := testbed.NewIdleWorker(1, 1+queueLength)
		if err != nil {
			return nil, errors.Join(err, q.close())
		}
		name := cluster.NodeID(fmt.Sprintf("host-%03d", i+1)) // the first is the holder
		q.workers[name] = w
		names = append(names, name)
	}
	var err error
	q.holder, err = testbed.NewHolder(ctx, filepath.Join(dir, "log"), testbed.HolderOptions{Hosts: names, Dial: q.dial})
	if err == nil {
		err = q.holder.Lead(1)
	}
	if err == nil {
		err = q.holder.Connected(ctx, workers)
	}
	if err != nil {
		return nil, errors.Join(err, q.close())
	}
	return q, nil
}

func (q *chunkQueue) dial(ctx context.Context, to cluster.NodeID) (net.Conn, error) {
	w := q.workers[to]
	if w == nil {
		return nil, fmt.Errorf("no worker %s", to)
	}
	return w.Dial(ctx)
}

func (q *chunkQueue) fill(ctx context.Context, n int) error { return q.holder.Queue(ctx, "bench", n) }

func (q *chunkQueue) done(context.Context) (int64, error) { return q.holder.Log.Accepted.Load(), nil }

func (q *chunkQueue) one(ctx context.Context) (time.Duration, error) {
	seen := make(chan time.Time, 1)
	for _, w := range q.workers {
		w.Seen.Store(&seen)
	}
	began := time.Now()
	if err := q.holder.Queue(ctx, "bench", 1); err != nil {
		return 0, err
	}
	select {
	case at := <-seen:
		q.waited = append(q.waited, suite.Ms(at.Sub(*q.holder.Log.Synced.Load())))
		return at.Sub(began), nil
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

func (q *chunkQueue) close() (err error) {
	if q.holder != nil {
		err = q.holder.Close()
	}
	for _, w := range q.workers {
		w.Close()
	}
	return err
}
