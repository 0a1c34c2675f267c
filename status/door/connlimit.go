package door

import (
	"net"
	"strconv"
	"sync"
)

// maxConnections bounds the connections of one user, or over TCP of one address (of
// IPv6, of one network of 64 bits), so that none uses up the descriptors of the
// daemon. Root's have no bound: root must always get through.
const maxConnections = 64

// MaxTogether bounds those of all that are counted: addresses are many.
const MaxTogether = 4096

// connLimit is a listener that bounds the connections of each user, or address:
// it closes those beyond.
type connLimit struct {
	net.Listener
	who     func(net.Conn) string // empty: not counted
	refused func()                // counts
	most    int                   // of all that are counted

	mu   sync.Mutex
	open map[string]int
	all  int
}

// NewConnLimit returns l with that bound, and most for all together.
func NewConnLimit(l net.Listener, most int, who func(net.Conn) string, refused func()) *connLimit {
	return &connLimit{Listener: l, most: most, who: who, refused: refused, open: make(map[string]int)}
}

// Accept implements net.Listener.
func (l *connLimit) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		key := l.who(conn)
		if key == "" {
			return conn, nil
		}
		if l.enter(key) {
			return &counted{Conn: conn, leave: sync.OnceFunc(func() { l.leave(key) })}, nil
		}
		l.refused()
		_ = conn.Close() // nothing was said on it
	}
}

func (l *connLimit) enter(key string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open[key] >= maxConnections || l.all >= l.most {
		return false
	}
	l.open[key]++
	l.all++
	return true
}

func (l *connLimit) leave(key string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all--
	if l.open[key]--; l.open[key] <= 0 {
		delete(l.open, key)
	}
}

// counted is a connection that counts until it is closed.
type counted struct {
	net.Conn
	leave func()
}

// Close implements net.Conn.
func (c *counted) Close() error {
	c.leave()
	return c.Conn.Close()
}

// WhoConnects names who a connection counts for.
func WhoConnects(conn net.Conn) string {
	if uc, ok := conn.(*net.UnixConn); ok {
		switch p, err := Credentials(uc); {
		case err != nil:
			return "unknown"
		case p.UID == 0:
			return ""
		default:
			return "uid:" + strconv.FormatUint(uint64(p.UID), 10)
		}
	}
	host, _, err := net.SplitHostPort(conn.RemoteAddr().String())
	if err != nil {
		return "unknown"
	}
	return Network(host)
}
