package status

import (
	"net"
	"strconv"
	"sync"
)

// maxConnections bounds the connections of one user, or over TCP of one
// address, so that none uses up the descriptors of the daemon. Root's have no
// bound: root must always get through.
const maxConnections = 64

// crowd is a listener that closes the connections of who has too many.
type crowd struct {
	net.Listener
	who     func(net.Conn) string // empty: not counted
	refused func()                // counts

	mu   sync.Mutex
	open map[string]int
}

func newCrowd(l net.Listener, who func(net.Conn) string, refused func()) *crowd {
	return &crowd{Listener: l, who: who, refused: refused, open: make(map[string]int)}
}

// Accept implements net.Listener.
func (c *crowd) Accept() (net.Conn, error) {
	for {
		conn, err := c.Listener.Accept()
		if err != nil {
			return nil, err
		}
		key := c.who(conn)
		if key == "" {
			return conn, nil
		}
		if c.enter(key) {
			return &counted{Conn: conn, leave: sync.OnceFunc(func() { c.leave(key) })}, nil
		}
		c.refused()
		_ = conn.Close() // nothing was said on it
	}
}

func (c *crowd) enter(key string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open[key] >= maxConnections {
		return false
	}
	c.open[key]++
	return true
}

func (c *crowd) leave(key string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open[key]--; c.open[key] <= 0 {
		delete(c.open, key)
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

// whoConnects names who a connection counts for.
func whoConnects(conn net.Conn) string {
	if uc, ok := conn.(*net.UnixConn); ok {
		switch p, err := credentials(uc); {
		case err != nil:
			return "unknown"
		case p.uid == 0:
			return ""
		default:
			return "uid:" + strconv.FormatUint(uint64(p.uid), 10)
		}
	}
	host, _, err := net.SplitHostPort(conn.RemoteAddr().String())
	if err != nil {
		return "unknown"
	}
	return host
}
