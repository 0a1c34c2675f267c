package gatebench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/centrifugal/centrifuge"
	client "github.com/centrifugal/centrifuge-go"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/bench/suite"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/gateway/auth"
	"github.com/skein-project/skein/gateway/push"
)

const (
	publishers = 16
	// maxUnheard is how many pushes may be on their way, for each who listens: so many that
	// nobody waits for another, and so few that no queue is too long.
	maxUnheard = 8
	heardTime  = 30 * time.Second
)

// wire is a node and those who listen to it, each to its own channel, over WebSockets.
type wire struct {
	name    string
	push    func(worker cluster.NodeID)
	heard   atomic.Int64
	seen    atomic.Pointer[chan time.Time] // where an arrival is told, if there is room
	unheard chan struct{}                  // a place for each push on its way
	ids     []cluster.NodeID
	clients []*client.Client
	close   func() error
}

// usualPush is a push as most are: two chunks of a job.
func usualPush(worker cluster.NodeID) api.WorkPush {
	spec := job.Spec{Key: "bench", Artefact: cluster.Hash{1}, Config: cluster.Hash{2}, Iterations: 1 << 40, Chunk: 1 << 30, Seed: 1 << 60}.WithDefaults()
	id := job.NewID(owner, "bench")
	return api.WorkPush{
		V: 1, Type: "chunk", Session: 1 << 56, Seq: 17, Term: 3, At: time.Now().UTC(),
		Chunks: &api.WorkChunks{
			Spec: api.WorkSpec{
				Executor: spec.Executor, Artefact: spec.Artefact, Config: spec.Config, Iterations: spec.Iterations, Chunk: spec.Chunk, Seed: spec.Seed,
				MemoryBytes: spec.MemoryBytes, TimeoutSeconds: spec.TimeoutSeconds, HardTimeoutSeconds: spec.HardTimeout().Seconds(),
			},
			Refs: []job.Attempt{{Job: id, Chunk: 17, Number: 1}, {Job: id, Chunk: 18, Number: 1}},
		},
	}
}

// serve has clients reach a handler at an address of the loopback device.
func serve(ctx context.Context, h http.Handler) (addr string, end func() error, err error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp4", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	srv := &http.Server{Handler: h, ReadHeaderTimeout: heardTime}
	ended := make(chan error, 1)
	go func() { ended <- srv.Serve(l) }()
	return l.Addr().String(), func() error {
		err := srv.Close()
		if err1 := <-ended; !errors.Is(err1, http.ErrServerClosed) {
			err = errors.Join(err, err1)
		}
		return err
	}, nil
}

// connect has a worker listen; told hears what it is told.
func connect(addr string, id cluster.NodeID, told func([]byte)) (*client.Client, error) {
	return connectBy("ws://"+addr, string(id), id, told)
}

// connectBy is connect at an URL, by a token.
func connectBy(url, token string, id cluster.NodeID, told func([]byte)) (*client.Client, error) {
	c := client.NewJsonClient(url, client.Config{Token: token, HandshakeTimeout: heardTime, ReadTimeout: heardTime, WriteTimeout: heardTime})
	sub, err := c.NewSubscription(api.WorkChannel + string(id))
	if err != nil {
		return nil, err
	}
	up := make(chan error, 4)
	say := func(err error) {
		select {
		case up <- err:
		default: // of interest until it is up; pushes that are missing are seen
		}
	}
	sub.OnPublication(func(e client.PublicationEvent) { told(e.Data) })
	sub.OnSubscribed(func(client.SubscribedEvent) { say(nil) })
	sub.OnError(func(e client.SubscriptionErrorEvent) { say(e.Error) })
	c.OnError(func(e client.ErrorEvent) { say(e.Error) })
	c.OnDisconnected(func(e client.DisconnectedEvent) { say(fmt.Errorf("disconnected: %s", e.Reason)) })
	err = errors.Join(sub.Subscribe(), c.Connect())
	if err == nil {
		select {
		case err = <-up:
		case <-time.After(heardTime):
			err = errors.New("no connection")
		}
	}
	if err != nil {
		c.Close()
		return nil, fmt.Errorf("client %s: %w", id, err)
	}
	return c, nil
}

// listen has n clients listen at an address.
func (w *wire) listen(addr string, n int) error {
	w.unheard = make(chan struct{}, maxUnheard*n)
	for i := range n {
		id := cluster.OutsideID(outsider(i))
		c, err := connect(addr, id, func([]byte) {
			tell(&w.seen, time.Now())
			w.heard.Add(1)
			<-w.unheard
		})
		if err != nil {
			return err
		}
		w.ids, w.clients = append(w.ids, id), append(w.clients, c)
	}
	return nil
}

// tell tells when something arrived, if there is room.
func tell(to *atomic.Pointer[chan time.Time], at time.Time) {
	if seen := to.Load(); seen != nil {
		select {
		case *seen <- at:
		default:
		}
	}
}

// quickly is a clock that goes so much faster than the true one that nobody asks too often.
func quickly(began time.Time) func() time.Duration {
	return func() time.Duration { return 1000 * time.Since(began) }
}

// newNode is the gateway's node of pushes for those whose token is their id.
func newNode(call func(cluster.NodeID, string, string, []byte) (any, *api.Problem), gone func(string)) (*push.Node, error) {
	began := time.Now()
	return push.New(push.Options{
		Who: func(token string, _ []byte) (auth.Client, time.Time, error) {
			return auth.OfWorker(cluster.NodeID(token)), time.Now().Add(time.Hour), nil
		},
		Stays: func(auth.Client) error { return nil }, Listen: own,
		Call: call, Gone: gone, Ended: func(api.DisconnectCode) {}, Origin: func(*http.Request) bool { return true }, Now: quickly(began), Logger: zerolog.Nop(),
	})
}

func newOurs(ctx context.Context, n int) (*wire, error) {
	node, err := newNode(func(cluster.NodeID, string, string, []byte) (any, *api.Problem) { return nil, nil }, func(string) {})
	if err != nil {
		return nil, err
	}
	if err := node.Start(); err != nil {
		return nil, err
	}
	addr, end, err := serve(ctx, node)
	if err != nil {
		node.Stop()
		return nil, err
	}
	p := usualPush("")
	w := &wire{name: "gateway", push: func(worker cluster.NodeID) { node.Push(worker, p) }}
	w.close = func() error {
		for _, c := range w.clients {
			c.Close()
		}
		node.Stop()
		return end()
	}
	if err := w.listen(addr, n); err != nil {
		return nil, errors.Join(err, w.close())
	}
	return w, nil
}

// newBare is a node of centrifuge that lets anybody in, and publishes bytes.
func newBare(ctx context.Context, n int) (*wire, error) {
	node, err := centrifuge.New(centrifuge.Config{Metrics: centrifuge.MetricsConfig{RegistererGatherer: prometheus.NewRegistry()}})
	if err != nil {
		return nil, err
	}
	node.OnConnecting(func(_ context.Context, e centrifuge.ConnectEvent) (centrifuge.ConnectReply, error) {
		return centrifuge.ConnectReply{Credentials: &centrifuge.Credentials{UserID: e.Token}}, nil
	})
	node.OnConnect(func(c *centrifuge.Client) {
		c.OnSubscribe(func(_ centrifuge.SubscribeEvent, answer centrifuge.SubscribeCallback) {
			answer(centrifuge.SubscribeReply{}, nil)
		})
	})
	if err := node.Run(); err != nil {
		return nil, err
	}
	addr, end, err := serve(ctx, centrifuge.NewWebsocketHandler(node, centrifuge.WebsocketConfig{CheckOrigin: func(*http.Request) bool { return true }}))
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(usualPush(""))
	if err != nil {
		return nil, err
	}
	w := &wire{name: "centrifuge", push: func(worker cluster.NodeID) { _, _ = node.Publish(api.WorkChannel+string(worker), text) }}
	w.close = func() error {
		for _, c := range w.clients {
			c.Close()
		}
		grace, cancel := context.WithTimeout(context.Background(), heardTime)
		defer cancel()
		return errors.Join(node.Shutdown(grace), end())
	}
	if err := w.listen(addr, n); err != nil {
		return nil, errors.Join(err, w.close())
	}
	return w, nil
}

// rate is how many pushes a second reach those who listen.
func (w *wire) rate(ctx context.Context, burst time.Duration) (float64, error) {
	w.heard.Store(0)
	began := time.Now()
	var said atomic.Int64
	var publishing sync.WaitGroup
	for p := range publishers {
		publishing.Go(func() {
			for i := p; time.Since(began) < burst && ctx.Err() == nil; i += publishers {
				select {
				case w.unheard <- struct{}{}:
				case <-time.After(heardTime):
					return // it is seen that pushes are missing
				}
				said.Add(1)
				w.push(w.ids[i%len(w.ids)])
			}
		})
	}
	publishing.Wait()
	if err := suite.Poll(ctx, "all pushes are heard", heardTime, func() bool { return w.heard.Load() == said.Load() }); err != nil {
		return 0, fmt.Errorf("%w: %d of %d", err, w.heard.Load(), said.Load())
	}
	return float64(said.Load()) / time.Since(began).Seconds(), nil
}

// one is how many milliseconds a single push takes to a worker.
func (w *wire) one(ctx context.Context) (float64, error) {
	seen := make(chan time.Time, 1)
	w.seen.Store(&seen)
	defer w.seen.Store(nil)
	w.unheard <- struct{}{}
	began := time.Now()
	w.push(w.ids[rand.IntN(len(w.ids))])
	at, err := arrival(ctx, seen)
	return suite.Ms(at.Sub(began)), err
}

func arrival(ctx context.Context, seen <-chan time.Time) (time.Time, error) {
	select {
	case at := <-seen:
		return at, nil
	case <-time.After(heardTime):
		return time.Time{}, errors.New("nothing is heard")
	case <-ctx.Done():
		return time.Time{}, ctx.Err()
	}
}

// Push compares the pushes to outside workers with those of a bare node of centrifuge, and
// measures how long a chunk that can be given out takes to a worker.
func Push(ctx context.Context, s *suite.Suite) (err error) {
	n := s.Size.Listeners
	ours, err := newOurs(ctx, n)
	if err != nil {
		return fmt.Errorf("gateway: %w", err)
	}
	theirs, err := newBare(ctx, n)
	if err != nil {
		return errors.Join(fmt.Errorf("centrifuge: %w", err), ours.close())
	}
	err = compare(ctx, s, ours, theirs)
	if err := errors.Join(err, ours.close(), theirs.close()); err != nil {
		return err
	}
	return assignments(ctx, s)
}

func compare(ctx context.Context, s *suite.Suite, ours, theirs *wire) error {
	n := len(ours.ids)
	const with = "centrifuge v0.40.1 as it is by default, the same bytes, made once"
	rate := suite.Series{
		Name: fmt.Sprintf("pushes to %d outside workers", n), Unit: "pushes/s", With: with + fmt.Sprintf("; %d publishers", publishers),
		Target: suite.Want("ratio", ">=", 0.8), Digest: suite.Median,
	}
	p50 := suite.Series{Name: fmt.Sprintf("a push to one of %d outside workers, p50", n), Unit: "ms", With: with, Digest: suite.Median}
	p99 := suite.Series{Name: fmt.Sprintf("a push to one of %d outside workers, p99", n), Unit: "ms", With: with, Digest: suite.P99}
	rounds := 3 * s.Size.Rounds // short, and near each other
	for i := range rounds + 1 {
		s.Progress("pushes to %d outside workers, round %d of %d", n, i, rounds)
		var a, b float64
		var as, bs []float64
		measure := func(w *wire, perSecond *float64, took *[]float64) func() error {
			return func() (err error) {
				if *perSecond, err = w.rate(ctx, s.Size.Burst); err != nil {
					return fmt.Errorf("%s: %w", w.name, err)
				}
				for range s.Size.Submits {
					ms, err := w.one(ctx)
					if err := errors.Join(err, suite.Pause(ctx, rand.N(5*time.Millisecond))); err != nil {
						return fmt.Errorf("%s: %w", w.name, err)
					}
					*took = append(*took, ms)
				}
				return nil
			}
		}
		if err := suite.InTurn(i, measure(ours, &a, &as), measure(theirs, &b, &bs)); err != nil {
			return err
		}
		if i > 0 { // the first one warms up
			rate.Ours, rate.Peer = append(rate.Ours, a), append(rate.Peer, b)
			p50.Ours, p50.Peer = append(p50.Ours, as...), append(p50.Peer, bs...)
		}
	}
	p99.Ours, p99.Peer = p50.Ours, p50.Peer
	s.Add(rate)
	s.Add(p50)
	s.Add(p99)
	return nil
}
