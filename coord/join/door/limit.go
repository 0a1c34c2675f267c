package door

import (
	"bytes"
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Bounds of a Server's connections.
const (
	maxConns = 64 // at once
	// maxSourceConns are those of one source, maxNobodyConns those of all that
	// have none of their own, as behind Tor.
	maxSourceConns = 16
	maxNobodyConns = maxConns / 2
	// wholeTime is how long the place is kept of who has a token and has not sent
	// all of the request.
	wholeTime = 5 * time.Second
)

// Reasons why a connection was closed; the label of a counter.
const (
	closedSource = "source" // too many of one source
	closedFull   = "full"   // too many
)

// reasons lists why connections are closed.
func reasons() []string { return []string{closedSource, closedFull} }

// limited is a listener where strangers never keep newcomers out: above a bound a
// connection gives way that has not got far enough, see evict, or the new one is
// closed. Who accepts must accept on without pause.
type limited struct {
	net.Listener
	conf    *tls.Config
	refused *prometheus.CounterVec

	mu    sync.Mutex
	conns []*Conn // guarded by mu; oldest first
}

// limit bounds the connections of ln and speaks TLS on them. Refused counts those
// that were closed, by reason, see reasons.
func limit(ln net.Listener, conf *tls.Config, refused *prometheus.CounterVec) *limited {
	return &limited{Listener: ln, conf: conf, refused: refused}
}

// Accept implements net.Listener.
func (l *limited) Accept() (net.Conn, error) {
	for {
		inner, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		c := &Conn{Conn: tls.Server(inner, l.conf), inner: inner, from: Source(inner.RemoteAddr().String()), l: l, since: time.Now()}
		if l.admit(c) {
			return c, nil
		}
		_ = inner.Close() // refused
	}
}

// admit makes room for c and reports whether there is any.
func (l *limited) admit(c *Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	most := maxSourceConns
	if c.from == (netip.Addr{}) {
		most = maxNobodyConns
	}
	held := map[netip.Addr]int{}
	for _, o := range l.conns {
		held[o.from]++
	}
	if held[c.from] >= most && !l.evict(closedSource, map[netip.Addr]int{c.from: most}, most) {
		return false
	}
	if len(l.conns) >= maxConns && !l.evict(closedFull, held, held[c.from]) {
		return false
	}
	l.conns = append(l.conns, c)
	return true
}

// evict closes a connection of the source that holds the most places, of those in
// held that hold at least least, and reports whether there was one. Of that source
// it is the oldest that may give way: one that has not shown a token, or has not
// sent all of its request within wholeTime. So few sources never displace others,
// and many do not displace who has a token. The caller holds mu.
func (l *limited) evict(reason string, held map[netip.Addr]int, least int) bool {
	l.refused.WithLabelValues(reason).Inc()
	now, most, out := time.Now(), max(least, 1)-1, -1
	for i, o := range l.conns {
		if held[o.from] > most && o.givesWay(now) {
			most, out = held[o.from], i
		}
	}
	if out < 0 {
		return false
	}
	_ = l.conns[out].inner.Close() // its goroutine ends by that
	l.conns = slices.Delete(l.conns, out, out+1)
	return true
}

// connKey finds the connection of a request in its context.
type connKey struct{}

// connContext has a handler find the connection; it is an http.Server's
// ConnContext.
func connContext(ctx context.Context, conn net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, conn)
}

// From returns the connection that a request came on, nil if not on a limited listener.
func From(ctx context.Context) *Conn {
	c, _ := ctx.Value(connKey{}).(*Conn)
	return c
}

// connState follows when a connection waits for a request; it is an http.Server's
// ConnState.
func connState(conn net.Conn, s http.ConnState) {
	if c, ok := conn.(*Conn); ok && s == http.StateIdle {
		c.l.mu.Lock()
		defer c.l.mu.Unlock()
		c.since, c.whole = time.Now(), false
	}
}

// Conn is a TLS connection of a limited listener. It tells strangers
// nothing but the answers of the handler: what the HTTP server says of itself
// about a malformed request ends the connection instead.
type Conn struct {
	*tls.Conn
	inner net.Conn
	from  netip.Addr
	l     *limited

	since  time.Time // guarded by l.mu: began, or answered its last request
	proven bool      // guarded by l.mu: who speaks has a token
	whole  bool      // guarded by l.mu: the request is read and not answered yet
}

// Prove says that who speaks has a token. On a nil Conn it does nothing.
func (c *Conn) Prove() {
	if c != nil {
		c.l.mu.Lock()
		defer c.l.mu.Unlock()
		c.proven = true
	}
}

// Whole says that the request has been read. On a nil Conn it does nothing.
func (c *Conn) Whole() {
	if c != nil {
		c.l.mu.Lock()
		defer c.l.mu.Unlock()
		c.whole = true
	}
}

// givesWay reports whether c may be closed for another at now. The caller holds
// l.mu.
func (c *Conn) givesWay(now time.Time) bool {
	return !c.whole && (!c.proven || now.Sub(c.since) >= wholeTime)
}

// Write implements net.Conn.
func (c *Conn) Write(b []byte) (int, error) {
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
func (c *Conn) Close() error {
	c.l.mu.Lock()
	c.l.conns = slices.DeleteFunc(c.l.conns, func(o *Conn) bool { return o == c })
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
