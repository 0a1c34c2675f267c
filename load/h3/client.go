package h3

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/netip"
	"slices"
	"sync"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"

	"github.com/skein-project/skein/load/h1"
)

// Dial makes a connection for the request of a context.
type Dial func(ctx context.Context) (*quic.Conn, netip.Addr, error)

// Client has connections. Its methods may be called from any goroutine. An origin is whatever tells
// those apart to which requests go.
type Client struct {
	dial Dial
	tr   http3.Transport
	mu   sync.Mutex
	to   map[any]*origin
}

// origin is what is known of one.
type origin struct {
	conn   *conn   // nil: none
	flight *flight // nil: nobody makes one
	gen    uint64  // of its addresses
}

// flight is a connection that somebody makes, and others wait for.
type flight struct {
	done chan struct{}
	err  error
}

// conn is one to an origin. Client.mu guards it.
type conn struct {
	*http3.ClientConn
	addr netip.Addr
	used int  // requests that are under way
	old  bool // it gets no new ones, and is closed behind the last
}

// New returns a Client without connections.
func New(dial Dial) *Client {
	return &Client{dial: dial, tr: http3.Transport{DisableCompression: true, MaxResponseHeaderBytes: h1.MaxHead}, to: map[any]*origin{}}
}

func (c *Client) at(to any) *origin {
	if c.to[to] == nil {
		c.to[to] = &origin{}
	}
	return c.to[to]
}

// Do sends a request to an origin, once. Errors of connections and streams that Fault knows stay in
// what it returns.
func (c *Client) Do(to any, req *http.Request) (*http.Response, error) {
	k, err := c.take(req.Context(), to)
	if err != nil {
		return nil, err
	}
	resp, err := k.RoundTrip(req)
	if err != nil {
		c.give(k)
		return nil, err
	}
	resp.Body = &body{ReadCloser: resp.Body, c: c, k: k}
	return resp, nil
}

// take is a connection to an origin for one request, which makes at most one: it goes over that, even if
// the target takes nothing on it, for else such a target would be asked for another again and again.
func (c *Client) take(ctx context.Context, to any) (*conn, error) {
	for {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		c.mu.Lock()
		o := c.at(to)
		if k := o.conn; k != nil && usable(k.ClientConn) {
			k.used++
			c.mu.Unlock()
			return k, nil
		}
		if f := o.flight; f != nil {
			c.mu.Unlock()
			select {
			case <-f.done:
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
			if f.err != nil {
				return nil, f.err
			}
			continue
		}
		f := &flight{done: make(chan struct{})}
		o.flight = f
		idle := o.retire()
		c.mu.Unlock()
		idle.close()
		raw, addr, err := c.dial(ctx)
		c.mu.Lock()
		var k *conn
		if err == nil {
			k = &conn{ClientConn: c.tr.NewClientConn(raw), addr: addr, used: 1}
			o.conn = k
		}
		if ctx.Err() == nil { // else it is about this request only
			f.err = err
		}
		o.flight = nil
		close(f.done)
		c.mu.Unlock()
		return k, err
	}
}

// ended is a context that has ended.
var ended = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

// usable reports whether a connection takes requests: it is neither closed, nor has the target said
// that it takes no more (GOAWAY), which only the attempt shows.
func usable(k *http3.ClientConn) bool {
	if k.Context().Err() != nil {
		return false
	}
	_, err := k.OpenRequestStream(ended)
	return errors.Is(err, context.Canceled)
}

// give says that a request is over.
func (c *Client) give(k *conn) {
	c.mu.Lock()
	k.used--
	done := k.old && k.used == 0
	c.mu.Unlock()
	if done {
		k.close()
	}
}

// retire has an origin without a connection, and returns it if nothing uses it: it is the caller's to
// close. Whoever uses it last closes it else.
func (o *origin) retire() *conn {
	k := o.conn
	o.conn = nil
	if k == nil {
		return nil
	}
	if k.old = true; k.used > 0 {
		return nil
	}
	return k
}

// close tells the target that it is over. A conn of nil is closed.
func (k *conn) close() {
	if k != nil {
		_ = k.CloseWithError(quic.ApplicationErrorCode(http3.ErrCodeNoError), "") // it is of no use
	}
}

// body gives its connection back when it is closed.
type body struct {
	io.ReadCloser
	c    *Client
	k    *conn
	once sync.Once
}

func (b *body) Close() error {
	err := b.ReadCloser.Close()
	b.once.Do(func() { b.c.give(b.k) })
	return err
}

// Keep takes in the addresses that an origin has by now, if they are of another generation than the
// last time: where its connection leads to one that is gone, requests go over a new one.
func (c *Client) Keep(to any, gen uint64, addrs func() []netip.Addr) {
	var idle *conn
	c.mu.Lock()
	o := c.at(to)
	if o.gen != gen {
		o.gen = gen
		if k := o.conn; k != nil && !slices.Contains(addrs(), k.addr) {
			idle = o.retire()
		}
	}
	c.mu.Unlock()
	idle.close()
}

// Close closes each connection as soon as no request is under way on it.
func (c *Client) Close() {
	c.mu.Lock()
	var idle []*conn
	for _, o := range c.to {
		idle = append(idle, o.retire())
	}
	c.mu.Unlock()
	for _, k := range idle {
		k.close()
	}
}
