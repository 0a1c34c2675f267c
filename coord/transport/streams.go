package transport

import (
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/rs/zerolog"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/internal/loglimit"
	"github.com/skein-project/skein/internal/pipe"
	"github.com/skein-project/skein/internal/wait"
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
	dir      *atomic.Pointer[Directory]
	m        *metrics
	log      zerolog.Logger
	gate     *loglimit.Gate
	reg      *registry
}

// run accepts until ctx ends; then it closes every stream and waits for their
// handlers.
func (s *streams) run(ctx context.Context) error {
	s.reg.start(ctx)
	stop := context.AfterFunc(ctx, s.shut)
	defer func() {
		stop()
		s.shut()
		s.reg.wg.Wait()
	}()
	if s.fallback != nil && s.fallback.Listener != nil {
		s.reg.wg.Go(func() { s.acceptOnion(ctx) })
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
		s.reg.wg.Go(func() { s.accept(ctx, conn, s.handshakeIn, func() { <-tokens }) })
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
			if err := wait.For(ctx, 50*time.Millisecond); err != nil {
				return nil
			}
			continue
		}
		serve(conn)
	}
}

// shut closes the listeners and every stream.
func (s *streams) shut() {
	s.reg.stop()
	_ = s.listener.Close() // ends Accept; a second Close is harmless
	if s.fallback != nil && s.fallback.Listener != nil {
		_ = s.fallback.Listener.Close() // likewise
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
		level := zerolog.WarnLevel
		if from, ok := connAddr(conn); hungUp(err) {
			level = zerolog.DebugLevel // it no longer wants it: as when its daemon stops, or found another way
		} else if ok && reason == "not_member" {
			level = s.dir.Load().refusalLevel(from)
		}
		if s.gate.Pass("stream/" + reason + "/" + level.String()) {
			s.log.WithLevel(level).Err(err).Stringer("addr", conn.RemoteAddr()).Msg("stream refused")
		}
		return
	}
	release()
	h, _ := s.reg.handler(proto)
	if h != nil {
		s.m.streams.WithLabelValues(proto, "in").Inc()
		h(ctx, c.key.node, c)
	}
	_ = c.Close() // the handler may have closed it
}

// hungUp reports whether the other end gave up before anything was wrong.
func hungUp(err error) bool { return errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) }

func (s *streams) handshakeIn(ctx context.Context, conn net.Conn) (*streamConn, string, error) {
	from, ok := connAddr(conn)
	dir := s.dir.Load()
	node, known := dir.byAddr[from]
	if !ok || !known || node == s.self {
		return nil, "", fmt.Errorf("stream from %s: %w", conn.RemoteAddr(), ErrNotMember)
	}
	if err := s.reg.begin(conn); err != nil {
		return nil, "", err
	}
	defer s.reg.end(conn)
	if !s.reg.shakes(node, 1) {
		return nil, "", fmt.Errorf("handshakes of %s: %w", node, ErrBusy)
	}
	defer s.reg.shakes(node, -1)
	var pub ed25519.PublicKey
	cfg := tlsBase(s.cert, func(got ed25519.PublicKey) error {
		if !dir.Same(node, got) {
			return fmt.Errorf("key at %s is not %s: %w", from, node, ErrIdentity)
		}
		pub = got
		return nil
	})
	cfg.NextProtos = s.reg.protos()
	t := tls.Server(conn, cfg)
	hctx, cancel := context.WithTimeout(ctx, handshakeTimeout)
	defer cancel()
	if err := t.HandshakeContext(hctx); err != nil {
		return nil, "", fmt.Errorf("stream of %s: %w", node, err)
	}
	c, err := s.reg.register(t, streamKey{node: node, in: true}, pub)
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
	m, ok := s.dir.Load().member[to]
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
	if err := s.reg.reserve(key); err != nil {
		return nil, err
	}
	raw, err := s.dialTCP(ctx, netip.AddrPortFrom(m.MeshAddr(), s.port))
	if err != nil {
		s.reg.unreserve(key)
		return nil, err
	}
	return s.handshakeOut(ctx, raw, m, proto, handshakeTimeout)
}

// handshakeOut makes raw a stream to m, for which a place is reserved.
func (s *streams) handshakeOut(
	ctx context.Context, raw net.Conn, m cluster.Member, proto string, limit time.Duration,
) (net.Conn, error) {
	key := streamKey{node: m.Node}
	if err := s.reg.begin(raw); err != nil {
		s.reg.unreserve(key)
		_ = raw.Close() // stopped meanwhile
		return nil, err
	}
	defer s.reg.end(raw)
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
	s.reg.unreserve(key)
	if err != nil {
		_ = raw.Close() // half open
		return nil, fmt.Errorf("handshake: %w", err)
	}
	c, err := s.reg.register(t, key, ed25519.PublicKey(m.IDPub))
	if err != nil {
		_ = raw.Close() // stopped or removed meanwhile
		return nil, err
	}
	return c, nil
}

// dialSelf connects to this host's handler inside the process.
func (s *streams) dialSelf(m cluster.Member, proto string) (net.Conn, error) {
	h, ctx := s.reg.handler(proto)
	if ctx == nil {
		return nil, ErrStopped
	}
	if h == nil {
		return nil, fmt.Errorf("no handler of %s", proto)
	}
	addr := net.TCPAddrFromAddrPort(netip.AddrPortFrom(m.MeshAddr(), s.port))
	a, b := pipe.Pair(addr)
	pub := ed25519.PublicKey(m.IDPub)
	client, err := s.reg.register(a, streamKey{node: s.self}, pub)
	if err != nil {
		return nil, err
	}
	server, err := s.reg.register(b, streamKey{node: s.self, in: true}, pub)
	if err != nil {
		_ = client.Close() // in memory
		return nil, err
	}
	if !s.reg.spawn(func() {
		h(ctx, s.self, server)
		_ = server.Close() // the handler may have closed it
	}) {
		_ = client.Close() // in memory
		_ = server.Close() // in memory
		return nil, ErrStopped
	}
	return client, nil
}

func connAddr(c net.Conn) (netip.Addr, bool) {
	ap, err := netip.ParseAddrPort(c.RemoteAddr().String())
	if err != nil {
		return netip.Addr{}, false
	}
	return ap.Addr().Unmap(), true
}
