package join

import (
	"context"
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
	"github.com/skein-project/skein/coord/join/door"
)

// stopTime is how long a stopping Server lets answers finish.
const stopTime = 2 * time.Second

// ServerOptions configures a Server.
type ServerOptions struct {
	Identity *Identity
	// Listener accepts plain TCP on the underlay; Onion, optional, what comes
	// through an onion service. The Server closes both.
	Listener net.Listener
	Onion    net.Listener
	Handler  http.Handler // a Sponsor
	// Knows reports whether an invite is this host's; optional: none is.
	Knows func(invite string) bool
	// Registerer may be nil.
	Registerer prometheus.Registerer
}

// Server serves a Sponsor over TLS.
type Server struct {
	http *http.Server
	ln   net.Listener
	// slow serves those that come through tor: the listener, if there is one, and
	// what others' doors pass on.
	slow  *http.Server
	onion net.Listener
	doors *door.Listener
	// passed are the connections of doors, bounded.
	passed net.Listener
}

// torTimes is how much longer the times are of a connection through tor.
const torTimes = 4

// NewServer returns a Server that does not accept yet.
func NewServer(o ServerOptions) (*Server, error) {
	if o.Identity == nil || o.Listener == nil || o.Handler == nil {
		return nil, errors.New("new join server: identity, listener and handler are required")
	}
	conf, err := door.ServerTLS(o.Identity.IDKey())
	if err != nil {
		return nil, fmt.Errorf("new join server: %w", err)
	}
	refused := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "skein_join_connections_refused_total", Help: "Connections to the join port that were closed for being too many, by reason: of one source, or at all.",
	}, []string{"reason"})
	for _, reason := range door.Reasons() {
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
			ConnContext:       door.ConnContext,
			ConnState:         door.ConnState,
			ReadHeaderTimeout: times * exchangeTime / 2,
			ReadTimeout:       times * exchangeTime,
			WriteTimeout:      2 * times * exchangeTime,
			IdleTimeout:       exchangeTime / 2,
			MaxHeaderBytes:    maxRequest,
			// OPTIONS * is answered like all else.
			DisableGeneralOptionsHandler: true,
			ErrorLog:                     log.New(io.Discard, "", 0), // scanners; the sponsor counts what matters
		}
	}
	s := &Server{
		http: serve(1), ln: door.Limit(o.Listener, conf, refused), slow: serve(torTimes),
		doors: door.Listen(o.Listener.Addr(), o.Knows),
	}
	if o.Onion != nil {
		s.onion = door.Limit(o.Onion, conf, refused)
	}
	s.passed = door.Limit(s.doors, conf, refused)
	return s, nil
}

// ServeDoor serves a stream of door.Proto, from another member or from this host.
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
