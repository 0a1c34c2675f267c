package device

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"

	"golang.zx2c4.com/wireguard/conn"
	wg "golang.zx2c4.com/wireguard/device"
)

const (
	// SocketBuffer is asked of the kernel, which grants what it allows.
	SocketBuffer = 4 << 20
	// maxEndpointCache bounds the remembered endpoints of senders. It is
	// emptied when full: strangers can fill it.
	maxEndpointCache = 1024
	// receiveRetry is the wait after an error that is not the end.
	receiveRetry = 10 * time.Millisecond
)

// udpBind is the underlay: one UDP socket at a chosen address, one packet at a
// time. The stock Bind listens on every address and keeps buffers for 128
// packets, 25 MB a device.
type udpBind struct {
	addr netip.Addr
	// hint is called before the device gets a packet that may finish a
	// handshake.
	hint HintFunc

	mu   sync.Mutex
	conn *net.UDPConn
	gone chan struct{} // closed with conn
}

// Hinter is a Bind for Options that reports handshakes like those of this package.
type Hinter interface{ OnHandshake(hint HintFunc) }

// HintFunc is called with a packet that may finish a handshake.
type HintFunc func(from netip.AddrPort, packet []byte)

// NewBind is an underlay that listens on one address and calls hint before the
// device gets a packet that may finish a handshake.
func NewBind(addr netip.Addr, hint HintFunc) conn.Bind { return newBind(addr, hint) }

func newBind(addr netip.Addr, hint HintFunc) *udpBind {
	return &udpBind{addr: addr, hint: hint}
}

// Open implements conn.Bind.
func (b *udpBind) Open(port uint16) ([]conn.ReceiveFunc, uint16, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.conn != nil {
		return nil, 0, conn.ErrBindAlreadyOpen
	}
	network := "udp4"
	if b.addr.Is6() {
		network = "udp6"
		if b.addr.IsUnspecified() {
			network = "udp" // both families
		}
	}
	c, err := net.ListenUDP(network, net.UDPAddrFromAddrPort(netip.AddrPortFrom(b.addr, port)))
	if err != nil {
		return nil, 0, err
	}
	// A smaller buffer than asked for loses packets earlier, no more.
	_ = c.SetReadBuffer(SocketBuffer)
	_ = c.SetWriteBuffer(SocketBuffer)
	actual, err := netip.ParseAddrPort(c.LocalAddr().String())
	if err != nil {
		_ = c.Close()
		return nil, 0, fmt.Errorf("address of own socket: %w", err)
	}
	b.conn, b.gone = c, make(chan struct{})
	return []conn.ReceiveFunc{b.receiver(c, b.gone)}, actual.Port(), nil
}

// receiver returns the function that reads packets of c until it is closed.
func (b *udpBind) receiver(c *net.UDPConn, gone <-chan struct{}) conn.ReceiveFunc {
	cache := map[netip.AddrPort]conn.Endpoint{}
	return func(packets [][]byte, sizes []int, eps []conn.Endpoint) (int, error) {
		n, from, err := c.ReadFromUDPAddrPort(packets[0])
		if err != nil {
			return 0, afterReceiveError(err, gone)
		}
		from = netip.AddrPortFrom(from.Addr().Unmap(), from.Port())
		ep, ok := cache[from]
		if !ok {
			if len(cache) == maxEndpointCache {
				clear(cache)
			}
			ep = &conn.StdNetEndpoint{AddrPort: from}
			cache[from] = ep
		}
		sizes[0], eps[0] = n, ep
		if MayFinishHandshake(packets[0][:n]) {
			b.hint(from, packets[0][:n])
		}
		return 1, nil
	}
}

// afterReceiveError returns what ends the receiver, or nil to go on: the
// device gives up for ever on any other error, but a socket recovers.
func afterReceiveError(err error, gone <-chan struct{}) error {
	if errors.Is(err, net.ErrClosed) {
		return net.ErrClosed
	}
	t := time.NewTimer(receiveRetry)
	defer t.Stop()
	select {
	case <-gone:
		return net.ErrClosed
	case <-t.C:
		return nil
	}
}

// MayFinishHandshake reports whether a packet can be what completes a session
// on this side: a response, or the keepalive that confirms one.
func MayFinishHandshake(p []byte) bool {
	if len(p) < 4 {
		return false
	}
	switch p[0] {
	case wg.MessageResponseType:
		return len(p) == wg.MessageResponseSize
	case wg.MessageTransportType:
		return len(p) == wg.MessageKeepaliveSize
	}
	return false
}

// Send implements conn.Bind.
func (b *udpBind) Send(bufs [][]byte, ep conn.Endpoint) error {
	b.mu.Lock()
	c := b.conn
	b.mu.Unlock()
	if c == nil {
		return net.ErrClosed
	}
	to, ok := ep.(*conn.StdNetEndpoint)
	if !ok {
		return conn.ErrWrongEndpointType
	}
	for _, p := range bufs {
		if _, err := c.WriteToUDPAddrPort(p, to.AddrPort); err != nil {
			return err
		}
	}
	return nil
}

// Close implements conn.Bind.
func (b *udpBind) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.conn == nil {
		return nil
	}
	close(b.gone)
	err := b.conn.Close()
	b.conn = nil
	return err
}

// ParseEndpoint implements conn.Bind. Host names are refused.
func (*udpBind) ParseEndpoint(s string) (conn.Endpoint, error) {
	ap, err := netip.ParseAddrPort(s)
	if err != nil {
		return nil, err
	}
	return &conn.StdNetEndpoint{AddrPort: ap}, nil
}

// SetMark implements conn.Bind.
func (*udpBind) SetMark(uint32) error { return nil }

// BatchSize implements conn.Bind.
func (*udpBind) BatchSize() int { return 1 }

// HintBind adds hints of finished handshakes to a Bind.
type HintBind struct {
	conn.Bind
	Hint HintFunc
}

// Open implements conn.Bind.
func (b HintBind) Open(port uint16) ([]conn.ReceiveFunc, uint16, error) {
	fns, port, err := b.Bind.Open(port)
	for i, receive := range fns {
		fns[i] = func(packets [][]byte, sizes []int, eps []conn.Endpoint) (int, error) {
			n, err := receive(packets, sizes, eps)
			for j := range n {
				if p := packets[j][:sizes[j]]; MayFinishHandshake(p) {
					var from netip.AddrPort
					if ep, ok := eps[j].(*conn.StdNetEndpoint); ok {
						from = UnmapPort(ep.AddrPort)
					}
					b.Hint(from, p)
				}
			}
			return n, err
		}
	}
	return fns, port, err
}
