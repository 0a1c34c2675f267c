package cut

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
)

// Cutter stands between the hosts of a cluster and drops packets between hosts on
// different sides. Each host announces one of its sockets as its endpoint, so that
// all packets of the mesh pass through it.
type Cutter struct {
	mu    sync.Mutex
	side  map[int]int // by the port of a host
	conns []*net.UDPConn
	// closed: nothing passes any more.
	closed bool
	wg     sync.WaitGroup
}

// New returns a Cutter through which nothing passes yet.
func New() *Cutter { return &Cutter{side: map[int]int{}} }

// Close ends everything that passes.
func (c *Cutter) Close() {
	c.mu.Lock()
	for _, conn := range c.conns {
		_ = conn.Close() // ends its reader
	}
	c.conns, c.closed = nil, true
	c.mu.Unlock()
	c.wg.Wait()
}

// Front opens the endpoint that stands for the host at port.
func (c *Cutter) Front(port int) (netip.AddrPort, error) {
	conn, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("endpoint of a host: %w", err)
	}
	c.mu.Lock()
	c.conns = append(c.conns, conn)
	c.side[port] = 0
	c.mu.Unlock()
	c.wg.Go(func() { c.forward(conn, port) })
	return conn.LocalAddr().(*net.UDPAddr).AddrPort(), nil //nolint:errcheck,forcetypeassert // always this type
}

// Put moves the host at port to a side.
func (c *Cutter) Put(port, side int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.side[port] = side
}

func (c *Cutter) apart(a, b int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.side[a] != c.side[b]
}

// forward hands what comes to front on to the host, each sender by a socket of
// its own, through which the answers come back; until front is closed.
func (c *Cutter) forward(front *net.UDPConn, port int) {
	backs := map[netip.AddrPort]*net.UDPConn{}
	buf := make([]byte, 64<<10)
	for {
		n, from, err := front.ReadFromUDPAddrPort(buf)
		if err != nil {
			return
		}
		back := backs[from]
		if back == nil {
			if back = c.back(front, from, port); back == nil {
				return
			}
			backs[from] = back
		}
		if !c.apart(port, int(from.Port())) {
			_, _ = back.Write(buf[:n]) // a host that is down
		}
	}
}

func (c *Cutter) back(front *net.UDPConn, from netip.AddrPort, port int) *net.UDPConn {
	back, err := net.DialUDP("udp4", nil, &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port})
	if err != nil {
		return nil
	}
	c.mu.Lock()
	closed := c.closed
	c.conns = append(c.conns, back)
	c.mu.Unlock()
	if closed {
		_ = back.Close() // it is over
		return nil
	}
	c.wg.Go(func() {
		buf := make([]byte, 64<<10)
		for {
			n, err := back.Read(buf)
			switch {
			case errors.Is(err, net.ErrClosed):
				return
			case err != nil:
				continue // refused: the host is down
			}
			if !c.apart(port, int(from.Port())) {
				_, _ = front.WriteToUDPAddrPort(buf[:n], from) // as above
			}
		}
	})
	return back
}
