package door

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/skein-project/skein/cluster"
)

// Bounds of the exchange by which a host joins.
const (
	MaxRequest   = 8 << 10 // bytes
	ExchangeTime = 10 * time.Second
)

// stopTime is how long a stopping Server lets answers finish.
const stopTime = 2 * time.Second

// ServerOptions configures a Server.
type ServerOptions struct {
	// Key is the identity key of this host, which tokens name.
	Key ed25519.PrivateKey
	// Listener accepts plain TCP on the underlay; Onion, optional, what comes
	// through an onion service. The Server closes both.
	Listener net.Listener
	Onion    net.Listener
	Handler  http.Handler // a join.Sponsor
	// Knows reports whether an invite is this host's; optional: none is.
	Knows func(invite string) bool
	// Registerer may be nil.
	Registerer prometheus.Registerer
}

// Server serves the join port of a sponsor, over TLS.
type Server struct {
	http *http.Server
	ln   net.Listener
	// slow serves those that come through tor: the listener, if there is one, and
	// what others' doors pass on.
	slow  *http.Server
	onion net.Listener
	doors *passedOn
	// passed are the connections of doors, bounded.
	passed net.Listener
}

// torTimes is how much longer the times are of a connection through tor.
const torTimes = 4

// NewServer returns a Server that does not accept yet.
func NewServer(o ServerOptions) (*Server, error) {
	if o.Key == nil || o.Listener == nil || o.Handler == nil {
		return nil, errors.New("new join server: key, listener and handler are required")
	}
	conf, err := ServerTLS(o.Key)
	if err != nil {
		return nil, fmt.Errorf("new join server: %w", err)
	}
	refused := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "skein_join_connections_refused_total", Help: "Connections to the join port that were closed for being too many, by reason: of one source, or at all.",
	}, []string{"reason"})
	for _, reason := range reasons() {
		refused.WithLabelValues(reason)
	}
	if o.Registerer != nil {
		if err := o.Registerer.Register(refused); err != nil {
			return nil, fmt.Errorf("new join server: %w", err)
		}
	}
	serve := func(times time.Duration) *http.Server {
		return &http.Server{
			Handler:           o.Handler,
			ConnContext:       connContext,
			ConnState:         connState,
			ReadHeaderTimeout: times * ExchangeTime / 2,
			ReadTimeout:       times * ExchangeTime,
			WriteTimeout:      2 * times * ExchangeTime,
			IdleTimeout:       ExchangeTime / 2,
			MaxHeaderBytes:    MaxRequest,
			// OPTIONS * is answered like all else.
			DisableGeneralOptionsHandler: true,
			ErrorLog:                     log.New(io.Discard, "", 0), // scanners; the sponsor counts what matters
		}
	}
	s := &Server{
		http: serve(1), ln: limit(o.Listener, conf, refused), slow: serve(torTimes),
		doors: newPassedOn(o.Listener.Addr(), o.Knows),
	}
	if o.Onion != nil {
		s.onion = limit(o.Onion, conf, refused)
	}
	s.passed = limit(s.doors, conf, refused)
	return s, nil
}

// ServeDoor serves a stream of Proto, from another member or from this host.
// It returns when the join is over.
func (s *Server) ServeDoor(ctx context.Context, _ cluster.NodeID, conn net.Conn) {
	s.doors.Serve(ctx, conn)
}

// Run serves until ctx ends, then lets answers finish and closes the listeners.
func (s *Server) Run(ctx context.Context) error {
	done := make(chan struct{}) // closed when the servers are shut down
	served := make(chan struct{})
	go func() {
		defer close(done)
		select {
		case <-ctx.Done():
		case <-served:
		}
		stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTime)
		defer cancel()
		for _, h := range []*http.Server{s.http, s.slow} {
			if h.Shutdown(stop) != nil {
				_ = h.Close() // what is left is cut
			}
		}
	}()
	var others sync.WaitGroup
	others.Go(func() { _ = s.slow.Serve(s.passed) }) // ends by the shutdown only
	if s.onion != nil {
		others.Go(func() { _ = s.slow.Serve(s.onion) }) // direct joins go on without
	}
	err := s.http.Serve(s.ln)
	close(served)
	<-done
	others.Wait()
	if ctx.Err() != nil && errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return fmt.Errorf("serve joins on %s: %w", s.ln.Addr(), err)
}
