package push

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/centrifugal/centrifuge"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/internal/bucket"
)

// Bounds of a connection.
const (
	// MaxMessage is the longest message of a client; longer ones go by HTTP.
	MaxMessage = 64 << 10
	// maxQueue is how many bytes may wait for a client: then its connection is ended.
	maxQueue     = 4 << 20
	maxChannels  = 4
	maxPerWorker = 4 // connections
	staleAfter   = 10 * time.Second
	writeTimeout = 5 * time.Second
	pingEvery    = 25 * time.Second
	pongTimeout  = 10 * time.Second
	stopTime     = 2 * time.Second
)

// asking is how often a worker asks for anything, over all its connections; who does so more
// often loses them. It is more than all that Options.Call answers.
var asking = bucket.Rate{PerSecond: 150, Burst: 300}

// Options configures a Node. All must be set but what says otherwise.
type Options struct {
	// Who is whose a token is, and until when.
	Who func(token string) (cluster.NodeID, time.Time, error)
	// Call answers what a worker asks over the connection conn. Its calls come one after
	// the other.
	Call func(worker cluster.NodeID, conn, method string, request []byte) (any, *api.Problem)
	// Gone takes in that a connection has ended.
	Gone func(conn string)
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
}

// New returns a Node without connections.
func New(o Options) (*Node, error) {
	n := &Node{o: o, log: o.Logger.With().Str("component", "push").Logger(), asked: bucket.NewTable(asking)}
	var err error
	if n.node, err = centrifuge.New(centrifuge.Config{
		LogLevel: centrifuge.LogLevelError, LogHandler: n.complain,
		ClientQueueMaxSize: maxQueue, ClientChannelLimit: maxChannels, UserConnectionLimit: maxPerWorker, ClientStaleCloseDelay: staleAfter,
		// Its own metrics are many, and say what skein_gateway_* says.
		Metrics: centrifuge.MetricsConfig{RegistererGatherer: prometheus.NewRegistry()},
	}); err != nil {
		return nil, fmt.Errorf("push: %w", err)
	}
	n.node.OnConnecting(n.connecting)
	n.node.OnConnect(n.connected)
	n.node.OnCommandRead(n.reading)
	n.Handler = centrifuge.NewWebsocketHandler(n.node, centrifuge.WebsocketConfig{
		MessageSizeLimit: MaxMessage, WriteTimeout: writeTimeout, UseWriteBufferPool: true, ReadBufferSize: 1 << 10,
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
	if err := n.node.Shutdown(ctx); err != nil {
		n.log.Debug().Err(err).Msg("connections of workers cut")
	}
}

// Push tells a worker something, if it listens.
func (n *Node) Push(worker cluster.NodeID, p api.WorkPush) {
	text, err := json.Marshal(p)
	if err == nil {
		_, err = n.node.Publish(api.WorkChannel+string(worker), text)
	}
	if err != nil { // the worker sees by the number of the next one that it missed this
		n.log.Warn().Err(err).Str("worker", string(worker)).Msg("push failed")
	}
}

// Connections is how many there are.
func (n *Node) Connections() int { return n.node.Hub().NumClients() }

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
		return centrifuge.DisconnectTooManyRequests
	}
	return nil
}

func (n *Node) connecting(_ context.Context, e centrifuge.ConnectEvent) (centrifuge.ConnectReply, error) {
	worker, until, err := n.o.Who(e.Token)
	if err != nil {
		n.log.Debug().Err(err).Msg("token of a worker refused")
		return centrifuge.ConnectReply{}, centrifuge.DisconnectInvalidToken
	}
	return centrifuge.ConnectReply{
		Credentials:       &centrifuge.Credentials{UserID: string(worker), ExpireAt: until.Unix()},
		ClientSideRefresh: true,
	}, nil
}

func (n *Node) connected(c *centrifuge.Client) {
	worker := cluster.NodeID(c.UserID())
	c.OnRPC(func(e centrifuge.RPCEvent, answer centrifuge.RPCCallback) {
		out, prob := n.o.Call(worker, c.ID(), e.Method, e.Data)
		if prob != nil {
			answer(centrifuge.RPCReply{}, errorOf(prob))
			return
		}
		text, err := json.Marshal(out)
		answer(centrifuge.RPCReply{Data: text}, err)
	})
	c.OnSubscribe(func(e centrifuge.SubscribeEvent, answer centrifuge.SubscribeCallback) {
		if e.Channel != api.WorkChannel+string(worker) {
			answer(centrifuge.SubscribeReply{}, centrifuge.ErrorPermissionDenied)
			return
		}
		answer(centrifuge.SubscribeReply{}, nil)
	})
	c.OnRefresh(func(e centrifuge.RefreshEvent, answer centrifuge.RefreshCallback) {
		again, until, err := n.o.Who(e.Token)
		if err == nil && again != worker {
			err = errors.New("of another worker")
		}
		if err != nil {
			n.log.Debug().Err(err).Str("worker", string(worker)).Msg("token of a worker refused")
			answer(centrifuge.RefreshReply{Expired: true}, nil)
			return
		}
		answer(centrifuge.RefreshReply{ExpireAt: until.Unix()}, nil)
	})
	c.OnDisconnect(func(centrifuge.DisconnectEvent) { n.o.Gone(c.ID()) })
}

// errorOf is how the protocol says a problem: its HTTP status, and 1000.
func errorOf(p *api.Problem) *centrifuge.Error {
	return &centrifuge.Error{Code: uint32(1000 + p.Status), Message: p.Detail, Temporary: p.Retryable()}
}
