package push

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/centrifugal/centrifuge"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/gateway/auth"
	"github.com/skein-project/skein/gateway/channel"
	"github.com/skein-project/skein/internal/bucket"
	"github.com/skein-project/skein/internal/wait"
)

// Bounds of a connection.
const (
	staleAfter   = 10 * time.Second
	writeTimeout = 5 * time.Second
	pingEvery    = 25 * time.Second
	pongTimeout  = 10 * time.Second
	stopTime     = 2 * time.Second
	stopLook     = 10 * time.Millisecond
	keptMeta     = time.Hour // where in a channel its listeners were
)

// ErrExpired is of a token that has ended: a client that hears so comes again with another.
var ErrExpired = errors.New("the token has ended")

// stopping, tooMany and tooOften are what this package decides itself.
var (
	stopping = centrifuge.Disconnect{Code: uint32(api.DisconnectStopping), Reason: "the gateway stops"}
	tooMany  = centrifuge.Disconnect{Code: uint32(api.DisconnectLimit), Reason: "the client has too many connections"}
	tooOften = centrifuge.Disconnect{Code: uint32(api.DisconnectLimit), Reason: "the client asks too often"}
)

// Options configures a Node. All must be set but what says otherwise.
type Options struct {
	// Who is whose a token is, and until when; hello is what the client says of itself, which
	// may be nothing. Errors are ErrExpired, *api.Disconnect, *api.Problem, or say that it is
	// no token.
	Who func(token string, hello []byte) (auth.Client, time.Time, error)
	// Stays is why a client may not be connected; nil: it may. Errors are those of Who.
	Stays func(client auth.Client) error
	// Listen is why a client may not listen to a channel; nil: it may.
	Listen func(client auth.Client, name string) *channel.Error
	// Call answers what a worker asks over the connection conn. Its calls come one after
	// the other.
	Call func(worker cluster.NodeID, conn, method string, request []byte) (any, *api.Problem)
	// Gone takes in that a connection has ended.
	Gone func(conn string)
	// Ended counts a connection that was ended, or not taken, by a code of a gateway's own.
	Ended func(code api.DisconnectCode)
	// Origin says whether a page of another origin may connect.
	Origin func(r *http.Request) bool
	Now    func() time.Duration // never goes back
	Logger zerolog.Logger
}

// Node is the connections. Its methods may be called from any goroutine.
type Node struct {
	http.Handler // takes WebSockets

	o    Options
	log  zerolog.Logger
	node *centrifuge.Node

	mu    sync.Mutex // for what follows
	asked *bucket.Table
	heard map[string]uint64 // channels but those of workers to which somebody listened at the last look, and how often it was asked for
}

// New returns a Node without connections.
func New(o Options) (*Node, error) {
	n := &Node{o: o, log: o.Logger.With().Str("component", "push").Logger(), asked: bucket.NewTable(channel.Asking), heard: map[string]uint64{}}
	var err error
	if n.node, err = centrifuge.New(centrifuge.Config{
		LogLevel: centrifuge.LogLevelError, LogHandler: n.complain,
		ClientQueueMaxSize: channel.MaxQueue, ClientChannelLimit: channel.MaxChannels, ClientStaleCloseDelay: staleAfter,
		// Its own metrics are many, and say what skein_gateway_* says.
		Metrics: centrifuge.MetricsConfig{RegistererGatherer: prometheus.NewRegistry()},
	}); err != nil {
		return nil, fmt.Errorf("push: %w", err)
	}
	n.node.OnConnecting(n.connecting)
	n.node.OnConnect(n.connected)
	n.node.OnCommandRead(n.reading)
	n.Handler = centrifuge.NewWebsocketHandler(n.node, centrifuge.WebsocketConfig{
		MessageSizeLimit: channel.MaxMessage, WriteTimeout: writeTimeout, UseWriteBufferPool: true, ReadBufferSize: 1 << 10,
		ProcessCommandsOffReadLoop: true, CheckOrigin: o.Origin,
		PingPongConfig: centrifuge.PingPongConfig{PingInterval: pingEvery, PongTimeout: pongTimeout},
	})
	return n, nil
}

// Start must be called before the first connection and the first Push; Stop must follow.
func (n *Node) Start() error {
	if err := n.node.Run(); err != nil {
		return fmt.Errorf("push: %w", err)
	}
	return nil
}

// Stop ends the connections, and waits for them a little.
func (n *Node) Stop() {
	ctx, cancel := context.WithTimeout(context.Background(), stopTime)
	defer cancel()
	for _, c := range n.node.Hub().Connections() {
		c.Disconnect(stopping)
	}
	// Whom Shutdown still finds it ends by a code of its own, which says the same.
	for n.Connections() > 0 {
		if wait.For(ctx, stopLook) != nil {
			break
		}
	}
	if err := n.node.Shutdown(ctx); err != nil {
		n.log.Debug().Err(err).Msg("connections of workers cut")
	}
}

// Push tells a worker something, if it listens.
func (n *Node) Push(worker cluster.NodeID, p api.WorkPush) {
	text, err := p.Append(nil)
	if err == nil {
		_, err = n.node.Publish(api.WorkChannel+string(worker), text)
	}
	if err != nil { // the worker sees by the number of the next one that it missed this
		n.log.Warn().Err(err).Str("worker", string(worker)).Msg("push failed")
	}
}

// Publish tells all who listen to a channel something.
func (n *Node) Publish(name string, data []byte) {
	kind, _ := channel.Of(name)
	if _, err := n.node.Publish(name, data, centrifuge.WithHistory(kind.Kept.Messages, kind.Kept.For, keptMeta)); err != nil { // there will be another
		n.log.Warn().Err(err).Msg("listeners are not told")
	}
}

// Heard are the channels but those of workers to which somebody listens.
func (n *Node) Heard() (out []channel.Ear, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for name, asked := range n.heard {
		if n.node.Hub().NumSubscribers(name) == 0 {
			delete(n.heard, name)
			continue
		}
		out = append(out, channel.Ear{Name: name, Asked: asked})
	}
	return out, nil
}

// hears notes that a client listens to a channel, after it does.
func (n *Node) hears(name string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.heard[name]++
}

// room reports whether one may be listened to besides those that are.
func (n *Node) room(name string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	_, known := n.heard[name]
	return known || len(n.heard) < channel.MaxHeard
}

// Connections is how many there are.
func (n *Node) Connections() int { return n.node.Hub().NumClients() }

// Clients lists those that are connected.
func (n *Node) Clients() []auth.Client {
	of := map[auth.Client]bool{}
	for _, c := range n.node.Hub().Connections() {
		of[auth.Client(c.UserID())] = true
	}
	return slices.Collect(maps.Keys(of))
}

// End ends the connections of a client; of conn, if that is not empty, this one alone.
func (n *Node) End(client auth.Client, conn string, why api.Disconnect) {
	n.log.Info().Str("client", string(client)).Str("why", why.Reason).Msg("client disconnected")
	for id, c := range n.node.Hub().UserConnections(string(client)) {
		if conn == "" || id == conn {
			c.Disconnect(endOf(why))
		}
	}
}

func (n *Node) complain(e centrifuge.LogEntry) {
	n.log.Warn().Fields(e.Fields).Msg(e.Message)
}

// reading counts what a worker asks, before it is looked at.
func (n *Node) reading(c *centrifuge.Client, _ centrifuge.CommandReadEvent) error {
	if c.UserID() == "" {
		return nil // it connects, or else is ended for that it did not
	}
	n.mu.Lock()
	wait := n.asked.Take(0, c.UserID(), n.o.Now())
	n.mu.Unlock()
	if wait > 0 {
		return tooOften
	}
	return nil
}

func (n *Node) connecting(_ context.Context, e centrifuge.ConnectEvent) (centrifuge.ConnectReply, error) {
	client, until, err := n.o.Who(e.Token, e.Data)
	if err == nil {
		err = n.o.Stays(client)
	}
	if err == nil && n.connections(client) >= channel.MaxConnections {
		// Clients hear an error at once, and the code of a disconnect that says to come again
		// not before they are connected.
		err = api.Errorf(api.CodeOverloaded, "%s: at most %d", tooMany.Reason, channel.MaxConnections)
	}
	if err != nil {
		n.log.Debug().Err(err).Msg("client not connected")
		if d, ok := errors.AsType[*api.Disconnect](err); ok {
			n.o.Ended(d.Code)
		}
		return centrifuge.ConnectReply{}, refusal(err)
	}
	return centrifuge.ConnectReply{
		Credentials:       &centrifuge.Credentials{UserID: string(client), ExpireAt: until.Unix()},
		ClientSideRefresh: true,
	}, nil
}

// refusal is how the protocol says that nobody is let in, for what Options.Who says.
func refusal(err error) error {
	if d, ok := errors.AsType[*api.Disconnect](err); ok {
		return endOf(*d)
	}
	if p, ok := errors.AsType[*api.Problem](err); ok {
		return errorOf(p)
	}
	if errors.Is(err, ErrExpired) {
		return centrifuge.ErrorTokenExpired
	}
	return centrifuge.DisconnectInvalidToken
}

// connections is how many a client has.
func (n *Node) connections(client auth.Client) int {
	return len(n.node.Hub().UserConnections(string(client)))
}

func (n *Node) connected(c *centrifuge.Client) {
	client := auth.Client(c.UserID())
	worker, works := client.Worker()
	c.OnRPC(func(e centrifuge.RPCEvent, answer centrifuge.RPCCallback) {
		if !works {
			answer(centrifuge.RPCReply{}, said(channel.NoCall()))
			return
		}
		out, prob := n.o.Call(worker, c.ID(), e.Method, e.Data)
		if prob != nil {
			answer(centrifuge.RPCReply{}, errorOf(prob))
			return
		}
		text, err := json.Marshal(out)
		answer(centrifuge.RPCReply{Data: text}, err)
	})
	n.listening(c, client)
	c.OnRefresh(func(e centrifuge.RefreshEvent, answer centrifuge.RefreshCallback) {
		again, until, err := n.o.Who(e.Token, nil)
		if err == nil && again != client {
			err = errors.New("of another client")
		}
		if err != nil {
			n.log.Debug().Err(err).Str("client", string(client)).Msg("token of a client refused")
			answer(centrifuge.RefreshReply{Expired: true}, nil)
			return
		}
		if err := n.o.Stays(client); err != nil {
			answer(centrifuge.RefreshReply{}, refusal(err))
			return
		}
		answer(centrifuge.RefreshReply{ExpireAt: until.Unix()}, nil)
	})
	c.OnDisconnect(func(e centrifuge.DisconnectEvent) {
		n.o.Gone(c.ID())
		if code := api.DisconnectCode(e.Code); code.Own() {
			n.o.Ended(code)
		}
	})
	// Only from here on it counts, and End finds it: what may have changed while it connected
	// is asked again.
	if why, shut := errors.AsType[*api.Disconnect](n.o.Stays(client)); shut {
		c.Disconnect(endOf(*why))
	} else if n.connections(client) > channel.MaxConnections {
		c.Disconnect(tooMany)
	}
}

// listening answers a client that wants to listen, and every channel.Life whether it still may.
func (n *Node) listening(c *centrifuge.Client, client auth.Client) {
	c.OnSubscribe(func(e centrifuge.SubscribeEvent, answer centrifuge.SubscribeCallback) {
		if err := n.o.Listen(client, e.Channel); err != nil {
			answer(centrifuge.SubscribeReply{}, said(err))
			return
		}
		kind, _ := channel.Of(e.Channel)
		if kind == channel.Work {
			answer(centrifuge.SubscribeReply{}, nil)
			return
		}
		if !n.room(e.Channel) {
			answer(centrifuge.SubscribeReply{}, said(channel.Full()))
			return
		}
		answer(centrifuge.SubscribeReply{Options: centrifuge.SubscribeOptions{
			ExpireAt: time.Now().Add(channel.Life).Unix(), EnableRecovery: kind.Kept.Recover, HistoryMetaTTL: keptMeta,
		}}, nil)
		n.hears(e.Channel)
	})
	c.OnSubRefresh(func(e centrifuge.SubRefreshEvent, answer centrifuge.SubRefreshCallback) {
		answer(centrifuge.SubRefreshReply{
			Expired: n.o.Listen(client, e.Channel) != nil, ExpireAt: time.Now().Add(channel.Life).Unix(),
		}, nil)
	})
}

// endOf is how the protocol says why a connection ends.
func endOf(d api.Disconnect) centrifuge.Disconnect {
	return centrifuge.Disconnect{Code: uint32(d.Code), Reason: d.Reason[:min(len(d.Reason), api.MaxDisconnectReason)]}
}

// errorOf is how the protocol says a problem.
func errorOf(p *api.Problem) *centrifuge.Error { return said(channel.ErrorOf(p)) }

func said(e *channel.Error) *centrifuge.Error {
	return &centrifuge.Error{Code: e.Code, Message: e.Message, Temporary: e.Temporary}
}
