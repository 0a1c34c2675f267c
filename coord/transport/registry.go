package transport

import (
	"context"
	"crypto/ed25519"
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/skein-project/skein/cluster"
)

// registry knows every stream, open or in handshake, within its bounds, and who
// serves which protocol. Shutdown and the removal of a member close what they
// must through it.
type registry struct {
	dir *atomic.Pointer[Directory]
	m   *metrics
	wg  sync.WaitGroup // handlers and handshakes

	mu       sync.Mutex      // guards the rest
	ctx      context.Context //nolint:containedctx // of run, lent to handlers; nil before
	stopped  bool
	handlers map[string]Handler
	conns    map[*streamConn]struct{}
	pending  map[net.Conn]struct{}  // in handshake
	hands    map[cluster.NodeID]int // of those, accepted from one host
	counts   map[streamKey]int
	nameless []net.Conn // in handshake through the onion service, oldest first
}

func newRegistry(dir *atomic.Pointer[Directory], m *metrics) *registry {
	return &registry{
		dir: dir, m: m, handlers: make(map[string]Handler), conns: make(map[*streamConn]struct{}),
		pending: make(map[net.Conn]struct{}), counts: make(map[streamKey]int), hands: make(map[cluster.NodeID]int),
	}
}

type streamKey struct {
	node cluster.NodeID
	in   bool
}

// streamConn is a registered stream; closing it unregisters it.
type streamConn struct {
	net.Conn
	key    streamKey
	pub    ed25519.PublicKey
	owner  *registry
	closed sync.Once
}

// Close implements net.Conn.
func (c *streamConn) Close() error {
	c.owner.unregister(c)
	return c.Conn.Close()
}

// start lets streams begin; handlers get ctx.
func (r *registry) start(ctx context.Context) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ctx = ctx
}

// stop lets no more streams begin and closes all.
func (r *registry) stop() {
	r.mu.Lock()
	r.stopped = true
	open := make([]net.Conn, 0, len(r.conns)+len(r.pending))
	for c := range r.conns {
		open = append(open, c.Conn)
	}
	for c := range r.pending {
		open = append(open, c)
	}
	r.mu.Unlock()
	for _, c := range open {
		_ = rawConn(c).Close() // ends the handler's reads and writes
	}
}

// handle registers the handler of proto; a second one replaces the first.
func (r *registry) handle(proto string, h Handler) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.handlers[proto] = h
}

func (r *registry) handler(proto string) (Handler, context.Context) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stopped {
		return nil, nil
	}
	return r.handlers[proto], r.ctx
}

func (r *registry) protos() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make([]string, 0, len(r.handlers))
	for p := range r.handlers {
		out = append(out, p)
	}
	slices.Sort(out)
	return out
}

// spawn starts f unless stop was called; f counts in wg.
func (r *registry) spawn(f func()) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stopped {
		return false
	}
	r.wg.Go(f)
	return true
}

// begin notes a connection in handshake, so that stop closes it.
func (r *registry) begin(c net.Conn) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stopped || r.ctx == nil {
		return ErrStopped
	}
	r.pending[c] = struct{}{}
	return nil
}

func (r *registry) end(c net.Conn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.pending, c)
}

// shakes counts a handshake that a host began or ended; it reports whether one
// more may begin.
func (r *registry) shakes(node cluster.NodeID, by int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if by > 0 && r.hands[node] >= maxPeerHandshakes {
		return false
	}
	if r.hands[node] += by; r.hands[node] == 0 {
		delete(r.hands, node)
	}
	return true
}

func (r *registry) reserve(key streamKey) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.stopped || r.ctx == nil:
		return ErrStopped
	case r.counts[key] >= maxPeerStreams || len(r.conns) >= maxStreams:
		return ErrBusy
	}
	r.counts[key]++
	return nil
}

func (r *registry) unreserve(key streamKey) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.countDownLocked(key)
}

func (r *registry) countDownLocked(key streamKey) {
	if r.counts[key]--; r.counts[key] <= 0 {
		delete(r.counts, key)
	}
}

// register makes conn one that counts and that shutdown or removal closes.
func (r *registry) register(conn net.Conn, key streamKey, pub ed25519.PublicKey) (*streamConn, error) {
	c := &streamConn{Conn: conn, key: key, pub: pub, owner: r}
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.stopped || r.ctx == nil:
		return nil, ErrStopped
	case r.counts[key] >= maxPeerStreams || len(r.conns) >= maxStreams:
		return nil, fmt.Errorf("stream of %s: %w", key.node, ErrBusy)
	case !r.dir.Load().Same(key.node, pub):
		return nil, ErrNotMember // removed during the handshake
	}
	r.counts[key]++
	r.conns[c] = struct{}{}
	r.m.streamsOpen.Set(float64(len(r.conns)))
	return c, nil
}

func (r *registry) unregister(c *streamConn) {
	c.closed.Do(func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.conns, c)
		r.countDownLocked(c.key)
		r.m.streamsOpen.Set(float64(len(r.conns)))
	})
}

// prune closes the streams of hosts that are no longer who they were. The
// loop calls it after it published a directory.
func (r *registry) prune(dir *Directory) {
	r.mu.Lock()
	var drop []net.Conn
	for c := range r.conns {
		if !dir.Same(c.key.node, c.pub) {
			drop = append(drop, c.Conn)
		}
	}
	r.mu.Unlock()
	for _, c := range drop {
		_ = rawConn(c).Close() // the owner's next read or write fails
	}
}

// admitNameless makes room for one more connection of which nobody knows whose
// it is: a flood of silent ones must not keep members out.
func (r *registry) admitNameless(conn net.Conn) {
	var oldest net.Conn
	r.mu.Lock()
	if len(r.nameless) >= maxNameless {
		oldest = r.nameless[0]
		r.nameless = slices.Delete(r.nameless, 0, 1)
	}
	r.nameless = append(r.nameless, conn)
	r.mu.Unlock()
	if oldest != nil {
		_ = oldest.Close() // its goroutine ends by that
		r.m.streamErrors.WithLabelValues("busy").Inc()
	}
}

func (r *registry) dropNameless(conn net.Conn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.nameless = slices.DeleteFunc(r.nameless, func(c net.Conn) bool { return c == conn })
}
