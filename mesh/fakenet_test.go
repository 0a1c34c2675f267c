package mesh

import (
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync"
	"time"

	"golang.zx2c4.com/wireguard/conn"

	"github.com/skein-project/skein/mesh/device"
)

// fakeNet is an underlay in memory: every packet takes the same delay, unless
// it is lost.
type fakeNet struct {
	delay time.Duration

	mu    sync.Mutex
	rand  *rand.Rand
	loss  float64
	cut   func(from, to netip.AddrPort) bool
	tap   func(from, to netip.AddrPort, p []byte) // sees every packet; optional
	binds map[netip.AddrPort]*fakeBind
	sent  int
	// late keeps the last packet of each way that is cut until resume.
	late bool
	kept map[[2]netip.AddrPort][]byte
}

func newFakeNet(seed uint64) *fakeNet {
	return &fakeNet{delay: time.Millisecond, rand: rand.New(rand.NewPCG(seed, 1)), binds: map[netip.AddrPort]*fakeBind{}}
}

// set changes the network's behaviour.
func (n *fakeNet) set(loss float64, cut func(from, to netip.AddrPort) bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.loss, n.cut = loss, cut
}

func (n *fakeNet) send(from, to netip.AddrPort, p []byte) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.sent++
	if n.tap != nil {
		n.tap(from, to, p)
	}
	b := n.binds[to]
	if b == nil || n.rand.Float64() < n.loss {
		return
	}
	p = append([]byte(nil), p...)
	if n.cut != nil && n.cut(from, to) {
		if n.late {
			n.kept[[2]netip.AddrPort{from, to}] = p
		}
		return
	}
	time.AfterFunc(n.delay, func() { b.deliver(from, p) })
}

// keepLast cuts a network whose queues hold the last packet of each way, as
// those of a neighbour that does not answer do; resume delivers them.
func (n *fakeNet) keepLast(cut func(from, to netip.AddrPort) bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.cut, n.late, n.kept = cut, true, map[[2]netip.AddrPort][]byte{}
}

func (n *fakeNet) resume() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for way, p := range n.kept {
		if b := n.binds[way[1]]; b != nil {
			time.AfterFunc(n.delay, func() { b.deliver(way[0], p) })
		}
	}
	n.cut, n.late, n.kept = nil, false, nil
}

// fakeBind is one host's socket on a fakeNet.
type fakeBind struct {
	net  *fakeNet
	addr netip.AddrPort

	mu   sync.Mutex
	in   chan fakePacket // capacity 1024, newest dropped when full
	gone chan struct{}   // nil while closed
	hint device.HintFunc
}

type fakePacket struct {
	from netip.AddrPort
	data []byte
}

// bind returns the socket of the i-th host.
func (n *fakeNet) bind(i int) *fakeBind {
	b := &fakeBind{
		net: n, in: make(chan fakePacket, 1024), hint: func(netip.AddrPort, []byte) {},
		addr: netip.AddrPortFrom(netip.AddrFrom4([4]byte{192, 0, 2, byte(i)}), 51820),
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.binds[b.addr] = b
	return b
}

// move gives the socket another address.
func (b *fakeBind) move(to netip.AddrPort) {
	b.net.mu.Lock()
	defer b.net.mu.Unlock()
	delete(b.net.binds, b.addr)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.addr = to
	b.net.binds[to] = b
}

func (b *fakeBind) OnHandshake(f device.HintFunc) { b.hint = f }

func (b *fakeBind) deliver(from netip.AddrPort, p []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.gone == nil {
		return
	}
	select {
	case b.in <- fakePacket{from, p}:
	default:
	}
}

// Open implements conn.Bind.
func (b *fakeBind) Open(uint16) ([]conn.ReceiveFunc, uint16, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.gone != nil {
		return nil, 0, conn.ErrBindAlreadyOpen
	}
	gone := make(chan struct{})
	b.gone = gone
	receive := func(bufs [][]byte, sizes []int, eps []conn.Endpoint) (int, error) {
		select {
		case <-gone:
			return 0, net.ErrClosed
		case p := <-b.in:
			sizes[0] = copy(bufs[0], p.data)
			eps[0] = &conn.StdNetEndpoint{AddrPort: p.from}
			if device.MayFinishHandshake(p.data) {
				b.hint(p.from, p.data)
			}
			return 1, nil
		}
	}
	return []conn.ReceiveFunc{receive}, b.addr.Port(), nil
}

// Close implements conn.Bind.
func (b *fakeBind) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.gone != nil {
		close(b.gone)
		b.gone = nil
	}
	return nil
}

// Send implements conn.Bind.
func (b *fakeBind) Send(bufs [][]byte, ep conn.Endpoint) error {
	b.mu.Lock()
	from := b.addr
	b.mu.Unlock()
	to, ok := ep.(*conn.StdNetEndpoint)
	if !ok {
		return fmt.Errorf("endpoint is a %T", ep)
	}
	for _, p := range bufs {
		b.net.send(from, to.AddrPort, p)
	}
	return nil
}

// ParseEndpoint implements conn.Bind.
func (*fakeBind) ParseEndpoint(s string) (conn.Endpoint, error) {
	ap, err := netip.ParseAddrPort(s)
	return &conn.StdNetEndpoint{AddrPort: ap}, err
}

// SetMark implements conn.Bind.
func (*fakeBind) SetMark(uint32) error { return nil }

// BatchSize implements conn.Bind.
func (*fakeBind) BatchSize() int { return 1 }
