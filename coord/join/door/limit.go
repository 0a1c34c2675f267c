package door

import (
	"bytes"
	"crypto/tls"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// Bounds of a Server's connections.
const (
	maxConns = 64 // at once
	// maxSourceConns are those of one source, maxNobodyConns those of all that
	// have none of their own, as behind Tor.
	maxSourceConns = 16
	maxNobodyConns = maxConns / 2
)

// Reasons why a connection was closed; the label of a counter.
const (
	closedSource = "source" // too many of one source
	closedFull   = "full"   // too many
)

// Reasons lists why connections are closed.
func Reasons() []string { return []string{closedSource, closedFull} }

// Limited is a listener that never lets silent connections keep others out:
// above a bound the oldest that no request has come on is closed, or the new
// one if requests have come on all. Who accepts must accept on without pause.
type Limited struct {
	net.Listener
	conf    *tls.Config
	refused *prometheus.CounterVec

	mu    sync.Mutex
	conns []*joinConn // guarded by mu; oldest first
}

// Limit bounds the connections of ln and speaks TLS on them. Refused counts those
// that were closed, by reason, see Reasons.
func Limit(ln net.Listener, conf *tls.Config, refused *prometheus.CounterVec) *Limited {
	return &Limited{Listener: ln, conf: conf, refused: refused}
}

// Accept implements net.Listener.
func (l *Limited) Accept() (net.Conn, error) {
	for {
		inner, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		c := &joinConn{Conn: tls.Server(inner, l.conf), inner: inner, from: Source(inner.RemoteAddr().String()), l: l}
		if l.admit(c) {
			return c, nil
		}
		_ = inner.Close() // refused
	}
}

// admit makes room for c and reports whether there is any.
func (l *Limited) admit(c *joinConn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	most := maxSourceConns
	if c.from == (netip.Addr{}) {
		most = maxNobodyConns
	}
	same := 0
	for _, o := range l.conns {
		if o.from == c.from {
			same++
		}
	}
	if same >= most && !l.evict(closedSource, func(o *joinConn) bool { return o.from == c.from }) {
		return false
	}
	if len(l.conns) >= maxConns && !l.evict(closedFull, func(*joinConn) bool { return true }) {
		return false
	}
	l.conns = append(l.conns, c)
	return true
}

// evict closes the oldest silent connection that match says, and reports
// whether there was one. The caller holds mu.
func (l *Limited) evict(reason string, match func(*joinConn) bool) bool {
	l.refused.WithLabelValues(reason).Inc()
	i := slices.IndexFunc(l.conns, func(o *joinConn) bool { return !o.busy && match(o) })
	if i < 0 {
		return false
	}
	_ = l.conns[i].inner.Close() // its goroutine ends by that
	l.conns = slices.Delete(l.conns, i, i+1)
	return true
}

// ConnState follows whether a request is being served on a connection; it is
// an http.Server's ConnState.
func ConnState(conn net.Conn, s http.ConnState) {
	c, ok := conn.(*joinConn)
	if !ok {
		return
	}
	c.l.mu.Lock()
	defer c.l.mu.Unlock()
	c.busy = s == http.StateActive
}

// joinConn is a TLS connection of a limited listener. It tells strangers
// nothing but the answers of the handler: what the HTTP server says of itself
// about a malformed request ends the connection instead.
type joinConn struct {
	*tls.Conn
	inner net.Conn
	from  netip.Addr
	l     *Limited
	busy  bool // guarded by l.mu
}

// Write implements net.Conn.
func (c *joinConn) Write(b []byte) (int, error) {
	const line = len("HTTP/1.1 404")
	if len(b) >= line && bytes.HasPrefix(b, []byte("HTTP/1.")) {
		switch status := string(b[line-3 : line]); status {
		case "200", "404":
		case "100": // come without asking, or not at all
			return len(b), nil
		default:
			_ = c.inner.Close()
			return 0, net.ErrClosed
		}
	}
	return c.Conn.Write(b)
}

// Close implements net.Conn.
func (c *joinConn) Close() error {
	c.l.mu.Lock()
	c.l.conns = slices.DeleteFunc(c.l.conns, func(o *joinConn) bool { return o == c })
	c.l.mu.Unlock()
	return c.Conn.Close()
}

// Source is the address that a rate belongs to: an IPv4 address, or an IPv6
// /64; the zero address for whatever has none, and for loopback, from where
// Tor brings everybody.
func Source(remote string) netip.Addr {
	ap, err := netip.ParseAddrPort(remote)
	if err != nil {
		return netip.Addr{}
	}
	a := ap.Addr().Unmap().WithZone("")
	if a.IsLoopback() {
		return netip.Addr{}
	}
	if a.Is6() {
		p, _ := a.Prefix(64) // 64 is in range
		return p.Addr()
	}
	return a
}
