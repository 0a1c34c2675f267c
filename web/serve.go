package web

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/skein-project/skein/api"
)

// maxConnections bounds those of a door at once.
const maxConnections = 64

// Lazily is a handler that is made when it is first asked for: a daemon that nobody
// looks at keeps nothing for it.
func Lazily(options func() Options) http.Handler {
	made := sync.OnceValues(func() (http.Handler, error) { return New(options()) })
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h, err := made()
		if err != nil {
			refuse(w, api.Errorf(api.CodeInternal, "%s", err))
			return
		}
		h.ServeHTTP(w, r)
	})
}

// Server is one of h, for who may be anybody.
func Server(h http.Handler) *http.Server {
	return &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 32 << 10}
}

// Serve serves h until ctx ends. Then it cuts whoever reads.
func Serve(ctx context.Context, l net.Listener, h http.Handler) error {
	s := Server(h)
	stop := context.AfterFunc(ctx, func() { _ = s.Close() })
	defer stop()
	if err := s.Serve(&limited{Listener: l, places: make(chan struct{}, maxConnections)}); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve the page: %w", err)
	}
	return nil
}

// limited accepts no connection while as many are open as there are places.
type limited struct {
	net.Listener
	places chan struct{} // capacity: all; one in it for each connection
}

// Accept implements net.Listener. It waits for a place; the sockets of those who wait lie
// with the kernel.
func (l *limited) Accept() (net.Conn, error) {
	l.places <- struct{}{} // every connection ends: the server has deadlines
	c, err := l.Listener.Accept()
	if err != nil {
		<-l.places
		return nil, err
	}
	return &placed{Conn: c, leave: sync.OnceFunc(func() { <-l.places })}, nil
}

// placed is a connection that has a place until it is closed.
type placed struct {
	net.Conn
	leave func()
}

// Close implements net.Conn.
func (c *placed) Close() error {
	defer c.leave()
	return c.Conn.Close()
}
