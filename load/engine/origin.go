package engine

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/skein-project/skein/internal/bucket"
	"github.com/skein-project/skein/load"
	"github.com/skein-project/skein/load/guard"
	"github.com/skein-project/skein/load/h1"
)

const (
	// resolveEach is how often names are resolved again with dns = "ttl".
	resolveEach = 30 * time.Second
	resolveTime = 5 * time.Second
	connectTime = 10 * time.Second
	// maxOrigins bounds those that filled templates and redirects lead to.
	maxOrigins = 4096
)

// blockedError says that nothing may be sent to an address.
type blockedError struct {
	addr   netip.Addr
	reason guard.Reason
	why    string
}

func (e *blockedError) Error() string {
	if !e.addr.IsValid() {
		return e.why
	}
	return fmt.Sprintf("nothing is sent to %s: %s", e.addr, e.why)
}

// origin is a place to which requests go.
type origin struct {
	load.Origin
	mu    sync.Mutex
	addrs []netip.Addr // nil: not resolved yet
	turn  int          // the address that worked, or whose turn it is
	idle  []*conn      // connections = "shared"
	// public: an address of it is one of the internet.
	public atomic.Bool
	h2     atomic.Bool // TLS agreed on HTTP/2
	gen    atomic.Uint64
	allowed
}

// allowed is what the list of the host says of an origin.
type allowed struct {
	limits guard.Limits
	entry  *entry
	proved atomic.Bool
}

// entry is what all have in common that the same entry of a list allows.
type entry struct {
	limit bucket.Bucket
	// open has room for the connections that may be open at a time; nil: any number.
	open chan struct{}
}

// conn is a connection to an origin.
type conn struct {
	*h1.Conn
	o    *origin
	addr netip.AddrPort
	gen  uint64
}

// network makes connections.
type network struct {
	o       Options
	tls     *tls.Config
	full    atomic.Bool // somebody waited for a connection
	mu      sync.Mutex
	origins map[load.Origin]*origin
	entries map[string]*entry // by what the host's list says
}

func newNetwork(o Options) *network {
	n := &network{o: o, tls: o.TLS, origins: map[load.Origin]*origin{}, entries: map[string]*entry{}}
	if n.tls == nil {
		n.tls = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	if n.o.Dial == nil {
		d := &net.Dialer{Control: func(_, address string, _ syscall.RawConn) error {
			// What is about to be dialled, whoever chose it.
			at, err := netip.ParseAddrPort(address)
			if err != nil {
				return err
			}
			return n.refuse(at.Addr())
		}}
		n.o.Dial = func(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
			return d.DialContext(ctx, "tcp", to.String())
		}
	}
	if n.o.Lookup == nil {
		n.o.Lookup = func(ctx context.Context, name string) ([]netip.Addr, error) {
			return net.DefaultResolver.LookupNetIP(ctx, "ip", name)
		}
	}
	return n
}

func (n *network) refuse(a netip.Addr) error {
	if reason, why := n.o.Guard.Why(a); why != "" {
		return &blockedError{a, reason, why}
	}
	return nil
}

// origin finds or makes one.
func (n *network) origin(o load.Origin) (*origin, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if got := n.origins[o]; got != nil {
		return got, nil
	}
	if len(n.origins) >= maxOrigins {
		return nil, fmt.Errorf("more than %d different targets", maxOrigins)
	}
	got := &origin{Origin: o}
	if n.o.Listed {
		if t, err := n.o.List.Named(o.Name, o.Port); err == nil {
			if n.entries[t.Text] == nil {
				n.entries[t.Text] = &entry{}
				if t.Connections > 0 {
					n.entries[t.Text].open = make(chan struct{}, t.Connections)
				}
			}
			got.limits, got.entry = t.Limits, n.entries[t.Text]
		}
	}
	n.origins[o] = got
	return got, nil
}

// all are the origins so far.
func (n *network) all() []*origin {
	n.mu.Lock()
	defer n.mu.Unlock()
	out := make([]*origin, 0, len(n.origins))
	for _, o := range n.origins {
		out = append(out, o)
	}
	return out
}

// resolve has addresses at hand. again asks anew.
func (n *network) resolve(ctx context.Context, o *origin, again bool) (list []netip.Addr, took time.Duration, err error) {
	o.mu.Lock()
	list = o.addrs
	o.mu.Unlock()
	if list != nil && !again {
		return list, 0, nil
	}
	if a, err := netip.ParseAddr(o.Name); err == nil {
		list = []netip.Addr{a}
	} else if n.o.Listed && o.entry == nil { // a question for its addresses tells somebody the name
		return nil, 0, &blockedError{reason: guard.Unlisted, why: fmt.Sprintf("load.targets has nothing for %s:%d", o.Name, o.Port)}
	} else {
		begin := time.Now()
		ctx, cancel := context.WithTimeout(ctx, resolveTime)
		defer cancel()
		list, err = n.o.Lookup(ctx, o.Name)
		took = time.Since(begin)
		if err != nil {
			return nil, took, err
		}
		if len(list) == 0 {
			return nil, took, fmt.Errorf("%s has no address", o.Name)
		}
	}
	for i := range list {
		list[i] = list[i].Unmap()
		if guard.Public(list[i]) {
			o.public.Store(true)
		}
	}
	o.mu.Lock()
	if !slices.Equal(o.addrs, list) {
		o.addrs, o.turn = list, 0
		o.gen.Add(1)
	}
	o.mu.Unlock()
	return list, took, nil
}

// dialTimes are what a new connection took.
type dialTimes struct{ dns, connect, tls time.Duration }

// dial makes a connection. Protocols are those that TLS may agree on.
func (n *network) dial(ctx context.Context, o *origin, deadline time.Time, protos []string) (net.Conn, netip.AddrPort, dialTimes, error) {
	var t dialTimes
	if until := time.Now().Add(connectTime); until.Before(deadline) {
		deadline = until
	}
	ctx, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	if err := n.prove(ctx, o); err != nil {
		return nil, netip.AddrPort{}, t, &h1.Error{Class: ended(ctx, load.Blocked), Err: err}
	}
	list, took, err := n.resolve(ctx, o, false)
	t.dns = took
	if _, blocked := errors.AsType[*blockedError](err); blocked {
		return nil, netip.AddrPort{}, t, &h1.Error{Class: load.Blocked, Err: err}
	}
	if err != nil {
		return nil, netip.AddrPort{}, t, &h1.Error{Class: ended(ctx, load.DNS), Err: fmt.Errorf("resolve %s: %w", o.Name, err)}
	}
	raw, addr, took, err := n.connect(ctx, o, list)
	t.connect = took
	if err != nil || !o.TLS {
		return raw, addr, t, err
	}
	cfg := n.tls.Clone()
	if cfg.ServerName == "" {
		cfg.ServerName = o.Name
	}
	cfg.NextProtos = protos
	begin := time.Now()
	secure := tls.Client(h1.Beneath(raw), cfg)
	if err := secure.HandshakeContext(ctx); err != nil {
		raw.Close()
		return nil, addr, t, &h1.Error{Class: ended(ctx, h1.TLSClass(err)), Err: fmt.Errorf("TLS with %s: %w", o.Host, err)}
	}
	t.tls = time.Since(begin)
	return secure, addr, t, nil
}

// connect tries the addresses, first the one that worked or whose turn it is.
func (n *network) connect(ctx context.Context, o *origin, list []netip.Addr) (net.Conn, netip.AddrPort, time.Duration, error) {
	turns := n.o.Plan.HTTP.DNS == "round-robin"
	o.mu.Lock()
	first := o.turn
	if turns {
		o.turn++
	}
	o.mu.Unlock()
	tries := len(list)
	if turns {
		tries = 1 // the others are for others
	}
	var addr netip.AddrPort
	var last error
	for i := range tries {
		at := (first + i) % len(list)
		addr = netip.AddrPortFrom(list[at], o.Port)
		err := n.refuse(list[at])
		if err == nil && n.o.Listed {
			err = n.o.List.At(o.Name, addr)
		}
		if err != nil {
			return nil, addr, 0, &h1.Error{Class: load.Blocked, Err: err}
		}
		release, err := n.room(ctx, o)
		if err != nil {
			return nil, addr, 0, err
		}
		begin := time.Now()
		c, err := n.o.Dial(ctx, addr)
		if err != nil {
			release()
		} else {
			c = counted(c, o, release)
			if !turns {
				o.mu.Lock()
				if at < len(o.addrs) {
					o.turn = at
				}
				o.mu.Unlock()
			}
			return c, addr, time.Since(begin), nil
		}
		if last == nil || i == 0 {
			last = err
		}
		if ctx.Err() != nil {
			break
		}
	}
	return nil, addr, 0, &h1.Error{Class: ended(ctx, dialClass(last)), Err: last}
}

// ended is the class of an error after the context's end: the cause is that.
func ended(ctx context.Context, otherwise load.Class) load.Class {
	if errors.Is(ctx.Err(), context.Canceled) {
		return load.Interrupted
	}
	return otherwise
}

func dialClass(err error) load.Class {
	if _, blocked := errors.AsType[*blockedError](err); blocked {
		return load.Blocked
	}
	return h1.DialClass(err)
}

// gone reports whether the address of a connection is none of its origin any more.
func (c *conn) gone() bool {
	gen := c.o.gen.Load()
	if gen == c.gen {
		return false
	}
	c.o.mu.Lock()
	defer c.o.mu.Unlock()
	c.gen = gen
	return !slices.Contains(c.o.addrs, c.addr.Addr())
}

// refresh resolves names again until ctx ends.
func (n *network) refresh(ctx context.Context) {
	tick := time.NewTicker(resolveEach)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		for _, o := range n.all() {
			// One that cannot be resolved now keeps its addresses.
			_, _, _ = n.resolve(ctx, o, true)
		}
	}
}

// now are the addresses that an origin has.
func (o *origin) now() []netip.Addr {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.addrs
}

// takeIdle is a shared connection that nobody uses.
func (o *origin) takeIdle() *conn {
	o.mu.Lock()
	defer o.mu.Unlock()
	n := len(o.idle)
	if n == 0 {
		return nil
	}
	c := o.idle[n-1]
	o.idle = o.idle[:n-1]
	return c
}

func (o *origin) putIdle(c *conn) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.idle = append(o.idle, c)
}

func (o *origin) closeIdle() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, c := range o.idle {
		c.Close()
	}
	o.idle = nil
}
