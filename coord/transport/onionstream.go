package transport

import (
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"fmt"
	"net"
	"slices"

	"github.com/skein-project/skein/cluster"
)

// acceptOnion serves what comes in through this host's onion service until ctx
// ends or the listener fails, without which the mesh goes on.
func (s *streams) acceptOnion(ctx context.Context) {
	err := s.acceptAll(ctx, s.fallback.Listener, func(conn net.Conn) {
		if err := s.reg.begin(conn); err != nil {
			_ = conn.Close() // stopped
			return
		}
		s.reg.admitNameless(conn)
		s.reg.wg.Go(func() {
			s.accept(ctx, conn, s.handshakeOnion, func() {
				s.reg.dropNameless(conn)
				s.reg.end(conn)
			})
		})
	})
	if err != nil {
		s.log.Error().Err(err).Msg("streams through the onion service are no longer accepted")
	}
}

// handshakeOnion finds out who came in through the onion service, by its key
// alone.
func (s *streams) handshakeOnion(ctx context.Context, conn net.Conn) (*streamConn, string, error) {
	dir := s.dir.Load()
	var node cluster.NodeID
	var pub ed25519.PublicKey
	cfg := tlsBase(s.cert, func(got ed25519.PublicKey) error {
		if len(got) != ed25519.PublicKeySize {
			return ErrIdentity
		}
		found, ok := dir.byKey[[ed25519.PublicKeySize]byte(got)]
		if !ok || found == s.self {
			return ErrNotMember
		}
		node, pub = found, got
		return nil
	})
	cfg.NextProtos = slices.DeleteFunc(s.reg.protos(), func(p string) bool { return slices.Contains(s.fallback.Bulk, p) })
	t := tls.Server(conn, cfg)
	hctx, cancel := context.WithTimeout(ctx, onionHandshake)
	defer cancel()
	if err := t.HandshakeContext(hctx); err != nil {
		return nil, "", fmt.Errorf("stream through the onion service: %w", err)
	}
	c, err := s.reg.register(t, streamKey{node: node, in: true}, pub)
	if err != nil {
		return nil, "", err
	}
	return c, t.ConnectionState().NegotiatedProtocol, nil
}

// dialOnion opens a stream of proto to the onion service of a member.
func (s *streams) dialOnion(ctx context.Context, to cluster.NodeID, proto string) (net.Conn, error) {
	m, ok := s.dir.Load().member[to]
	if !ok || s.fallback == nil {
		return nil, ErrNotMember
	}
	onion, err := onionService(m)
	if err != nil {
		return nil, err
	}
	key := streamKey{node: to}
	if err := s.reg.reserve(key); err != nil {
		return nil, err
	}
	raw, err := s.fallback.Dial(ctx, to, onion)
	if err != nil {
		s.reg.unreserve(key)
		return nil, err
	}
	return s.handshakeOut(ctx, raw, m, proto, onionHandshake)
}
