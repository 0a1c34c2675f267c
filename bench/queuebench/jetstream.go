package queuebench

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// startJetStream starts a NATS server in this process that syncs each write.
func startJetStream(ctx context.Context, dir string) ([]queuePeer, func() error, error) {
	srv, err := natsserver.NewServer(&natsserver.Options{
		Host: "127.0.0.1", Port: natsserver.RANDOM_PORT, NoLog: true, NoSigs: true,
		JetStream: true, StoreDir: filepath.Join(dir, "jetstream"), SyncAlways: true,
	})
	if err != nil {
		return nil, nil, fmt.Errorf("start nats-server: %w", err)
	}
	srv.Start()
	stop := func() error {
		srv.Shutdown()
		srv.WaitForShutdown()
		return nil
	}
	if !srv.ReadyForConnections(10 * time.Second) {
		return nil, nil, errors.Join(errors.New("nats-server does not answer"), stop())
	}
	if err := createAnchor(ctx, srv.ClientURL()); err != nil {
		return nil, nil, errors.Join(err, stop())
	}
	const how = "nats-server v2.15.2 in this process, file store, sync_always; a work queue, a pull consumer; per piece its result " +
		"is published and acknowledged by the server, then the piece acknowledged; a connection per worker, "
	open := func(batch int) func(context.Context, string, int) (queue, error) {
		return func(ctx context.Context, _ string, workers int) (queue, error) {
			return openJetStream(ctx, srv.ClientURL(), workers, batch)
		}
	}
	return []queuePeer{{
		name: "JetStream", perSecond: 6000, open: open(1), with: how + "one piece at a time",
	}, {
		name: "JetStream, tuned", perSecond: 8000, open: open(64), with: how + "64 pieces at a time, results published without waiting for each",
	}}, stop, nil
}

// createAnchor creates a stream that stays. Some time after its last stream was
// deleted, the server removes the directory that all streams are in, and a
// stream that is being created then fails.
func createAnchor(ctx context.Context, url string) error {
	conn, err := nats.Connect(url)
	if err != nil {
		return err
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		return err
	}
	_, err = js.CreateStream(ctx, jetstream.StreamConfig{Name: "anchor", Subjects: []string{"anchor"}, Storage: jetstream.FileStorage})
	return err
}

// jetQueue is a work-queue stream of pieces beside a stream of results.
type jetQueue struct {
	conn     *nats.Conn
	js       jetstream.JetStream
	batch    int
	pieces   string // streams, of this opening alone
	results  string
	finished atomic.Int64
	seen     chan time.Time // when a worker had a piece; capacity 1, full: nobody asked
	cancel   context.CancelFunc
	workers  sync.WaitGroup
	failed   chan error // capacity 1: the first
}

func openJetStream(ctx context.Context, url string, workers, batch int) (_ queue, err error) {
	at := time.Now().UnixNano()
	q := &jetQueue{
		batch: batch, pieces: fmt.Sprintf("pieces-%d", at), results: fmt.Sprintf("results-%d", at),
		seen: make(chan time.Time, 1), failed: make(chan error, 1), cancel: func() {},
	}
	if q.conn, err = nats.Connect(url); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, q.close())
		}
	}()
	if q.js, err = jetstream.New(q.conn, jetstream.WithPublishAsyncMaxPending(1<<20)); err != nil {
		return nil, err
	}
	if _, err = q.js.CreateStream(ctx, jetstream.StreamConfig{
		Name: q.pieces, Subjects: []string{q.pieces}, Retention: jetstream.WorkQueuePolicy, Storage: jetstream.FileStorage,
	}); err != nil {
		return nil, err
	}
	if _, err = q.js.CreateStream(ctx, jetstream.StreamConfig{Name: q.results, Subjects: []string{q.results}, Storage: jetstream.FileStorage}); err != nil {
		return nil, err
	}
	if _, err = q.js.CreateConsumer(ctx, q.pieces, jetstream.ConsumerConfig{
		Durable: "workers", AckPolicy: jetstream.AckExplicitPolicy, AckWait: time.Minute, MaxAckPending: max(1000, 2*workers*batch),
	}); err != nil {
		return nil, err
	}
	runCtx, cancel := context.WithCancel(context.Background())
	q.cancel = cancel
	for range workers {
		q.workers.Go(func() {
			if err := q.work(runCtx, url); err != nil && runCtx.Err() == nil {
				select {
				case q.failed <- err:
				default:
				}
			}
		})
	}
	return q, nil
}

// work fetches and answers until ctx ends.
func (q *jetQueue) work(ctx context.Context, url string) error {
	conn, err := nats.Connect(url)
	if err != nil {
		return err
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		return err
	}
	consumer, err := js.Consumer(ctx, q.pieces, "workers")
	if err != nil {
		return err
	}
	for ctx.Err() == nil {
		got, err := consumer.Fetch(q.batch, jetstream.FetchMaxWait(5*time.Second))
		if err != nil {
			return err
		}
		var waiting []jetstream.PubAckFuture
		var pieces []jetstream.Msg
		for m := range got.Messages() {
			select {
			case q.seen <- time.Now():
			default:
			}
			f, err := js.PublishAsync(q.results, []byte(result))
			if err != nil {
				return err
			}
			waiting, pieces = append(waiting, f), append(pieces, m)
		}
		if err := got.Error(); err != nil && !errors.Is(err, nats.ErrTimeout) {
			return err
		}
		if err := q.settle(ctx, waiting, pieces); err != nil {
			return err
		}
	}
	return nil
}

// settle waits for the results and then gives the pieces back as done.
func (q *jetQueue) settle(ctx context.Context, waiting []jetstream.PubAckFuture, pieces []jetstream.Msg) error {
	for i, f := range waiting {
		select {
		case <-f.Ok():
		case err := <-f.Err():
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
		if err := pieces[i].Ack(); err != nil {
			return err
		}
		q.finished.Add(1)
	}
	return nil
}

func (q *jetQueue) fill(ctx context.Context, n int) error {
	for range n {
		if _, err := q.js.PublishAsync(q.pieces, []byte(`{"job":"job-1","chunk":1,"iterations":1000}`)); err != nil {
			return err
		}
	}
	select {
	case <-q.js.PublishAsyncComplete():
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (q *jetQueue) done(context.Context) (int64, error) {
	select {
	case err := <-q.failed:
		return 0, err
	default:
		return q.finished.Load(), nil
	}
}

func (q *jetQueue) one(ctx context.Context) (time.Duration, error) {
	select {
	case <-q.seen: // of an earlier piece
	default:
	}
	began := time.Now()
	if _, err := q.js.Publish(ctx, q.pieces, []byte(`{"job":"job-1","chunk":1,"iterations":1000}`)); err != nil {
		return 0, err
	}
	select {
	case at := <-q.seen:
		return at.Sub(began), nil
	case err := <-q.failed:
		return 0, err
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

func (q *jetQueue) close() error {
	q.cancel()
	q.workers.Wait()
	defer q.conn.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return errors.Join(q.js.DeleteStream(ctx, q.pieces), q.js.DeleteStream(ctx, q.results))
}
