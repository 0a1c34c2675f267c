package queuebench

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
)

// asynqQueue is asynq with a server of so many concurrent handlers.
type asynqQueue struct {
	redis    *redisServer
	rdb      *redis.Client // of server and client
	server   *asynq.Server
	client   *asynq.Client
	finished atomic.Int64
	seen     chan time.Time // when a worker had a piece; capacity 1, full: nobody asked
	left     atomic.Int64   // of a chain; below 0: there is none
	over     chan error     // how the chain ended; capacity 1
}

// openAsynq sets how often an idle server looks for work; 0: as shipped.
func (r *redisServer) openAsynq(check time.Duration) func(context.Context, string, int) (queue, error) {
	return func(ctx context.Context, _ string, workers int) (queue, error) {
		if err := r.clear(ctx); err != nil {
			return nil, err
		}
		q := &asynqQueue{redis: r, rdb: r.client(workers + 20), seen: make(chan time.Time, 1), over: make(chan error, 1)}
		q.client = asynq.NewClientFromRedisClient(q.rdb)
		q.server = asynq.NewServerFromRedisClient(q.rdb, asynq.Config{
			Concurrency: workers, TaskCheckInterval: check, LogLevel: asynq.FatalLevel, Logger: noLog{},
		})
		err := q.server.Start(asynq.HandlerFunc(func(ctx context.Context, _ *asynq.Task) error {
			q.finished.Add(1)
			follow(&q.left, q.over, func() error { return q.enqueue(ctx) })
			select {
			case q.seen <- time.Now():
			default:
			}
			return nil
		}))
		if err != nil {
			return nil, errors.Join(fmt.Errorf("start asynq: %w", err), q.rdb.Close())
		}
		return q, nil
	}
}

func (q *asynqQueue) enqueue(ctx context.Context) error {
	_, err := q.client.EnqueueContext(ctx, asynq.NewTask("chunk", []byte(`{"job":"job-1","chunk":1,"iterations":1000}`)))
	return err
}

func (q *asynqQueue) fill(ctx context.Context, n int) error {
	return q.redis.filling(ctx, func() error {
		const clients = 64
		var wg sync.WaitGroup
		errs := make([]error, clients)
		for c := range clients {
			wg.Go(func() {
				for i := c; i < n && errs[c] == nil; i += clients {
					errs[c] = q.enqueue(ctx)
				}
			})
		}
		wg.Wait()
		return errors.Join(errs...)
	})
}

// done counts handlers that ran: at most one of each worker has not been
// marked as done.
func (q *asynqQueue) done(context.Context) (int64, error) { return q.finished.Load(), nil }

func (q *asynqQueue) one(ctx context.Context) (time.Duration, error) {
	select {
	case <-q.seen: // of an earlier piece
	default:
	}
	began := time.Now()
	if err := q.enqueue(ctx); err != nil {
		return 0, err
	}
	select {
	case at := <-q.seen:
		return at.Sub(began), nil
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

func (q *asynqQueue) chain(ctx context.Context, n int) (time.Duration, error) {
	return chained(ctx, n, &q.left, q.over, func() error { return q.enqueue(ctx) })
}

// chained puts in the first of n pieces and waits for the last.
func chained(ctx context.Context, n int, left *atomic.Int64, over <-chan error, put func() error) (time.Duration, error) {
	began := time.Now()
	left.Store(int64(n))
	if err := put(); err != nil {
		return 0, err
	}
	select {
	case err := <-over:
		return time.Since(began), err
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

// follow puts in the piece of a chain that comes after one.
func follow(left *atomic.Int64, over chan<- error, put func() error) {
	n := left.Add(-1)
	if n < 0 {
		return
	}
	var err error
	if n > 0 {
		if err = put(); err == nil {
			return
		}
	}
	select {
	case over <- err:
	default:
	}
}

func (q *asynqQueue) close() error {
	q.server.Shutdown()
	return q.rdb.Close()
}

// noLog drops what asynq has to say.
type noLog struct{}

func (noLog) Debug(...any) {}
func (noLog) Info(...any)  {}
func (noLog) Warn(...any)  {}
func (noLog) Error(...any) {}
func (noLog) Fatal(v ...any) {
	panic("bench: asynq: " + fmt.Sprint(v...))
}
