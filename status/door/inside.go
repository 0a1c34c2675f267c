package door

import (
	"context"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/skein-project/skein/internal/pipe"
)

// idleInside is how long a way inside is kept that nobody uses.
const idleInside = 30 * time.Second

// Inside is a listener that only this process reaches, and the way to it: who comes by it
// sees what everybody sees at a listener without proofs. It holds nothing until then.
type Inside struct {
	conns  chan net.Conn // capacity 0: Accept takes them; nobody closes it
	closed chan struct{}
	once   sync.Once
}

// NewInside returns one.
func NewInside() *Inside { return &Inside{conns: make(chan net.Conn), closed: make(chan struct{})} }

// insideConn marks what came by an Inside.
type insideConn struct{ net.Conn }

type insideAddr struct{}

func (insideAddr) Network() string { return "inside" }
func (insideAddr) String() string  { return "this process" }

// Accept implements net.Listener.
func (l *Inside) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (l *Inside) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

// Addr implements net.Listener.
func (*Inside) Addr() net.Addr { return insideAddr{} }

func (l *Inside) dial(ctx context.Context) (net.Conn, error) {
	mine, its := pipe.Pair(insideAddr{})
	select {
	case l.conns <- insideConn{its}:
		return mine, nil
	case <-l.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Transport carries requests to whoever serves l, whatever host their URLs name.
func (l *Inside) Transport() http.RoundTripper {
	return &http.Transport{
		DialContext:         func(ctx context.Context, _, _ string) (net.Conn, error) { return l.dial(ctx) },
		MaxIdleConnsPerHost: 2, IdleConnTimeout: idleInside, DisableCompression: true,
	}
}

// OfPage reports whether a path is of the page; all others are of the API.
func OfPage(path string) bool {
	for _, below := range [...]string{"/p/", "/assets/", "/ui/"} {
		if strings.HasPrefix(path, below) {
			return true
		}
	}
	return path == "/"
}
