package gateway

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/gateway/auth"
	"github.com/skein-project/skein/gateway/desk"
	"github.com/skein-project/skein/gateway/guard/here"
	"github.com/skein-project/skein/gateway/registry"
	"github.com/skein-project/skein/gateway/relay"
	"github.com/skein-project/skein/gateway/rpc"
	"github.com/skein-project/skein/internal/certfile"
	"github.com/skein-project/skein/status/door"
)

// Times and bounds of connections.
const (
	headerTimeout = 10 * time.Second
	readTimeout   = 30 * time.Second
	writeTimeout  = 60 * time.Second
	idleTimeout   = 2 * time.Minute
	maxHeader     = 16 << 10
	deadline      = 30 * time.Second // of a handler
	maxBody       = 64 << 10
	maxRPC        = 3 << 20    // an output of job.MaxResultBytes, as a string of JSON
	maxReading    = 256 << 20  // bodies that are read at once
	maxReadingOf  = 5 * maxRPC // those of one worker, or address
	stopGrace     = time.Second
)

// Gateway serves outside workers and their owners. Its methods may be called from any
// goroutine.
type Gateway struct {
	o   Options
	log zerolog.Logger
	reg *registry.Registry
	up  chan struct{}
	key atomic.Pointer[key]
	// announced is the name of the key that this run has announced; keep's own.
	announced string
	metrics   *metrics
	guard     *here.Front
	limits    *limiter
	mux       *http.ServeMux
	push      front
	rpc       *rpc.Service
	reading   reading
}

// New returns a Gateway. It opens nothing.
func New(o Options) (*Gateway, error) {
	if o.Wall == nil {
		o.Wall = time.Now
	}
	if o.Secret == nil {
		o.Secret = make([]byte, 32)
		rand.Read(o.Secret)
	}
	if o.HTTP.host() == "" {
		return nil, fmt.Errorf("gateway: %q is no address", o.HTTP.URL)
	}
	g := &Gateway{
		o: o, log: o.Logger.With().Str("component", "gateway").Logger(), reg: registry.New(o.Log),
		up: make(chan struct{}), reading: reading{of: map[string]int64{}},
	}
	alone := here.New(o.Now, o.Wall())
	g.guard = here.Before(alone, alone)
	if o.Shared != nil {
		g.guard = here.Before(o.Shared, alone)
	}
	g.key.Store(&key{why: "it is starting"})
	var err error
	if g.metrics, err = newMetrics(o.Registerer, g); err != nil {
		return nil, err
	}
	g.limits = &limiter{guard: g.guard, told: g.metrics.limited, from: g.from}
	g.rpc = rpc.New(rpc.Options{
		Crew: o.Crew, Anywhere: o.Centrifugo.API != "", Owner: g.ownerOf, Push: func(w cluster.NodeID, p api.WorkPush) { g.push.Push(w, p) }, Wall: g.wall,
		End:    func(w cluster.NodeID, conn string, why api.Disconnect) { g.push.End(auth.OfWorker(w), conn, why) },
		Pushed: func(took time.Duration) { g.metrics.pushed.Observe(took.Seconds()) },
	})
	if shared, ok := o.Crew.(desk.Shared); ok {
		shared.OnPush(g.rpc.Tell)
	}
	realtime, err := openFront(g)
	if err != nil {
		return nil, err
	}
	g.mux = g.routes(realtime)
	return g, nil
}

// Up is closed once the address is open.
func (g *Gateway) Up() <-chan struct{} { return g.up }

func (g *Gateway) wall() time.Time { return g.o.Wall() }

// keysOf finds the key of a gateway; nil if the log names none.
func keysOf(reg *registry.Registry, now time.Time) func(node cluster.NodeID, kid string) ed25519.PublicKey {
	return func(node cluster.NodeID, kid string) ed25519.PublicKey {
		k, _ := reg.GatewayKey(node, kid, now)
		return k
	}
}

// Run serves until ctx ends; then running requests get a short grace.
func (g *Gateway) Run(ctx context.Context) error {
	var secure *tls.Config
	if g.o.HTTP.TLSCert != "" {
		cert, err := certfile.Load(g.o.HTTP.TLSCert, g.o.HTTP.TLSKey, time.Now())
		if err != nil {
			return fmt.Errorf("gateway.tls_cert: %w", err)
		}
		secure = &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{cert}, NextProtos: []string{"http/1.1"}}
	}
	l, err := g.o.HTTP.Open(ctx)
	if err != nil {
		return fmt.Errorf("listen for outside workers: %w", err)
	}
	l = door.NewConnLimit(l, g.o.HTTP.MaxClients, g.connected, g.metrics.refused.Inc)
	if secure != nil {
		l = tls.NewListener(l, secure)
	}
	srv := &http.Server{
		Handler: http.HandlerFunc(g.serve), ReadHeaderTimeout: headerTimeout, ReadTimeout: readTimeout, WriteTimeout: writeTimeout,
		IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeader, ErrorLog: log.New(quiet{g.log}, "", 0),
	}
	var own sync.WaitGroup
	running, stop := context.WithCancel(ctx)
	if err := g.push.Start(); err != nil {
		stop()
		_ = l.Close()
		return err
	}
	own.Go(func() { g.keep(running) })
	own.Go(func() { admissionOf(g).shutOut(running, g.push) })
	if g.o.Watch != nil {
		tells := relay.New(relay.Options{Watch: g.o.Watch, Heard: g.push.Heard, Publish: g.push.Publish, Now: g.o.Now, Wall: g.wall, Logger: g.o.Logger})
		own.Go(func() { tells.Run(running) })
	}
	own.Go(func() { <-running.Done(); g.push.Stop() })
	defer own.Wait()
	defer g.rpc.Close()
	defer stop()
	served := make(chan error, 1)
	go func() { served <- srv.Serve(l) }()
	close(g.up)
	select {
	case err := <-served:
		return fmt.Errorf("gateway: %w", err)
	case <-ctx.Done():
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopGrace)
	defer cancel()
	if srv.Shutdown(grace) != nil {
		_ = srv.Close() // what did not end in time is cut
	}
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("gateway: %w", err)
	}
	return ctx.Err()
}

// connected is for whom a connection counts; proxies have any number.
func (g *Gateway) connected(conn net.Conn) string {
	if host, _, err := net.SplitHostPort(conn.RemoteAddr().String()); err == nil && g.trusted(host) {
		return ""
	}
	return door.WhoConnects(conn)
}

// quiet takes net/http's complaints: strangers cause most of them.
type quiet struct{ log zerolog.Logger }

// Write implements io.Writer.
func (q quiet) Write(p []byte) (int, error) {
	q.log.Debug().Str("err", strings.TrimSpace(string(p))).Msg("http server")
	return len(p), nil
}
