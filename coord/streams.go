package coord

import (
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/skein-project/skein/cluster"
)

// Bounds of streams.
const (
	handshakeTimeout = 5 * time.Second
	maxStreams       = 512 // of all peers
	maxPeerStreams   = 48  // of one peer, each direction counted for itself
	maxHandshakes    = 64  // accepted and not yet known who it is
	// maxPeerHandshakes is of those from one address: a host that begins many
	// and ends none keeps nobody else out.
	maxPeerHandshakes = 16
	// onionHandshake is for a stream over onion services. Anybody who knows the
	// address may begin one; above maxNameless of those that are not known yet
	// the oldest is closed.
	onionHandshake = 20 * time.Second
	maxNameless    = 32
)

// Handler serves one stream of a member until it returns or ctx ends; the
// stream is closed afterwards.
type Handler func(ctx context.Context, from cluster.NodeID, conn net.Conn)

// streams is the mesh's TCP port: TLS 1.3 between identity keys, the protocol
// chosen by ALPN.
type streams struct {
	self     cluster.NodeID
	port     uint16
	listener net.Listener
	dialTCP  func(context.Context, netip.AddrPort) (net.Conn, error)
	fallback *Fallback // optional
	detoured func(cluster.NodeID) bool
	cert     tls.Certificate
	dir      *atomic.Pointer[directory]
	m        *metrics
	log      zerolog.Logger
	logGate  *logGate
	wg       sync.WaitGroup // handlers and handshakes; waited for by run

	mu       sync.Mutex
	ctx      context.Context // of run; nil before, ended after
	stopped  bool
	handlers map[string]Handler
	conns    map[*streamConn]struct{}
	pending  map[net.Conn]struct{}  // in handshake
	hands    map[cluster.NodeID]int // of those, accepted from one host
	counts   map[streamKey]int
	nameless []net.Conn // in handshake through the onion service, oldest first
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
	owner  *streams
	closed sync.Once
}

// Close implements net.Conn.
func (c *streamConn) Close() error {
	c.owner.unregister(c)
	return c.Conn.Close()
}

// handle registers the handler of proto; a second one replaces the first.
func (s *streams) handle(proto string, h Handler) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.handlers[proto] = h
}

func (s *streams) handler(proto string) (Handler, context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return nil, nil
	}
	return s.handlers[proto], s.ctx
}

func (s *streams) protos() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]string, 0, len(s.handlers))
	for p := range s.handlers {
		out = append(out, p)
	}
	slices.Sort(out)
	return out
}

// run accepts until ctx ends; then it closes every stream and waits for their
// handlers.
func (s *streams) run(ctx context.Context) error {
	s.mu.Lock()
	s.ctx = ctx
	s.mu.Unlock()
	stop := context.AfterFunc(ctx, s.shut)
	defer func() {
		stop()
		s.shut()
		s.wg.Wait()
	}()
	if s.fallback != nil && s.fallback.Listener != nil {
		s.wg.Go(func() { s.acceptOnion(ctx) })
	}
	tokens := make(chan struct{}, maxHandshakes)
	return s.acceptAll(ctx, s.listener, func(conn net.Conn) {
		select {
		case tokens <- struct{}{}:
		default:
			s.m.streamErrors.WithLabelValues("busy").Inc()
			_ = conn.Close() // refused
			return
		}
		s.wg.Go(func() { s.accept(ctx, conn, s.handshakeIn, func() { <-tokens }) })
	})
}

// acceptAll hands over what a listener accepts until ctx ends.
func (s *streams) acceptAll(ctx context.Context, l net.Listener, serve func(net.Conn)) error {
	for {
		conn, err := l.Accept()
		if ctx.Err() != nil {
			if err == nil {
				_ = conn.Close() // came too late
			}
			return nil
		}
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
				return fmt.Errorf("accept streams: %w", err)
			}
			// Out of descriptors or the like: let others go on.
			s.m.streamErrors.WithLabelValues("accept").Inc()
			if err := pause(ctx, 50*time.Millisecond); err != nil {
				return nil
			}
			continue
		}
		serve(conn)
	}
}

// shut closes the listener and every stream.
func (s *streams) shut() {
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
	_ = s.listener.Close() // ends Accept; a second Close is harmless
	if s.fallback != nil && s.fallback.Listener != nil {
		_ = s.fallback.Listener.Close() // likewise
	}
	for _, c := range open {
		_ = rawConn(c).Close() // ends the handler's reads and writes
	}
}

// rawConn is the transport under c: closing it never waits for a writer, as
// TLS would.
func rawConn(c net.Conn) net.Conn {
	if t, ok := c.(*tls.Conn); ok {
		return t.NetConn()
	}
	return c
}

// accept finds out who conn is, by shake, and serves it. done gives back the
// place among the handshakes.
func (s *streams) accept(
	ctx context.Context, conn net.Conn, shake func(context.Context, net.Conn) (*streamConn, string, error), done func(),
) {
	release := sync.OnceFunc(done)
	defer release()
	c, proto, err := shake(ctx, conn)
	if err != nil {
		_ = conn.Close() // refused
		reason := "handshake"
		switch {
		case errors.Is(err, ErrNotMember):
			reason = "not_member"
		case errors.Is(err, ErrIdentity):
			reason = "identity"
		case errors.Is(err, ErrBusy):
			reason = "busy"
		}
		s.m.streamErrors.WithLabelValues(reason).Inc()
		if s.logGate.pass("stream/" + reason) {
			s.log.Warn().Err(err).Stringer("addr", conn.RemoteAddr()).Msg("stream refused")
		}
		return
	}
	release()
	h, _ := s.handler(proto)
	if h != nil {
		s.m.streams.WithLabelValues(proto, "in").Inc()
		h(ctx, c.key.node, c)
	}
	_ = c.Close() // the handler may have closed it
}

func (s *streams) handshakeIn(ctx context.Context, conn net.Conn) (*streamConn, string, error) {
	from, ok := connAddr(conn)
	dir := s.dir.Load()
	node, known := dir.byAddr[from]
	if !ok || !known || node == s.self {
		return nil, "", fmt.Errorf("stream from %s: %w", conn.RemoteAddr(), ErrNotMember)
	}
	if err := s.begin(conn); err != nil {
		return nil, "", err
	}
	defer s.end(conn)
	if !s.shakes(node, 1) {
		return nil, "", fmt.Errorf("handshakes of %s: %w", node, ErrBusy)
	}
	defer s.shakes(node, -1)
	var pub ed25519.PublicKey
	cfg := tlsBase(s.cert, func(got ed25519.PublicKey) error {
		if !dir.same(node, got) {
			return fmt.Errorf("key at %s is not %s: %w", from, node, ErrIdentity)
		}
		pub = got
		return nil
	})
	cfg.NextProtos = s.protos()
	t := tls.Server(conn, cfg)
	hctx, cancel := context.WithTimeout(ctx, handshakeTimeout)
	defer cancel()
	if err := t.HandshakeContext(hctx); err != nil {
		return nil, "", fmt.Errorf("stream of %s: %w", node, err)
	}
	c, err := s.register(t, streamKey{node: node, in: true}, pub)
	if err != nil {
		return nil, "", err
	}
	return c, t.ConnectionState().NegotiatedProtocol, nil
}

// dial opens a stream of proto to a member, or to this host itself.
func (s *streams) dial(ctx context.Context, to cluster.NodeID, proto string) (net.Conn, error) {
	c, err := s.dialOut(ctx, to, proto)
	if err != nil {
		s.m.streamErrors.WithLabelValues("dial").Inc()
		return nil, &DialError{To: to, Proto: proto, Err: err}
	}
	s.m.streams.WithLabelValues(proto, "out").Inc()
	return c, nil
}

func (s *streams) dialOut(ctx context.Context, to cluster.NodeID, proto string) (net.Conn, error) {
	m, ok := s.dir.Load().byNode[to]
	if !ok {
		return nil, ErrNotMember
	}
	switch {
	case to == s.self:
		return s.dialSelf(m, proto)
	case s.detoured(to):
		if slices.Contains(s.fallback.Bulk, proto) {
			return nil, ErrBulk
		}
		return s.dialOnion(ctx, to, proto)
	}
	// The place is taken before the work, so that waiting dials count too.
	key := streamKey{node: to}
	if err := s.reserve(key); err != nil {
		return nil, err
	}
	raw, err := s.dialTCP(ctx, netip.AddrPortFrom(meshAddr(m), s.port))
	if err != nil {
		s.unreserve(key)
		return nil, err
	}
	return s.handshakeOut(ctx, raw, m, proto, handshakeTimeout)
}

// handshakeOut makes raw a stream to m, for which a place is reserved.
func (s *streams) handshakeOut(
	ctx context.Context, raw net.Conn, m cluster.Member, proto string, limit time.Duration,
) (net.Conn, error) {
	key := streamKey{node: m.Node}
	if err := s.begin(raw); err != nil {
		s.unreserve(key)
		_ = raw.Close() // stopped meanwhile
		return nil, err
	}
	defer s.end(raw)
	cfg := tlsBase(s.cert, func(got ed25519.PublicKey) error {
		if !got.Equal(ed25519.PublicKey(m.IDPub)) {
			return fmt.Errorf("key at %s is not %s: %w", raw.RemoteAddr(), m.Node, ErrIdentity)
		}
		return nil
	})
	cfg.NextProtos = []string{proto}
	t := tls.Client(raw, cfg)
	hctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	err := t.HandshakeContext(hctx)
	s.unreserve(key)
	if err != nil {
		_ = raw.Close() // half open
		return nil, fmt.Errorf("handshake: %w", err)
	}
	c, err := s.register(t, key, ed25519.PublicKey(m.IDPub))
	if err != nil {
		_ = raw.Close() // stopped or removed meanwhile
		return nil, err
	}
	return c, nil
}

// dialSelf connects to the own handler inside the process.
func (s *streams) dialSelf(m cluster.Member, proto string) (net.Conn, error) {
	h, ctx := s.handler(proto)
	if ctx == nil {
		return nil, ErrStopped
	}
	if h == nil {
		return nil, fmt.Errorf("no handler of %s", proto)
	}
	addr := net.TCPAddrFromAddrPort(netip.AddrPortFrom(meshAddr(m), s.port))
	a, b := localPair(addr)
	pub := ed25519.PublicKey(m.IDPub)
	client, err := s.register(a, streamKey{node: s.self}, pub)
	if err != nil {
		return nil, err
	}
	server, err := s.register(b, streamKey{node: s.self, in: true}, pub)
	if err != nil {
		_ = client.Close() // in memory
		return nil, err
	}
	if !s.spawn(func() {
		h(ctx, s.self, server)
		_ = server.Close() // the handler may have closed it
	}) {
		_ = client.Close() // in memory
		_ = server.Close() // in memory
		return nil, ErrStopped
	}
	return client, nil
}

// spawn starts f unless shutdown has begun; run waits for it.
func (s *streams) spawn(f func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return false
	}
	s.wg.Go(f)
	return true
}

// begin notes a connection in handshake, so that shut closes it.
func (s *streams) begin(c net.Conn) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped || s.ctx == nil {
		return ErrStopped
	}
	s.pending[c] = struct{}{}
	return nil
}

func (s *streams) end(c net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.pending, c)
}

// shakes counts a handshake that a host began or ended; it reports whether one
// more may begin.
func (s *streams) shakes(node cluster.NodeID, by int) bool {
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

func (s *streams) reserve(key streamKey) error {
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

func (s *streams) unreserve(key streamKey) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.countDownLocked(key)
}

func (s *streams) countDownLocked(key streamKey) {
	if s.counts[key]--; s.counts[key] <= 0 {
		delete(s.counts, key)
	}
}

// register makes conn one that counts and that shutdown or removal closes.
func (s *streams) register(conn net.Conn, key streamKey, pub ed25519.PublicKey) (*streamConn, error) {
	c := &streamConn{Conn: conn, key: key, pub: pub, owner: s}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.stopped || s.ctx == nil:
		return nil, ErrStopped
	case s.counts[key] >= maxPeerStreams || len(s.conns) >= maxStreams:
		return nil, fmt.Errorf("stream of %s: %w", key.node, ErrBusy)
	case !s.dir.Load().same(key.node, pub):
		return nil, ErrNotMember // removed during the handshake
	}
	s.counts[key]++
	s.conns[c] = struct{}{}
	s.m.streamsOpen.Set(float64(len(s.conns)))
	return c, nil
}

func (s *streams) unregister(c *streamConn) {
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
func (s *streams) prune(dir *directory) {
	s.mu.Lock()
	var drop []net.Conn
	for c := range s.conns {
		if !dir.same(c.key.node, c.pub) {
			drop = append(drop, c.Conn)
		}
	}
	s.mu.Unlock()
	for _, c := range drop {
		_ = rawConn(c).Close() // the owner's next read or write fails
	}
}

func connAddr(c net.Conn) (netip.Addr, bool) {
	ap, err := netip.ParseAddrPort(c.RemoteAddr().String())
	if err != nil {
		return netip.Addr{}, false
	}
	return ap.Addr().Unmap(), true
}

// pause waits for d or the end of ctx.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
