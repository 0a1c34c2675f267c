package proxy

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"
)

// maxLine is the longest line of the haproxy protocol's first version.
const maxLine = 107

// errCircuit: the connection does not begin with the line that names its circuit.
var errCircuit = errors.New("connection without the line that names its circuit")

// circuits bounds how many connections one circuit of tor has at once: whoever
// is behind it, the others must not wait for places.
type circuits struct {
	most    int
	refused func() // one connection more than that

	mu   sync.Mutex
	open map[netip.Addr]int // only those that have some
}

// take counts one more connection of the circuit, unless it has enough.
func (c *circuits) take(id netip.Addr) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open[id] >= c.most {
		return false
	}
	c.open[id]++
	return true
}

func (c *circuits) give(id netip.Addr) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open[id]--; c.open[id] <= 0 {
		delete(c.open, id)
	}
}

// circuitListener takes the line that names its circuit off each connection.
type circuitListener struct {
	net.Listener
	circuits *circuits
}

func (l circuitListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &circuitConn{Conn: c, circuits: l.circuits}, nil
}

// circuitConn is a connection that begins with that line. It is read with the
// connection's first bytes, by whoever reads those, under their deadline.
type circuitConn struct {
	net.Conn
	circuits *circuits
	begun    bool
	read     []byte // before begun: of the line; after: beyond it

	mu     sync.Mutex
	id     netip.Addr // valid: counted
	closed bool
}

// begin reads the line; io.EOF: the circuit has enough connections.
func (c *circuitConn) begin() error {
	for !c.begun {
		var piece [maxLine]byte
		n, err := c.Conn.Read(piece[:])
		c.read = append(c.read, piece[:n]...)
		switch line, rest, whole := bytes.Cut(c.read, []byte("\r\n")); {
		case whole && len(line) <= maxLine:
			id, ok := parseCircuit(string(line))
			if !ok {
				return errCircuit
			}
			if !c.count(id) {
				return io.EOF
			}
			c.begun, c.read = true, rest
		case len(c.read) > maxLine:
			return errCircuit
		case err != nil:
			return err
		}
	}
	return nil
}

// count reports whether the circuit may have this connection.
func (c *circuitConn) count(id netip.Addr) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false
	}
	if !c.circuits.take(id) {
		c.circuits.refused()
		return false
	}
	c.id = id
	return true
}

func (c *circuitConn) Read(b []byte) (int, error) {
	if err := c.begin(); err != nil {
		return 0, err
	}
	if len(c.read) > 0 {
		n := copy(b, c.read)
		c.read = c.read[n:]
		return n, nil
	}
	return c.Conn.Read(b)
}

// CloseWrite ends one direction.
func (c *circuitConn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}

func (c *circuitConn) Close() error {
	c.mu.Lock()
	if c.id.IsValid() && !c.closed {
		c.circuits.give(c.id)
	}
	c.closed = true
	c.mu.Unlock()
	return c.Conn.Close()
}

// parseCircuit reads a line as PROXY TCP6 fc00:dead:beef:4dad::0:12 ::1 65535 80:
// tor writes the number of the circuit into the client's address.
func parseCircuit(line string) (netip.Addr, bool) {
	words := strings.Split(line, " ")
	if len(words) != 6 || words[0] != "PROXY" || words[1] != "TCP6" {
		return netip.Addr{}, false
	}
	id, err := netip.ParseAddr(words[2])
	if err != nil || !id.Is6() || id.Zone() != "" {
		return netip.Addr{}, false
	}
	return id, true
}
