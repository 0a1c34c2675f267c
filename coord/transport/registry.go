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
func (s *registry) start(ctx context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ctx = ctx
}

// stop lets no stream begin any more and closes all.
func (s *registry) stop() {
	s.mu.Lock()
	s.stopped = true
	open := make([]net.Conn, 0, len(s.conns)+len(s.pending))
	for c := range s.conns {
		open = append(open, c.Conn)
	}
	for c := range s.pending {
		open = append(open, c)
	}
	s.mu.Unlock()
	for _, c := range open {
		_ = rawConn(c).Close() // ends the handler's reads and writes
	}
}

// handle registers the handler of proto; a second one replaces the first.
func (s *registry) handle(proto string, h Handler) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.handlers[proto] = h
}

func (s *registry) handler(proto string) (Handler, context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return nil, nil
	}
	return s.handlers[proto], s.ctx
}

func (s *registry) protos() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]string, 0, len(s.handlers))
	for p := range s.handlers {
		out = append(out, p)
	}
	slices.Sort(out)
	return out
}

// spawn starts f unless shutdown has begun; run waits for it.
func (s *registry) spawn(f func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return false
	}
	s.wg.Go(f)
	return true
}

// begin notes a connection in handshake, so that shut closes it.
func (s *registry) begin(c net.Conn) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped || s.ctx == nil {
		return ErrStopped
	}
	s.pending[c] = struct{}{}
	return nil
}

func (s *registry) end(c net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.pending, c)
}

// shakes counts a handshake that a host began or ended; it reports whether one
// more may begin.
func (s *registry) shakes(node cluster.NodeID, by int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if by > 0 && s.hands[node] >= maxPeerHandshakes {
		return false
	}
	if s.hands[node] += by; s.hands[node] == 0 {
		delete(s.hands, node)
	}
	return true
}

func (s *registry) reserve(key streamKey) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.stopped || s.ctx == nil:
		return ErrStopped
	case s.counts[key] >= maxPeerStreams || len(s.conns) >= maxStreams:
		return ErrBusy
	}
	s.counts[key]++
	return nil
}

func (s *registry) unreserve(key streamKey) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.countDownLocked(key)
}

func (s *registry) countDownLocked(key streamKey) {
	if s.counts[key]--; s.counts[key] <= 0 {
		delete(s.counts, key)
	}
}

// register makes conn one that counts and that shutdown or removal closes.
func (s *registry) register(conn net.Conn, key streamKey, pub ed25519.PublicKey) (*streamConn, error) {
	c := &streamConn{Conn: conn, key: key, pub: pub, owner: s}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.stopped || s.ctx == nil:
		return nil, ErrStopped
	case s.counts[key] >= maxPeerStreams || len(s.conns) >= maxStreams:
		return nil, fmt.Errorf("stream of %s: %w", key.node, ErrBusy)
	case !s.dir.Load().Same(key.node, pub):
		return nil, ErrNotMember // removed during the handshake
	}
	s.counts[key]++
	s.conns[c] = struct{}{}
	s.m.streamsOpen.Set(float64(len(s.conns)))
	return c, nil
}

func (s *registry) unregister(c *streamConn) {
	c.closed.Do(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.conns, c)
		s.countDownLocked(c.key)
		s.m.streamsOpen.Set(float64(len(s.conns)))
	})
}

// prune closes the streams of hosts that are no longer who they were. The
// loop calls it after it published a directory.
func (s *registry) prune(dir *Directory) {
	s.mu.Lock()
	var drop []net.Conn
	for c := range s.conns {
		if !dir.Same(c.key.node, c.pub) {
			drop = append(drop, c.Conn)
		}
	}
	s.mu.Unlock()
	for _, c := range drop {
		_ = rawConn(c).Close() // the owner's next read or write fails
	}
}

// admitNameless makes room for one more connection of which nobody knows whose
// it is: a flood of silent ones must not keep members out.
func (s *registry) admitNameless(conn net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.nameless) >= maxNameless {
		_ = s.nameless[0].Close() // its goroutine ends by that
		s.nameless = slices.Delete(s.nameless, 0, 1)
		s.m.streamErrors.WithLabelValues("busy").Inc()
	}
	s.nameless = append(s.nameless, conn)
}

func (s *registry) dropNameless(conn net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.nameless = slices.DeleteFunc(s.nameless, func(c net.Conn) bool { return c == conn })
}
