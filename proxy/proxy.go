package proxy

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/netutil"
)

// Proxy passes connections of one listener to its targets.
type Proxy struct {
	o       Options
	targets []*target     // never changed
	turn    atomic.Uint32 // whose turn it is
}

// New checks the options.
func New(o Options) (*Proxy, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	p := &Proxy{o: o}
	for _, name := range o.Targets {
		t, err := newTarget(name, &p.o)
		if err != nil {
			return nil, err
		}
		p.targets = append(p.targets, t)
	}
	return p, nil
}

// idleConn ends when nothing came or went for too long.
type idleConn struct {
	net.Conn
	limit time.Duration
}

func (c *idleConn) Read(b []byte) (int, error) {
	if err := c.SetDeadline(time.Now().Add(c.limit)); err != nil {
		return 0, err
	}
	return c.Conn.Read(b)
}

func (c *idleConn) Write(b []byte) (int, error) {
	if err := c.SetDeadline(time.Now().Add(c.limit)); err != nil {
		return 0, err
	}
	return c.Conn.Write(b)
}

// clientConn is a client's connection. One that left HTTP ends with the proxy,
// and one that was upgraded when its client takes nothing for too long, or when
// nothing comes or goes.
type clientConn struct {
	net.Conn
	limit    time.Duration
	left     atomic.Bool
	upgraded atomic.Bool
	stop     func() bool // set before left
}

func (c *clientConn) Read(b []byte) (int, error) {
	if c.upgraded.Load() {
		if err := c.SetReadDeadline(time.Now().Add(c.limit)); err != nil {
			return 0, err
		}
	}
	return c.Conn.Read(b)
}

func (c *clientConn) Write(b []byte) (int, error) {
	if c.upgraded.Load() { // who only listens need not talk
		if err := c.SetDeadline(time.Now().Add(c.limit)); err != nil {
			return 0, err
		}
	}
	return c.Conn.Write(b)
}

func (c *clientConn) Close() error {
	if c.left.Load() {
		c.stop()
	}
	return c.Conn.Close()
}

// clientListener wraps each connection that it accepts.
type clientListener struct {
	net.Listener
	limit time.Duration
}

func (l clientListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &clientConn{Conn: c, limit: l.limit}, nil
}

// listener is where clients come from, with a bound for each circuit if tor
// names them.
func (p *Proxy) listener() net.Listener {
	if p.o.PerCircuit == 0 {
		return p.o.Listen
	}
	return circuitListener{p.o.Listen, &circuits{most: p.o.PerCircuit, refused: func() { p.o.OnCut(CutCircuit) }, open: map[netip.Addr]int{}}}
}

// Run serves until the context ends, then gives open requests a second.
func (p *Proxy) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	for _, t := range p.targets {
		defer t.transport.CloseIdleConnections()
	}
	wg.Go(func() { p.watch(ctx) })
	if p.o.Mode == ModeTCP {
		return p.serveTCP(ctx, &wg)
	}
	// Waiting connections stay in the kernel's queue.
	return p.serveHTTP(ctx, clientListener{netutil.LimitListener(p.listener(), p.o.Connections), p.o.Idle}, &wg)
}

func (p *Proxy) serveHTTP(ctx context.Context, l net.Listener, wg *sync.WaitGroup) error {
	server := &http.Server{
		Handler:           p.handler(),
		ReadHeaderTimeout: min(p.o.Idle, 30*time.Second),
		IdleTimeout:       p.o.Idle,
		MaxHeaderBytes:    p.o.Header,
		ErrorLog:          log.New(io.Discard, "", 0), // clients' errors, of which there is no end
		BaseContext:       func(net.Listener) context.Context { return ctx },
		ConnState: func(conn net.Conn, state http.ConnState) {
			if c, ok := conn.(*clientConn); ok && state == http.StateHijacked {
				c.stop = context.AfterFunc(ctx, func() { _ = c.Conn.Close() })
				c.left.Store(true)
			}
		},
	}
	wg.Go(func() {
		<-ctx.Done()
		grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		if server.Shutdown(grace) != nil {
			_ = server.Close()
		}
	})
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("proxy: %w", err)
	}
	return nil
}

// idleWriter ends an answer that the client does not take.
type idleWriter struct {
	http.ResponseWriter
	control *http.ResponseController
	limit   time.Duration
}

func (w *idleWriter) Write(p []byte) (int, error) {
	_ = w.control.SetWriteDeadline(time.Now().Add(w.limit))
	return w.ResponseWriter.Write(p)
}

// Unwrap lets a flush reach the connection.
func (w *idleWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Hijack is for an upgrade.
func (w *idleWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := w.control.Hijack()
	if c, ok := conn.(*clientConn); ok {
		c.upgraded.Store(true)
	}
	return conn, rw, err
}

// exchange is what the steps of one request share, by its context.
type exchange struct {
	names   *names      // of the target it was sent to
	stopped atomic.Bool // its body came too slowly
}

type exchangeKey struct{}

func exchangeOf(ctx context.Context) *exchange {
	e, _ := ctx.Value(exchangeKey{}).(*exchange)
	return e
}

func (p *Proxy) handler() http.Handler {
	rp := &httputil.ReverseProxy{
		Transport:     roundTripper(p.send),
		FlushInterval: -1, // streams of events must not wait for a full buffer
		ErrorLog:      log.New(io.Discard, "", 0),
		Rewrite:       func(*httputil.ProxyRequest) {}, // each target has its own names: see target.send
		ModifyResponse: func(r *http.Response) error {
			exchangeOf(r.Request.Context()).names.response(r.Header)
			return nil
		},
		ErrorHandler: p.failed,
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := http.NewResponseController(w)
		if r.ContentLength != 0 {
			// The server reads what nobody else does of a body, however long that takes.
			_ = c.SetReadDeadline(time.Now().Add(p.bodyCredit()))
		}
		if code, why := p.refuse(r); code != 0 {
			// Else the server would first wait for the rest of the body.
			w.Header().Set("Connection", "close")
			http.Error(w, why, code)
			return
		}
		if p.o.Join != nil && strings.HasPrefix(r.URL.Path, p.o.JoinPath) {
			p.o.Join.ServeHTTP(w, r)
			return
		}
		e := &exchange{}
		r = r.WithContext(context.WithValue(r.Context(), exchangeKey{}, e))
		if r.ContentLength != 0 {
			r.Body = http.MaxBytesReader(w, p.body(r.Body, c, &e.stopped), p.o.Body)
		}
		rp.ServeHTTP(&idleWriter{ResponseWriter: w, control: c, limit: p.o.Idle}, r)
	})
}

// roundTripper is a function as an http.RoundTripper.
type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// send sends a request to the target whose turn it is. One that has no body goes
// to the next if that cannot be connected to.
func (p *Proxy) send(r *http.Request) (resp *http.Response, err error) {
	targets := p.next()
	if r.Body != nil {
		targets = targets[:1]
	}
	err = p.try(r.Context(), targets, func(t *target) (err error) {
		out := r
		if len(targets) > 1 { // another one must find it as it came
			out = r.Clone(r.Context())
		}
		resp, err = t.send(out)
		return err
	})
	return resp, err
}

// refuse says with what code a request is turned away; 0: it is not.
func (p *Proxy) refuse(r *http.Request) (code int, why string) {
	switch {
	case r.Method == http.MethodConnect:
		return http.StatusMethodNotAllowed, "CONNECT is not served"
	case !p.isPublic(r.Host):
		return http.StatusMisdirectedRequest, "this host is not served here"
	case r.ContentLength > p.o.Body:
		return http.StatusRequestEntityTooLarge, p.tooLarge()
	}
	return 0, ""
}

func (p *Proxy) tooLarge() string { return fmt.Sprintf("the body has more than %d bytes", p.o.Body) }

// isPublic refuses names that this proxy does not stand for: a page elsewhere
// could point a name of its own here.
func (p *Proxy) isPublic(host string) bool {
	var public []string
	if p.o.Public != nil {
		public = p.o.Public()
	}
	return len(public) == 0 || slices.ContainsFunc(both(host), func(h string) bool {
		return slices.ContainsFunc(public, func(name string) bool { return h == name || strings.HasSuffix(h, "."+name) })
	})
}

// failed answers for a target that did not. What went wrong inside is for the
// log, not for the client.
func (p *Proxy) failed(w http.ResponseWriter, r *http.Request, err error) {
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		http.Error(w, p.tooLarge(), http.StatusRequestEntityTooLarge)
		return
	}
	if exchangeOf(r.Context()).stopped.Load() {
		p.o.OnCut(CutBody)
		w.Header().Set("Connection", "close")
		http.Error(w, "the body came too slowly", http.StatusRequestTimeout)
		return
	}
	if r.Context().Err() != nil {
		return // the client is gone
	}
	p.o.Log.Debug().Err(err).Str("component", "proxy").Msg("target failed a request")
	if timeout, ok := errors.AsType[net.Error](err); ok && timeout.Timeout() {
		http.Error(w, "the service did not answer in time", http.StatusGatewayTimeout)
		return
	}
	http.Error(w, "the service is not reachable", http.StatusBadGateway)
}
