package centrifugo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/gateway/auth"
	"github.com/skein-project/skein/gateway/channel"
	"github.com/skein-project/skein/internal/advice"
	"github.com/skein-project/skein/internal/bucket"
	"github.com/skein-project/skein/internal/loglimit"
	"github.com/skein-project/skein/internal/wait"
)

// Times and bounds of a Node.
const (
	lookEvery = 5 * time.Second // whether Centrifugo is there
	logEvery  = 30 * time.Second
	stopTime  = time.Second
	// maxSeen bounds the clients of which it is remembered that they asked here lately. Of
	// more, some that are shut out are disconnected only when they ask.
	maxSeen = 200_000
	seenFor = 15 * time.Minute
)

// Node is the connections that a Centrifugo keeps. Its methods may be called from any
// goroutine.
type Node struct {
	o       Options
	log     zerolog.Logger
	gate    *loglimit.Gate
	metrics *metrics
	api     *client
	secret  *secrets
	queue   *queue
	asking  chan struct{} // as many as may ask at once
	running running

	mu    sync.Mutex // for what follows
	asked *bucket.Table
	seen  map[auth.Client]time.Duration // who asked here, and when
	swept time.Duration
}

// running is what Start started.
type running struct {
	stop   context.CancelFunc
	server *http.Server
	own    sync.WaitGroup
}

// New returns a Node that asks nobody yet. The files of secrets must be there.
func New(o Options) (*Node, error) {
	n := &Node{
		o: o, log: o.Logger.With().Str("component", "centrifugo").Logger(), gate: loglimit.New(o.Now, logEvery),
		secret: &secrets{file: o.SecretFile, most: 2, now: o.Now}, queue: newQueue(),
		asking: make(chan struct{}, maxAsking), asked: bucket.NewTable(channel.Asking), seen: map[auth.Client]time.Duration{},
	}
	key := &secrets{file: o.KeyFile, most: 1, now: o.Now}
	n.api = newClient(o.API, key)
	if _, err := key.get(); err != nil {
		return nil, fmt.Errorf("centrifugo.api_key_file: %w", err)
	}
	if _, err := n.secret.get(); err != nil {
		return nil, fmt.Errorf("centrifugo.secret_file: %w", err)
	}
	var err error
	n.metrics, err = newMetrics(o.Registerer, func() int { return int(n.queue.waiting.Load()) })
	return n, err
}

// Start opens the address of the proxies and begins to publish; Stop must follow.
func (n *Node) Start() error {
	ctx, stop := context.WithCancel(context.Background())
	l, err := n.o.Open(ctx)
	if err != nil {
		stop()
		return fmt.Errorf("gateway.internal_listen: %w", err)
	}
	n.running.stop, n.running.server = stop, n.serverOf()
	for _, q := range append(slices.Clone(n.queue.pushes), n.queue.ends) {
		n.running.own.Go(func() { n.carry(ctx, q) })
	}
	n.running.own.Go(func() { n.look(ctx) })
	n.running.own.Go(func() {
		if err := n.running.server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			n.log.Error().Err(err).Msg("proxies of Centrifugo are not served any more")
		}
	})
	return nil
}

// Stop ends what Start began, and waits for it.
func (n *Node) Stop() {
	if n.running.stop == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), stopTime)
	defer cancel()
	if n.running.server.Shutdown(ctx) != nil {
		_ = n.running.server.Close() // what did not end in time is cut
	}
	n.running.stop()
	n.running.own.Wait()
}

// Push has Centrifugo tell a worker something, if it listens.
func (n *Node) Push(worker cluster.NodeID, p api.WorkPush) {
	text, err := p.Append(nil)
	if err != nil {
		n.log.Warn().Err(err).Str("worker", string(worker)).Msg("push cannot be written")
		return
	}
	n.publish(api.WorkChannel+string(worker), text)
}

// Publish has Centrifugo tell all who listen to a channel something.
func (n *Node) Publish(name string, data []byte) { n.publish(name, data) }

// Heard are the channels but those of workers to which somebody listens, if this gateway is to
// tell them.
func (n *Node) Heard() ([]channel.Ear, error) { return n.o.Ears.Heard() }

func (n *Node) publish(to string, data []byte) {
	now := n.o.Now()
	x := item{command: command{Publish: &publish{Channel: to, Data: data}}, to: to, size: len(data), at: now, until: now + pushTime}
	if !n.queue.add(x) {
		n.metrics.pushes.WithLabelValues(full).Inc()
		n.complain(errors.New("the queue is full"), "workers are not told all: Centrifugo is too slow")
	}
}

// Clients lists those that asked here of late.
func (n *Node) Clients() []auth.Client {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.sweep(n.o.Now())
	return slices.Collect(maps.Keys(n.seen))
}

// End has Centrifugo end the connections of a client; of conn, if that is not empty, this one
// alone.
func (n *Node) End(client auth.Client, conn string, why api.Disconnect) {
	n.mu.Lock()
	delete(n.seen, client)
	n.mu.Unlock()
	now := n.o.Now()
	x := item{command: command{Disconnect: &disconnect{User: string(client), Client: conn, Disconnect: endingOf(why)}}, to: string(client), at: now, until: now + endTime}
	if !n.queue.add(x) {
		n.complain(errors.New("the queue is full"), "a client is not disconnected before it asks")
		return
	}
	n.log.Info().Str("client", string(client)).Str("why", why.Reason).Msg("client disconnected")
}

func endingOf(d api.Disconnect) ending {
	return ending{Code: uint32(d.Code), Reason: d.Reason[:min(len(d.Reason), api.MaxDisconnectReason)]}
}

// Connections is how many this process has: none.
func (n *Node) Connections() int { return 0 }

// saw remembers that a client asked here.
func (n *Node) saw(client auth.Client) {
	now := n.o.Now()
	n.mu.Lock()
	defer n.mu.Unlock()
	if _, known := n.seen[client]; !known && len(n.seen) >= maxSeen {
		if n.sweep(now); len(n.seen) >= maxSeen {
			return
		}
	}
	n.seen[client] = now
}

// sweep forgets who has not asked for long; at most once a minute.
func (n *Node) sweep(now time.Duration) {
	if now-n.swept < time.Minute {
		return
	}
	n.swept = now
	maps.DeleteFunc(n.seen, func(_ auth.Client, at time.Duration) bool { return now-at > seenFor })
}

// look looks every now and then whether Centrifugo is there, and as it should be, until ctx
// ends.
func (n *Node) look(ctx context.Context) {
	said := "nothing" // about it, the last time; not logged again
	for {
		f, err := n.api.look(ctx, n.o.Wall)
		var warned []error
		if err == nil {
			warned, err = f.judge()
		}
		if ctx.Err() != nil {
			return
		}
		text := "" // what is wrong, without what of it is another each time
		if err != nil {
			what, next := advice.Of(err)
			text = cmp.Or(next, what)
		} else if len(warned) > 0 {
			text = "warned"
		}
		switch {
		case text == said:
		case err != nil:
			n.log.Warn().Err(err).Str("addr", n.o.API).Msg("Centrifugo does not serve: outside workers come by HTTP")
		case len(warned) > 0:
			n.log.Warn().Err(errors.Join(warned...)).Str("addr", n.o.API).Msg("Centrifugo serves, but is not as it should be")
		default:
			n.log.Info().Str("addr", n.o.API).Strs("versions", f.versions).Msg("Centrifugo serves")
		}
		said = text
		n.metrics.up.Set(0)
		if err == nil {
			n.metrics.up.Set(1)
			n.metrics.connections.Set(float64(f.clients))
		}
		n.metrics.ahead.Set(f.ahead.Seconds())
		if wait.For(ctx, lookEvery) != nil {
			return
		}
	}
}

// complain logs what fails, not too often.
func (n *Node) complain(err error, what string) {
	if n.gate.Pass(what) {
		n.log.Warn().Err(err).Str("addr", n.o.API).Msg(what)
	}
}
