package join

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// stopTime is how long a stopping Server lets answers finish.
const stopTime = 2 * time.Second

// ServerOptions configures a Server.
type ServerOptions struct {
	Identity *Identity
	// Listener accepts plain TCP on the underlay; the Server closes it.
	Listener net.Listener
	Handler  http.Handler // a Sponsor
	// Registerer may be nil.
	Registerer prometheus.Registerer
}

// Server serves a Sponsor over TLS.
type Server struct {
	http *http.Server
	ln   net.Listener
}

// NewServer returns a Server that does not accept yet.
func NewServer(o ServerOptions) (*Server, error) {
	if o.Identity == nil || o.Listener == nil || o.Handler == nil {
		return nil, errors.New("new join server: identity, listener and handler are required")
	}
	conf, err := serverTLS(o.Identity)
	if err != nil {
		return nil, fmt.Errorf("new join server: %w", err)
	}
	refused := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "skein_join_connections_refused_total", Help: "Connections to the join port that were closed for being too many, by reason: of one source, or at all.",
	}, []string{"reason"})
	for _, reason := range []string{closedSource, closedFull} {
		refused.WithLabelValues(reason)
	}
	if o.Registerer != nil {
		if err := o.Registerer.Register(refused); err != nil {
			return nil, fmt.Errorf("new join server: %w", err)
		}
	}
	ln := newLimited(o.Listener, conf, refused)
	return &Server{
		http: &http.Server{
			Handler:           o.Handler,
			ConnState:         ln.state,
			ReadHeaderTimeout: exchangeTime / 2,
			ReadTimeout:       exchangeTime,
			WriteTimeout:      2 * exchangeTime,
			IdleTimeout:       exchangeTime / 2,
			MaxHeaderBytes:    maxRequest,
			// OPTIONS * is answered like all else.
			DisableGeneralOptionsHandler: true,
			ErrorLog:                     log.New(io.Discard, "", 0), // scanners; the sponsor counts what matters
		},
		ln: ln,
	}, nil
}

// Run serves until ctx ends, then lets answers finish and closes the listener.
func (s *Server) Run(ctx context.Context) error {
	done := make(chan struct{}) // closed when the server is shut down
	served := make(chan struct{})
	go func() {
		defer close(done)
		select {
		case <-ctx.Done():
		case <-served:
		}
		stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTime)
		defer cancel()
		if s.http.Shutdown(stop) != nil {
			_ = s.http.Close() // what is left is cut
		}
	}()
	err := s.http.Serve(s.ln)
	close(served)
	<-done
	if ctx.Err() != nil && errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return fmt.Errorf("serve joins on %s: %w", s.ln.Addr(), err)
}
