package h2

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/skein-project/skein/load/h1"
)

// Dial makes a connection for the request of a context, with TLS or without.
type Dial func(ctx context.Context, secure bool) (net.Conn, netip.Addr, error)

// Client has connections of HTTP/2. Its methods may be called from any goroutine. An origin is
// whatever tells those apart to which requests go.
type Client struct {
	dial Dial
	mu   sync.Mutex
	tr   *http.Transport
	old  []*http.Transport // whose connections get no new requests
	to   map[any]*origin
}

// origin is what is known of one.
type origin struct {
	ready []net.Conn // made when TLS agreed on HTTP/2
	gen   uint64     // of its addresses
	addrs []netip.Addr
}

// New returns a Client without connections.
func New(dial Dial) *Client {
	c := &Client{dial: dial, to: map[any]*origin{}}
	c.tr = c.transport()
	return c
}

func (c *Client) transport() *http.Transport {
	var p http.Protocols
	p.SetHTTP2(true)
	p.SetUnencryptedHTTP2(true)
	return &http.Transport{
		Protocols: &p, DisableCompression: true, MaxResponseHeaderBytes: h1.MaxHead,
		DialContext:    func(ctx context.Context, _, _ string) (net.Conn, error) { return c.connect(ctx, false) },
		DialTLSContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return c.connect(ctx, true) },
	}
}

// originKey finds in a context to which origin its request goes.
type originKey struct{}

// connect has a connection to the origin of a request: one that is ready, or a new one.
func (c *Client) connect(ctx context.Context, secure bool) (net.Conn, error) {
	to := ctx.Value(originKey{})
	if secure {
		if raw := c.take(to); raw != nil {
			return raw, nil
		}
	}
	raw, addr, err := c.dial(ctx, secure)
	if err == nil {
		c.with(to, func(o *origin) { o.note(addr) })
	}
	return raw, err
}

// with has f look at an origin, or change it.
func (c *Client) with(to any, f func(o *origin)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.to[to] == nil {
		c.to[to] = &origin{}
	}
	f(c.to[to])
}

func (o *origin) note(addr netip.Addr) {
	if !slices.Contains(o.addrs, addr) {
		o.addrs = append(o.addrs, addr)
	}
}

// Hand gives it a connection to an origin on which TLS has agreed on HTTP/2.
func (c *Client) Hand(to any, raw net.Conn, addr netip.Addr) {
	c.with(to, func(o *origin) {
		o.note(addr)
		o.ready = append(o.ready, raw)
	})
}

func (c *Client) take(to any) (raw net.Conn) {
	c.with(to, func(o *origin) {
		if n := len(o.ready); n > 0 {
			raw, o.ready = o.ready[n-1], o.ready[:n-1]
		}
	})
	return raw
}

// Connections that get no new requests are closed when none is under way: each oldTime is looked, for
// as often as oldLooks, by when one has had its answer, or no time any more.
const (
	oldTime  = 30 * time.Second
	oldLooks = 20
)

// Keep takes in the addresses that an origin has by now, if they are of another generation than the
// last time: where a connection leads to one that is gone, requests go over new ones.
func (c *Client) Keep(to any, gen uint64, addrs func() []netip.Addr) {
	same := false
	c.with(to, func(o *origin) { same, o.gen = o.gen == gen, gen })
	if same {
		return
	}
	now, old := addrs(), (*http.Transport)(nil)
	c.with(to, func(o *origin) {
		if slices.ContainsFunc(o.addrs, func(a netip.Addr) bool { return !slices.Contains(now, a) }) {
			old, c.tr = c.tr, c.transport()
			c.old = append(c.old, old)
			for _, o := range c.to {
				o.addrs = nil
			}
		}
	})
	if old != nil {
		c.retire(old, oldLooks)
	}
}

// retire closes what is idle of a transport that gets no new requests, now and later.
func (c *Client) retire(old *http.Transport, looks int) {
	old.CloseIdleConnections()
	if looks > 0 {
		time.AfterFunc(oldTime, func() { c.retire(old, looks-1) })
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.old = slices.DeleteFunc(c.old, func(tr *http.Transport) bool { return tr == old })
}

// Do sends a request to an origin, once.
func (c *Client) Do(to any, req *http.Request) (*http.Response, error) {
	c.mu.Lock()
	tr := c.tr
	c.mu.Unlock()
	return tr.RoundTrip(req.WithContext(context.WithValue(req.Context(), originKey{}, to)))
}

// Close closes the connections on which no request is under way.
func (c *Client) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, tr := range append(slices.Clone(c.old), c.tr) {
		tr.CloseIdleConnections()
	}
	for _, o := range c.to {
		for _, raw := range o.ready {
			raw.Close()
		}
		o.ready = nil
	}
}
