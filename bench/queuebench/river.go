package queuebench

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"

	"github.com/skein-project/skein/internal/servertest"
)

// tuned is what its manual recommends for a machine with room; everything
// committed is on the disk all the same.
var tunedPostgres = []string{
	"fsync=on", "synchronous_commit=on", "shared_buffers=512MB", "max_wal_size=4GB", "checkpoint_timeout=30min",
	"wal_buffers=64MB", "autovacuum_naptime=10s", "max_connections=200",
}

// startRiver starts PostgreSQL with river's tables.
func startRiver(ctx context.Context, dir string) ([]queuePeer, func() error, error) {
	p, err := servertest.StartPostgres(ctx, dir, tunedPostgres...)
	if err != nil {
		return nil, nil, err
	}
	migrate := func() error {
		pool, err := pgxpool.New(ctx, p.DSN)
		if err != nil {
			return err
		}
		defer pool.Close()
		m, err := rivermigrate.New(riverpgxv5.New(pool), nil)
		if err != nil {
			return err
		}
		_, err = m.Migrate(ctx, rivermigrate.DirectionUp, nil)
		return err
	}
	if err := migrate(); err != nil {
		return nil, nil, errors.Join(fmt.Errorf("river's tables: %w", err), p.Stop())
	}
	const how = "PostgreSQL on a unix socket, synchronous_commit on, buffers and log enlarged; "
	return []queuePeer{{
		name: "river", perSecond: 30_000, slow: true, open: openRiver(p.DSN, func(workers int) river.Config {
			return river.Config{Queues: queueOf(river.QueueConfig{MaxWorkers: workers})}
		}), with: how + "river v0.51.1, defaults but MaxWorkers = workers",
	}, {
		name: "river, tuned", perSecond: 60_000, open: openRiver(p.DSN, func(int) river.Config {
			return river.Config{
				FetchCooldown: time.Millisecond, FetchPollInterval: 5 * time.Millisecond,
				Queues: queueOf(river.QueueConfig{MaxWorkers: 2000}),
			}
		}), with: how + "river v0.51.1, FetchCooldown 1 ms, FetchPollInterval 5 ms, MaxWorkers 2000 whatever the row says",
	}}, p.Stop, nil
}

func queueOf(c river.QueueConfig) map[string]river.QueueConfig {
	return map[string]river.QueueConfig{river.QueueDefault: c}
}

// pieceArgs is what a job of river carries.
type pieceArgs struct {
	Job        string `json:"job"`
	Chunk      int    `json:"chunk"`
	Iterations int    `json:"iterations"`
}

// Kind names it.
func (pieceArgs) Kind() string { return "chunk" }

// riverQueue is a client of river that works.
type riverQueue struct {
	pool   *pgxpool.Pool
	client *river.Client[pgx.Tx]
	seen   chan time.Time // when a worker had a piece; capacity 1, full: nobody asked
	left   atomic.Int64   // of a chain; below 0: there is none
	over   chan error     // how the chain ended; capacity 1
}

func openRiver(dsn string, config func(workers int) river.Config) func(context.Context, string, int) (queue, error) {
	return func(ctx context.Context, _ string, workers int) (_ queue, err error) {
		c, err := pgxpool.ParseConfig(dsn)
		if err != nil {
			return nil, err
		}
		c.MaxConns = 50
		q := &riverQueue{seen: make(chan time.Time, 1), over: make(chan error, 1)}
		if q.pool, err = pgxpool.NewWithConfig(ctx, c); err != nil {
			return nil, err
		}
		defer func() {
			if err != nil {
				q.pool.Close()
			}
		}()
		if _, err = q.pool.Exec(ctx, "TRUNCATE river_job"); err != nil {
			return nil, err
		}
		set := config(workers)
		set.Logger = slog.New(slog.DiscardHandler)
		set.Workers = river.NewWorkers()
		river.AddWorker(set.Workers, river.WorkFunc(func(ctx context.Context, _ *river.Job[pieceArgs]) error {
			follow(&q.left, q.over, func() error { return q.put(ctx) })
			select {
			case q.seen <- time.Now():
			default:
			}
			return nil
		}))
		if q.client, err = river.NewClient(riverpgxv5.New(q.pool), &set); err != nil {
			return nil, err
		}
		return q, q.client.Start(context.WithoutCancel(ctx))
	}
}

func (q *riverQueue) fill(ctx context.Context, n int) error {
	for n > 0 {
		batch := make([]river.InsertManyParams, min(n, 10_000))
		for i := range batch {
			batch[i].Args = pieceArgs{Job: "job-1", Chunk: n - i, Iterations: 1000}
		}
		n -= len(batch)
		if _, err := q.client.InsertManyFast(ctx, batch); err != nil {
			return err
		}
	}
	return nil
}

// done counts what is committed.
func (q *riverQueue) done(ctx context.Context) (n int64, err error) {
	err = q.pool.QueryRow(ctx, "SELECT count(*) FROM river_job WHERE state = 'completed'").Scan(&n)
	return n, err
}

func (q *riverQueue) one(ctx context.Context) (time.Duration, error) {
	select {
	case <-q.seen: // of an earlier piece
	default:
	}
	began := time.Now()
	if err := q.put(ctx); err != nil {
		return 0, err
	}
	select {
	case at := <-q.seen:
		return at.Sub(began), nil
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

func (q *riverQueue) put(ctx context.Context) error {
	_, err := q.client.Insert(ctx, pieceArgs{Job: "job-1", Iterations: 1000}, nil)
	return err
}

func (q *riverQueue) chain(ctx context.Context, n int) (time.Duration, error) {
	return chained(ctx, n, &q.left, q.over, func() error { return q.put(ctx) })
}

func (q *riverQueue) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	err := q.client.StopAndCancel(ctx)
	q.pool.Close()
	return err
}
