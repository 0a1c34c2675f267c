package netstack

import (
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.zx2c4.com/wireguard/tun"
	"gvisor.dev/gvisor/pkg/buffer"
	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/header"
	"gvisor.dev/gvisor/pkg/tcpip/link/channel"
	"gvisor.dev/gvisor/pkg/tcpip/network/ipv4"
	"gvisor.dev/gvisor/pkg/tcpip/network/ipv6"
	"gvisor.dev/gvisor/pkg/tcpip/stack"
	"gvisor.dev/gvisor/pkg/tcpip/transport/icmp"
	"gvisor.dev/gvisor/pkg/tcpip/transport/tcp"
	"gvisor.dev/gvisor/pkg/tcpip/transport/udp"

	"github.com/skein-project/skein/mesh/device"
)

const (
	nicID = tcpip.NICID(1)
	// outQueue is the capacity of the queue between stack and device.
	outQueue = 512

	udpBuffer = 512 << 10
	tcpBuffer = 256 << 10
	tcpMax    = 1 << 20
	// A connection whose data is not acknowledged is repeated at least every
	// maxRTO, so that it goes on soon after a cut, and fails after about 40 s.
	maxRTO     = 3 * time.Second
	maxRetries = 15
	timeWait   = 5 * time.Second
)

// errStopped is what the device reads after close.
var errStopped = os.ErrClosed

// netTUN is a tun.Device whose other side is a TCP/IP stack in this process.
//
// The stack hands packets over in WriteNotify, which blocks until the device
// takes them: that is the back-pressure on writers. The channel between is
// never closed; everyone who waits at it also waits for done.
type netTUN struct {
	stack *stack.Stack
	ep    *channel.Endpoint
	gate  *device.Gate
	mtu   atomic.Int32
	out   chan *buffer.View // capacity 0: writers block
	done  chan struct{}     // closed by Close

	mu     sync.Mutex
	addrs  []netip.Prefix
	closed bool
	// events has room for the changes of a second; more are dropped, since
	// the device reads the MTU itself when it gets one. Closed by Close.
	events chan tun.Event
}

func newTUN(mtu int, udpOnly bool) (*netTUN, error) {
	opts := stack.Options{
		NetworkProtocols:   []stack.NetworkProtocolFactory{ipv4.NewProtocol, ipv6.NewProtocol},
		TransportProtocols: []stack.TransportProtocolFactory{udp.NewProtocol, icmp.NewProtocol4, icmp.NewProtocol6},
		HandleLocal:        true,
	}
	if !udpOnly {
		opts.TransportProtocols = append(opts.TransportProtocols, tcp.NewProtocol)
	}
	t := &netTUN{
		stack:  stack.New(opts),
		ep:     channel.New(outQueue, uint32(mtu), ""),
		gate:   device.NewGate(),
		out:    make(chan *buffer.View),
		done:   make(chan struct{}),
		events: make(chan tun.Event, 4),
	}
	t.mtu.Store(int32(mtu))
	// WireGuard has authenticated every byte: no use in checking sums again.
	t.ep.LinkEPCapabilities |= stack.CapabilityRXChecksumOffload
	if err := tune(t.stack, udpOnly); err != nil {
		t.stack.Destroy()
		return nil, err
	}
	t.ep.AddNotify(t)
	if err := t.stack.CreateNIC(nicID, t.ep); err != nil {
		t.stack.Destroy()
		return nil, fmt.Errorf("create interface: %s", err)
	}
	t.stack.SetRouteTable([]tcpip.Route{
		{Destination: header.IPv4EmptySubnet, NIC: nicID},
		{Destination: header.IPv6EmptySubnet, NIC: nicID},
	})
	return t, nil
}

// tune sets the stack's buffers and TCP's patience.
func tune(s *stack.Stack, udpOnly bool) error {
	if err := s.SetOption(tcpip.ReceiveBufferSizeOption{Min: 4 << 10, Default: udpBuffer, Max: udpBuffer}); err != nil {
		return fmt.Errorf("set udp receive buffer: %s", err)
	}
	if err := s.SetOption(tcpip.SendBufferSizeOption{Min: 4 << 10, Default: udpBuffer, Max: udpBuffer}); err != nil {
		return fmt.Errorf("set udp send buffer: %s", err)
	}
	if udpOnly {
		return nil
	}
	var (
		sack     = tcpip.TCPSACKEnabled(true)
		moderate = tcpip.TCPModerateReceiveBufferOption(true)
		rto      = tcpip.TCPMaxRTOOption(maxRTO)
		retries  = tcpip.TCPMaxRetriesOption(maxRetries)
		wait     = tcpip.TCPTimeWaitTimeoutOption(timeWait)
	)
	for _, o := range []tcpip.SettableTransportProtocolOption{
		&sack, &moderate, &rto, &retries, &wait,
		&tcpip.TCPSendBufferSizeRangeOption{Min: 4 << 10, Default: tcpBuffer, Max: tcpMax},
		&tcpip.TCPReceiveBufferSizeRangeOption{Min: 4 << 10, Default: tcpBuffer, Max: tcpMax},
	} {
		if err := s.SetTransportProtocolOption(tcp.ProtocolNumber, o); err != nil {
			return fmt.Errorf("set %T: %s", o, err)
		}
	}
	return nil
}

// WriteNotify takes one packet from the stack's queue and waits until the
// device has it.
func (t *netTUN) WriteNotify() {
	pkt := t.ep.Read()
	if pkt == nil {
		return
	}
	view := pkt.ToView()
	pkt.DecRef()
	select {
	case t.out <- view:
	case <-t.done:
		view.Release()
	}
}

// Read gives the device the next packet whose peer has a session.
func (t *netTUN) Read(bufs [][]byte, sizes []int, offset int) (int, error) {
	for {
		if p := t.gate.Next(); p != nil {
			if len(p) > len(bufs[0])-offset {
				continue
			}
			sizes[0] = copy(bufs[0][offset:], p)
			return 1, nil
		}
		select {
		case <-t.done:
			return 0, errStopped
		case <-t.gate.Released():
		case view := <-t.out:
			n, err := view.Read(bufs[0][offset:])
			view.Release()
			if err != nil && !errors.Is(err, io.EOF) {
				return 0, fmt.Errorf("read packet of the stack: %w", err)
			}
			if n == 0 || t.gate.Hold(bufs[0][offset:offset+n]) {
				continue
			}
			sizes[0] = n
			return 1, nil
		}
	}
}

// Write gives the stack packets that came from peers.
func (t *netTUN) Write(bufs [][]byte, offset int) (int, error) {
	for i, b := range bufs {
		packet := b[offset:]
		if len(packet) == 0 {
			continue
		}
		select {
		case <-t.done:
			return i, errStopped
		default:
		}
		t.gate.Heard(packet)
		pkb := stack.NewPacketBuffer(stack.PacketBufferOptions{Payload: buffer.MakeWithData(packet)})
		switch packet[0] >> 4 {
		case 4:
			t.ep.InjectInbound(header.IPv4ProtocolNumber, pkb)
		case 6:
			t.ep.InjectInbound(header.IPv6ProtocolNumber, pkb)
		}
		pkb.DecRef()
	}
	return len(bufs), nil
}

func (t *netTUN) addAddr(p netip.Prefix) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if slices.Contains(t.addrs, p) {
		return nil
	}
	pa := tcpip.ProtocolAddress{
		Protocol:          protocolOf(p.Addr()),
		AddressWithPrefix: tcpip.AddrFromSlice(p.Addr().AsSlice()).WithPrefix(),
	}
	if err := t.stack.AddProtocolAddress(nicID, pa, stack.AddressProperties{}); err != nil {
		return errors.New(err.String())
	}
	t.addrs = append(t.addrs, p)
	return nil
}

func (t *netTUN) removeAddr(p netip.Prefix) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	i := slices.Index(t.addrs, p)
	if i < 0 {
		return nil
	}
	if err := t.stack.RemoveAddress(nicID, tcpip.AddrFromSlice(p.Addr().AsSlice())); err != nil {
		return errors.New(err.String())
	}
	t.addrs = slices.Delete(t.addrs, i, i+1)
	return nil
}

func (t *netTUN) addresses() []netip.Prefix {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.addrs)
}

func (t *netTUN) setMTU(mtu int) {
	t.mtu.Store(int32(mtu))
	t.ep.SetMTU(uint32(mtu))
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return
	}
	select {
	case t.events <- tun.EventMTUUpdate:
	default:
	}
}

// Close stops the stack and everyone who waits in it. The order matters:
// first those who wait are freed, then no packet enters the queue, then none
// leaves the stack.
func (t *netTUN) Close() error {
	t.mu.Lock()
	if t.closed {
		t.mu.Unlock()
		return nil
	}
	t.closed = true
	close(t.events)
	t.mu.Unlock()

	close(t.done)
	t.ep.Close()
	t.stack.RemoveNIC(nicID)
	t.stack.Close()
	return nil
}

// MTU implements tun.Device.
func (t *netTUN) MTU() (int, error) { return int(t.mtu.Load()), nil }

// Name implements tun.Device.
func (*netTUN) Name() (string, error) { return "skein", nil }

// File implements tun.Device.
func (*netTUN) File() *os.File { return nil }

// Events implements tun.Device.
func (t *netTUN) Events() <-chan tun.Event { return t.events }

// BatchSize implements tun.Device.
func (*netTUN) BatchSize() int { return 1 }

func protocolOf(a netip.Addr) tcpip.NetworkProtocolNumber {
	if a.Is4() {
		return ipv4.ProtocolNumber
	}
	return ipv6.ProtocolNumber
}
