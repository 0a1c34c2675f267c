package join

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"sync"
	"time"
)

// maxConns bounds the connections that a Server serves at once; further ones
// wait in the listen queue.
const maxConns = 64

// stopTime is how long a stopping Server lets answers finish.
const stopTime = 2 * time.Second

// ServerOptions configures a Server.
type ServerOptions struct {
	Identity *Identity
	// Listener accepts plain TCP on the underlay; the Server closes it.
	Listener net.Listener
	Handler  http.Handler // a Sponsor
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
	return &Server{
		http: &http.Server{
			Handler:           o.Handler,
			ReadHeaderTimeout: exchangeTime / 2,
			ReadTimeout:       exchangeTime,
			WriteTimeout:      2 * exchangeTime,
			IdleTimeout:       exchangeTime / 2,
			MaxHeaderBytes:    maxRequest,
			ErrorLog:          log.New(io.Discard, "", 0), // scanners; the sponsor counts what matters
		},
		ln: tls.NewListener(newLimited(o.Listener, maxConns), conf),
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

// limited is a listener with at most cap(slots) open connections.
type limited struct {
	net.Listener
	slots  chan struct{} // one per open connection; Accept blocks when full
	closed chan struct{} // closed once, by Close
	once   sync.Once
}

func newLimited(ln net.Listener, n int) *limited {
	return &limited{Listener: ln, slots: make(chan struct{}, n), closed: make(chan struct{})}
}

// Accept implements net.Listener.
func (l *limited) Accept() (net.Conn, error) {
	select {
	case l.slots <- struct{}{}:
	case <-l.closed:
		return nil, net.ErrClosed
	}
	c, err := l.Listener.Accept()
	if err != nil {
		<-l.slots
		return nil, err
	}
	return &limitedConn{Conn: c, slots: l.slots}, nil
}

// Close implements net.Listener.
func (l *limited) Close() error {
	l.once.Do(func() { close(l.closed) })
	return l.Listener.Close()
}

type limitedConn struct {
	net.Conn
	slots chan struct{}
	once  sync.Once
}

// Close implements net.Conn.
func (c *limitedConn) Close() error {
	c.once.Do(func() { <-c.slots })
	return c.Conn.Close()
}
