package engine

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/netip"
	"sync"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/skein-project/skein/load"
	"github.com/skein-project/skein/load/h1"
	"github.com/skein-project/skein/load/h2"
	"github.com/skein-project/skein/load/h3"
	"github.com/skein-project/skein/load/reach"
	"github.com/skein-project/skein/load/stat"
)

type tlsState = tls.ConnectionState

// multiplexed has connections on which many requests are under way at a time, of one user or of all.
type multiplexed interface {
	Keep(to any, gen uint64, addrs func() []netip.Addr)
	Do(to any, req *http.Request) (*http.Response, error)
	Close()
}

// version of HTTP that is multiplexed.
type version int

const (
	versionTwo version = iota
	versionThree
	versions // their number
)

// byVersion has the client of each version; nil: none was needed yet.
type byVersion [versions]multiplexed

func (m *byVersion) close() {
	for _, c := range m {
		if c != nil {
			c.Close()
		}
	}
}

// of is the client of a version, made if it is not there. What it dials goes through the network of the engine, and so past
// the guard.
func (m *byVersion) of(e *Engine, v version) multiplexed {
	switch {
	case m[v] != nil:
	case v == versionThree:
		m[v] = h3.New(e.dialQUIC)
	default:
		m[v] = h2.New(func(ctx context.Context, secure bool) (net.Conn, netip.Addr, error) {
			protos := []string(nil)
			if secure {
				protos = both[:1]
			}
			return e.dialFor(ctx, protos)
		})
	}
	return m[v]
}

// client is the one that a lane uses.
func (l *lane) client(o *reach.Origin, v version) multiplexed {
	c := l.u.e.byVersion[v]
	if !l.u.e.shared {
		l.u.mu.Lock()
		c = l.u.byVersion.of(l.u.e, v)
		l.u.mu.Unlock()
	}
	c.Keep(o, o.Generation(), o.Addrs)
	return c
}

// exchangeKey finds in a context what is dialled for which request.
type exchangeKey struct{}

type dialling struct {
	o        *reach.Origin
	deadline time.Time
	mu       sync.Mutex
	times    reach.Times
}

var errNobody = errors.New("a connection that no request asked for")

// dialFor makes a connection for the request of a context.
func (e *Engine) dialFor(ctx context.Context, protos []string) (net.Conn, netip.Addr, error) {
	d, ok := ctx.Value(exchangeKey{}).(*dialling)
	if !ok {
		return nil, netip.Addr{}, errNobody
	}
	raw, addr, t, err := e.net.Dial(ctx, d.o, d.deadline, protos)
	d.mu.Lock()
	d.times = t
	d.mu.Unlock()
	if err == nil && protos != nil {
		if s, is := raw.(*tls.Conn); is && s.ConnectionState().NegotiatedProtocol != "h2" {
			raw.Close()
			return nil, netip.Addr{}, &h1.Error{Class: load.Protocol, Err: errors.New("the target does not speak HTTP/2")}
		}
	}
	return raw, addr.Addr(), err
}

// dialQUIC makes a connection for the request of a context.
func (e *Engine) dialQUIC(ctx context.Context) (*quic.Conn, netip.Addr, error) {
	d, ok := ctx.Value(exchangeKey{}).(*dialling)
	if !ok {
		return nil, netip.Addr{}, errNobody
	}
	k, addr, t, err := reach.To(ctx, e.net, d.o, d.deadline, func(ctx context.Context, to netip.AddrPort, release func()) (*quic.Conn, error) {
		return h3.Connect(ctx, to, e.net.TLS(d.o, h3.Protocols), release)
	})
	d.mu.Lock()
	d.times = t
	d.mu.Unlock()
	return k, addr.Addr(), err
}

// overMultiplexed is exchange over a version of HTTP that is multiplexed.
func (l *lane) overMultiplexed(v version, o *reach.Origin, method string, st *load.Step, deadline time.Time) error {
	e := l.u.e
	if v == versionThree && !o.TLS {
		return &h1.Error{Class: load.Protocol, Err: fmt.Errorf("HTTP/3 needs https://, this is %s", o.Origin)}
	}
	d := &dialling{o: o, deadline: deadline}
	ctx, cancel := context.WithDeadline(context.WithValue(e.hard, exchangeKey{}, d), deadline)
	defer cancel()
	var wrote, first time.Time
	var mu sync.Mutex
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		WroteRequest:         func(httptrace.WroteRequestInfo) { mu.Lock(); wrote = time.Now(); mu.Unlock() },
		GotFirstResponseByte: func() { mu.Lock(); first = time.Now(); mu.Unlock() },
	})
	req, err := l.newRequest(ctx, o, method)
	if err != nil {
		return &h1.Error{Class: load.Generator, Err: err}
	}
	begin := time.Now()
	client := l.client(o, v)
	if e.each {
		defer client.Close()
	}
	resp, err := client.Do(o, req)
	d.mu.Lock()
	times := d.times // a connection that no request waits for any more may still be made
	d.mu.Unlock()
	l.dialled(o, times)
	if err != nil {
		return multiplexedError(ctx, err)
	}
	keep := st.NeedsBody || e.o.Trace != nil
	size, err := l.readBody(resp.Body, keep)
	resp.Body.Close()
	end := time.Now()
	mu.Lock()
	if !wrote.IsZero() {
		l.set(stat.Send, max(0, wrote.Sub(begin)-times.DNS-times.Connect-times.TLS))
	}
	if !first.IsZero() && !wrote.IsZero() {
		l.set(stat.FirstByte, max(0, first.Sub(wrote)))
		l.set(stat.Receive, end.Sub(first))
	}
	mu.Unlock()
	l.sample.In += uint64(size)
	l.sample.Out += uint64(len(l.body))
	if err != nil {
		return multiplexedError(ctx, err)
	}
	l.answer.proto, l.answer.status, l.answer.header, l.answer.size = resp.Proto, resp.StatusCode, resp.Header, size
	if st.Method == load.GRPC {
		return l.called(st, resp)
	}
	return nil
}

func (l *lane) newRequest(ctx context.Context, o *reach.Origin, method string) (*http.Request, error) {
	var body io.Reader
	if len(l.body) > 0 {
		body = bytes.NewReader(bytes.Clone(l.body)) // it may be sent after the answer
	}
	req, err := http.NewRequestWithContext(ctx, method, o.Origin.String()+string(l.target), body)
	if err != nil {
		return nil, fmt.Errorf("make a request: %w", err)
	}
	req.GetBody = nil // nothing is sent again
	req.Header.Set("User-Agent", l.u.e.o.Agent)
	for _, p := range l.pairs {
		value := string(l.scratch[p.begin:p.end])
		switch http.CanonicalHeaderKey(p.name) {
		case "Host":
			req.Host = value
		case "User-Agent":
			req.Header.Set(p.name, value)
		default:
			req.Header.Add(p.name, value)
		}
	}
	if l.u.e.cookies {
		l.u.mu.Lock()
		if text := l.u.jar.Append(nil, o.Origin, l.target, time.Now()); len(text) > 0 {
			req.Header.Set("Cookie", string(text))
		}
		l.u.mu.Unlock()
	}
	return req, nil
}

// readBody reads all of it, and keeps what is needed.
func (l *lane) readBody(from io.Reader, keep bool) (int64, error) {
	l.answer.body = l.answer.body[:0]
	if !keep {
		n, err := io.Copy(io.Discard, from)
		return n, err
	}
	b := bytes.NewBuffer(l.answer.body)
	n, err := io.Copy(b, io.LimitReader(from, h1.MaxBody+1))
	l.answer.body = b.Bytes()
	if err == nil && n > h1.MaxBody {
		err = &h1.Error{Class: load.TooLarge, Err: fmt.Errorf("the body has more than %d bytes", h1.MaxBody)}
	}
	return n, err
}

// multiplexedError gives an error of net/http or QUIC its class.
func multiplexedError(ctx context.Context, err error) error {
	if own, ok := errors.AsType[*h1.Error](err); ok {
		return own
	}
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return &h1.Error{Class: load.Timeout, Err: err}
	case ctx.Err() != nil:
		return &h1.Error{Class: load.Interrupted, Err: err}
	}
	class, ok := h3.Fault(err)
	if !ok {
		if class = h1.ClassOf(err); class == load.Reset && !isNet(err) {
			class = load.Protocol
		}
	}
	return &h1.Error{Class: class, Err: err}
}

func isNet(err error) bool {
	_, ok := errors.AsType[*net.OpError](err)
	return ok
}
