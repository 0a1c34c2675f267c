package status

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/realtime"
	"github.com/skein-project/skein/status/door"
	"github.com/skein-project/skein/status/once"
	"github.com/skein-project/skein/status/openapi"
	"github.com/skein-project/skein/status/stream"
)

// Times and limits of the server.
const (
	headerTimeout = 5 * time.Second
	idleTimeout   = time.Minute
	readTimeout   = 10 * time.Second // of a request that only reads
	changeTimeout = 30 * time.Second // of one that changes something
	stallTimeout  = 15 * time.Second // without any byte of an upload or to a reader
	uploadTimeout = 10 * time.Minute
	stopGrace     = 2 * time.Second
	maxHeader     = 64 << 10 // a cursor over many sources travels in the URL
	maxUploads    = 8
)

// Server serves a Backend: it owns the listeners and their connections. New
// makes it, Run runs it once.
type Server struct {
	o         Options
	log       zerolog.Logger
	metrics   *metrics
	mux       http.Handler
	answers   *responder
	handlers  *handlers
	followers *stream.Pool
	hub       *realtime.Hub
	up        chan struct{} // closed when all listeners are open
	identify  func(conn net.Conn, group string) (door.Peer, error)
	names     *door.Names // for TCP requests
}

// New checks o and returns a Server. It opens nothing.
func New(o Options) (*Server, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	m, err := newMetrics(o.Registerer)
	if err != nil {
		return nil, fmt.Errorf("status server: %w", err)
	}
	logger := o.Log.With().Str("component", "status").Logger()
	who := door.New(door.Options{
		Cluster: o.ClusterID, Group: o.Group, Bearer: o.Bearer, Tokens: o.Tokens, Directory: o.Backend.Directory, MaxBody: maxGroupBody, Log: logger,
		Owner: o.Backend.JobOwner, Node: string(o.Backend.Header().Node), Names: o.Hosts,
		Limited: func(pace string) { m.limited.WithLabelValues(pace).Inc() },
	})
	answers := &responder{
		header: o.Backend.Header, users: o.Backend, door: who, enter: o.Enter, log: logger, requests: m.requests,
		fresh: freshness{positions: o.Backend, changed: o.Backend.Changed}, once: once.New(),
	}
	full := func() { m.limited.WithLabelValues(limitPlaces).Inc() }
	streams := stream.New(stream.Options{
		Header: o.Backend.Header, Problem: asProblem, Log: logger, Open: m.followers, Cut: m.cut, Stall: stallTimeout,
	})
	hub := realtime.New(realtime.Options{
		Boot: strings.ToLower(rand.Text()), Source: o.Backend, Log: o.Backend, Header: o.Backend.Header, Paused: o.Paused, Logger: logger,
	})
	routes := &handlers{
		o: o, backend: o.Backend, answers: answers, followers: streams, hub: hub,
		places: door.NewPlaces("followers", o.MaxFollowers, full), watches: door.NewPlaces("watches", o.MaxWatchers, full),
		uploads: door.NewPlaces("uploads", maxUploads, full), examining: make(chan struct{}, 1),
	}
	table := routes.table()
	if err := errors.Join(openapi.CheckRights(told(table)), checkLanes(table)); err != nil {
		return nil, err
	}
	s := &Server{
		o: o, log: logger, metrics: m, mux: answers.routes(table), answers: answers, handlers: routes, followers: streams, hub: hub,
		up: make(chan struct{}), identify: door.Identify, names: &door.Names{},
	}
	for _, h := range o.Hosts {
		s.names.Add(h)
	}
	return s, nil
}

// Up is closed once the listeners are open.
func (s *Server) Up() <-chan struct{} { return s.up }

// Run serves until ctx ends. Then followers are cut, running requests get a
// short grace, and the socket is removed.
func (s *Server) Run(ctx context.Context) error {
	unix, err := door.ListenUnix(s.o.Socket)
	if err != nil {
		return err
	}
	listeners := []net.Listener{unix}
	if s.o.ListenTCP != nil {
		tcp, err := s.o.ListenTCP(ctx)
		if err != nil {
			unix.Close()
			return fmt.Errorf("listen for read-only requests: %w", err)
		}
		s.names.AddAddr(tcp.Addr())
		listeners = append(listeners, tcp)
	}
	if s.o.Inside != nil {
		listeners = append(listeners, s.o.Inside)
	}
	at := s.o.API
	at.Name = string(s.o.Backend.Header().Node)
	at.Limit = func(l net.Listener) net.Listener {
		return door.NewConnLimit(l, door.MaxTogether, door.WhoConnects, s.metrics.refused.Inc)
	}
	forUsers, ends, err := at.OpenAll(ctx)
	if err != nil {
		door.CloseAll(listeners)
		return err
	}
	s.handlers.o.Endpoints = ends
	base, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	srv, users := s.httpServer(base, s.identify), s.httpServer(base, door.IdentifyUser)
	failed := make(chan error, len(listeners)+len(forUsers)) // one result each
	for _, l := range listeners {
		go func() {
			failed <- srv.Serve(door.NewConnLimit(l, door.MaxTogether, door.WhoConnects, s.metrics.refused.Inc))
		}()
	}
	for _, l := range forUsers {
		go func() { failed <- users.Serve(l) }()
	}
	close(s.up)
	s.log.Info().Str("addr", s.o.Socket).Msg("status socket open")
	var cause error
	left := len(listeners) + len(forUsers)
	select {
	case <-ctx.Done():
	case cause = <-failed:
		left--
	}
	s.followers.Stop()
	s.hub.Stop()
	grace, stop := context.WithTimeout(base, stopGrace)
	defer stop()
	if err := errors.Join(srv.Shutdown(grace), users.Shutdown(grace)); err != nil {
		cancel()
		_, _ = srv.Close(), users.Close() // what did not end in time is cut
	}
	for range left {
		if err := <-failed; cause == nil && !errors.Is(err, http.ErrServerClosed) {
			cause = err
		}
	}
	if cause != nil {
		return fmt.Errorf("status server: %w", cause)
	}
	return nil
}

func (s *Server) httpServer(base context.Context, identify func(net.Conn, string) (door.Peer, error)) *http.Server {
	return &http.Server{
		Handler:           http.HandlerFunc(s.serve),
		ReadHeaderTimeout: headerTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeader,
		BaseContext:       func(net.Listener) context.Context { return base },
		ConnContext: func(ctx context.Context, conn net.Conn) context.Context {
			p, err := identify(conn, s.o.Group)
			if err != nil {
				s.log.Warn().Err(err).Msg("peer of the socket not identified, it may only read")
			}
			return door.With(ctx, p)
		},
		ErrorLog: log.New(serverLog{s.log}, "", 0),
	}
}

// serverLog carries net/http's complaints, such as a handler's panic.
type serverLog struct{ log zerolog.Logger }

// Write implements io.Writer.
func (l serverLog) Write(p []byte) (int, error) {
	l.log.Warn().Str("err", strings.TrimSpace(string(p))).Msg("http server")
	return len(p), nil
}

// serve is the outermost handler.
func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	p := door.Of(r.Context())
	if p.Users && s.o.API.CrossOrigin(w, r) {
		return
	}
	if p.TCP && !p.Users && !p.Inside {
		if !s.names.Has(r.Host) {
			s.answers.problem(w, r, "", api.Errorf(api.CodeForbidden, "host %.100q is not served here", r.Host).
				WithHint("ask for %s: the names of status.listen", strings.Join(s.names.List(), " or ")))
			return
		}
		if s.o.Page != nil && door.OfPage(r.URL.Path) {
			s.o.Page.ServeHTTP(w, r)
			return
		}
	}
	s.mux.ServeHTTP(w, r)
}

// asProblem turns any error of a backend into what is answered.
func asProblem(err error) *api.Problem {
	var p *api.Problem
	switch {
	case errors.As(err, &p):
		copied := *p
		return &copied
	case errors.Is(err, job.ErrSpec):
		return api.Errorf(api.CodeInvalidJob, "%s", err)
	case errors.Is(err, context.DeadlineExceeded):
		return api.Errorf(api.CodeTimeout, "not done in time: %s", err)
	case errors.Is(err, context.Canceled):
		return api.Errorf(api.CodeNotReady, "the daemon stops")
	}
	return api.Errorf(api.CodeInternal, "%s", err)
}
