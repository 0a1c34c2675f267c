package reach

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

// BlockedError says that nothing may be sent to an address, which is not valid where it is not known.
type BlockedError struct {
	Addr   netip.Addr
	Reason guard.Reason
	Why    string
}

func (e *BlockedError) Error() string {
	if !e.Addr.IsValid() {
		return e.Why
	}
	return fmt.Sprintf("nothing is sent to %s: %s", e.Addr, e.Why)
}

// Origin is a place to which requests go.
type Origin struct {
	load.Origin
	mu     sync.Mutex
	addrs  []netip.Addr // nil: not resolved yet
	turn   int          // the address that worked, or whose turn it is
	public atomic.Bool
	h2     atomic.Bool
	gen    atomic.Uint64
	allowed
}

// allowed is what the list of the host says of an origin.
type allowed struct {
	Limits guard.Limits
	entry  *entry
	proved atomic.Bool
}

// entry is what all have in common that the same entry of a list allows.
type entry struct {
	limit bucket.Bucket
	// open has room for the connections that may be open at a time; nil: any number.
	open chan struct{}
}

// Options say what may be reached, and how.
type Options struct {
	Guard  guard.Guard
	Listed bool // only what List has is allowed
	List   guard.List
	Proof  string      // what targets must answer that List wants to show that they are meant
	Agent  string      // the User-Agent of the question for it
	TLS    *tls.Config // nil: with the system's roots
	Turns  bool        // each connection goes to the next address of a name
	// nil: the network of this host.
	Dial   func(ctx context.Context, to netip.AddrPort) (net.Conn, error)
	Lookup func(ctx context.Context, name string) ([]netip.Addr, error)
}

// Network makes connections. Its methods may be called from any goroutine.
type Network struct {
	o       Options
	full    atomic.Bool // somebody waited for a connection
	mu      sync.Mutex
	origins map[load.Origin]*Origin
	entries map[string]*entry // by what the host's list says
}

// New returns a Network that knows no origin yet.
func New(o Options) *Network {
	n := &Network{o: o, origins: map[load.Origin]*Origin{}, entries: map[string]*entry{}}
	if n.o.TLS == nil {
		n.o.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	if n.o.Dial == nil {
		d := &net.Dialer{Control: func(_, address string, _ syscall.RawConn) error {
			// What is about to be dialled, whoever chose it.
			at, err := netip.ParseAddrPort(address)
			if err != nil {
				return err
			}
			return n.Refuse(at.Addr())
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

// Refuse says why nothing is sent to an address, whatever it is the address of; nil: it may be.
func (n *Network) Refuse(a netip.Addr) error {
	if reason, why := n.o.Guard.Why(a); why != "" {
		return &BlockedError{a, reason, why}
	}
	return nil
}

// Origin finds or makes one.
func (n *Network) Origin(o load.Origin) (*Origin, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if got := n.origins[o]; got != nil {
		return got, nil
	}
	if len(n.origins) >= maxOrigins {
		return nil, fmt.Errorf("more than %d different targets", maxOrigins)
	}
	got := &Origin{Origin: o}
	if n.o.Listed {
		if t, err := n.o.List.Named(o.Name, o.Port); err == nil {
			if n.entries[t.Text] == nil {
				n.entries[t.Text] = &entry{}
				if t.Connections > 0 {
					n.entries[t.Text].open = make(chan struct{}, t.Connections)
				}
			}
			got.Limits, got.entry = t.Limits, n.entries[t.Text]
		}
	}
	n.origins[o] = got
	return got, nil
}

// All are the origins so far.
func (n *Network) All() []*Origin {
	n.mu.Lock()
	defer n.mu.Unlock()
	out := make([]*Origin, 0, len(n.origins))
	for _, o := range n.origins {
		out = append(out, o)
	}
	return out
}

// Resolve has addresses at hand. again asks anew.
func (n *Network) Resolve(ctx context.Context, o *Origin, again bool) (list []netip.Addr, took time.Duration, err error) {
	o.mu.Lock()
	list = o.addrs
	o.mu.Unlock()
	if list != nil && !again {
		return list, 0, nil
	}
	if a, err := netip.ParseAddr(o.Name); err == nil {
		list = []netip.Addr{a}
	} else if n.o.Listed && o.entry == nil { // a question for its addresses tells somebody the name
		return nil, 0, &BlockedError{Reason: guard.Unlisted, Why: fmt.Sprintf("load.targets has nothing for %s:%d", o.Name, o.Port)}
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

// Times are what a new connection took.
type Times struct{ DNS, Connect, TLS time.Duration }

// To has dial make a connection to an origin: to the address that worked, or whose turn it is, else
// to the others, if all that is asked of the target and its addresses allows it. What dial made calls
// release when it is closed. Errors are of type *h1.Error.
func To[C any](ctx context.Context, n *Network, o *Origin, deadline time.Time, dial func(ctx context.Context, to netip.AddrPort, release func()) (C, error)) (c C, addr netip.AddrPort, t Times, err error) {
	ctx, cancel := bounded(ctx, deadline)
	defer cancel()
	if err := n.Prove(ctx, o); err != nil {
		return c, addr, t, &h1.Error{Class: ended(ctx, load.Blocked), Err: err}
	}
	list, took, err := n.Resolve(ctx, o, false)
	t.DNS = took
	if _, blocked := errors.AsType[*BlockedError](err); blocked {
		return c, addr, t, &h1.Error{Class: load.Blocked, Err: err}
	}
	if err != nil {
		return c, addr, t, &h1.Error{Class: ended(ctx, load.DNS), Err: fmt.Errorf("resolve %s: %w", o.Name, err)}
	}
	c, addr, t.Connect, err = connect(ctx, n, o, list, dial)
	return c, addr, t, err
}

// bounded ends with what a connection may take.
func bounded(ctx context.Context, deadline time.Time) (context.Context, context.CancelFunc) {
	if until := time.Now().Add(connectTime); until.Before(deadline) {
		deadline = until
	}
	return context.WithDeadline(ctx, deadline)
}

// Dial makes a connection over TCP. Protocols are those that TLS may agree on.
func (n *Network) Dial(ctx context.Context, o *Origin, deadline time.Time, protos []string) (net.Conn, netip.AddrPort, Times, error) {
	ctx, cancel := bounded(ctx, deadline)
	defer cancel()
	raw, addr, t, err := To(ctx, n, o, deadline, n.tcp)
	if err != nil || !o.TLS {
		return raw, addr, t, err
	}
	begin := time.Now()
	secure := tls.Client(h1.Beneath(raw), n.TLS(o, protos))
	if err := secure.HandshakeContext(ctx); err != nil {
		raw.Close()
		return nil, addr, t, &h1.Error{Class: ended(ctx, h1.TLSClass(err)), Err: fmt.Errorf("TLS with %s: %w", o.Host, err)}
	}
	t.TLS = time.Since(begin)
	if secure.ConnectionState().NegotiatedProtocol == "h2" {
		o.h2.Store(true)
	}
	return secure, addr, t, nil
}

func (n *Network) tcp(ctx context.Context, to netip.AddrPort, release func()) (net.Conn, error) {
	c, err := n.o.Dial(ctx, to)
	if err != nil || release == nil {
		return c, err
	}
	return h1.Closing(c, release), nil
}

// TLS is the configuration for an origin, with the protocols that may be agreed on.
func (n *Network) TLS(o *Origin, protos []string) *tls.Config {
	cfg := n.o.TLS.Clone()
	if cfg.ServerName == "" {
		cfg.ServerName = o.Name
	}
	cfg.NextProtos = protos
	return cfg
}

// connect tries the addresses, first the one that worked or whose turn it is.
func connect[C any](ctx context.Context, n *Network, o *Origin, list []netip.Addr, dial func(ctx context.Context, to netip.AddrPort, release func()) (C, error)) (none C, addr netip.AddrPort, took time.Duration, err error) {
	o.mu.Lock()
	first := o.turn
	if n.o.Turns {
		o.turn++
	}
	o.mu.Unlock()
	tries := len(list)
	if n.o.Turns {
		tries = 1 // the others are for others
	}
	var last error
	for i := range tries {
		at := (first + i) % len(list)
		addr = netip.AddrPortFrom(list[at], o.Port)
		err := n.Refuse(list[at])
		if err == nil && n.o.Listed {
			err = n.o.List.At(o.Name, addr)
		}
		if err != nil {
			return none, addr, 0, &h1.Error{Class: load.Blocked, Err: err}
		}
		release, err := n.room(ctx, o)
		if err != nil {
			return none, addr, 0, err
		}
		begin := time.Now()
		c, err := dial(ctx, addr, release)
		if err == nil {
			if !n.o.Turns {
				o.mu.Lock()
				if at < len(o.addrs) {
					o.turn = at
				}
				o.mu.Unlock()
			}
			return c, addr, time.Since(begin), nil
		}
		if release != nil {
			release()
		}
		if last == nil || i == 0 {
			last = err
		}
		if ctx.Err() != nil {
			break
		}
	}
	return none, addr, 0, &h1.Error{Class: ended(ctx, dialClass(last)), Err: last}
}

// ended is the class of an error after the context's end: the cause is that.
func ended(ctx context.Context, otherwise load.Class) load.Class {
	if errors.Is(ctx.Err(), context.Canceled) {
		return load.Interrupted
	}
	return otherwise
}

func dialClass(err error) load.Class {
	if _, blocked := errors.AsType[*BlockedError](err); blocked {
		return load.Blocked
	}
	if own, ok := errors.AsType[*h1.Error](err); ok {
		return own.Class
	}
	return h1.DialClass(err)
}

// Refresh resolves names again until ctx ends.
func (n *Network) Refresh(ctx context.Context) {
	tick := time.NewTicker(resolveEach)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		for _, o := range n.All() {
			// One that cannot be resolved now keeps its addresses.
			_, _, _ = n.Resolve(ctx, o, true)
		}
	}
}

// Addrs are the addresses that an origin has now.
func (o *Origin) Addrs() []netip.Addr {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.addrs
}

// Generation is another number each time that the addresses have changed.
func (o *Origin) Generation() uint64 { return o.gen.Load() }

// Public reports whether an address of it is one of the internet.
func (o *Origin) Public() bool { return o.public.Load() }

// HTTP2 reports whether TLS has agreed on HTTP/2 with it.
func (o *Origin) HTTP2() bool { return o.h2.Load() }

// Spend takes one request from what the list allows of an origin in a second, which has one bucket
// for all that the same entry allows, and returns how long it must wait. The caller holds a lock.
func (o *Origin) Spend(perSecond float64, now time.Duration) time.Duration {
	return o.entry.limit.Spend(bucket.Rate{PerSecond: perSecond, Burst: max(1, perSecond/10)}, 1, now)
}

// Full reports whether anybody has waited for a connection.
func (n *Network) Full() bool { return n.full.Load() }
