package device

import (
	"bytes"
	"net/netip"
	"sync"
	"sync/atomic"

	"github.com/skein-project/skein/mesh/topo"
)

// MaxHeld bounds the packets that wait for one peer. More than that is better
// sent again by who wrote it than delivered late.
const MaxHeld = 16

// Gate stands between the TCP/IP stack and WireGuard. It holds packets for
// peers without a session, so that data never starts a handshake out of turn
// and a dead peer costs 16 small buffers.
type Gate struct {
	opening chan struct{} // capacity 1: ready is not empty; dropped when full
	closed  atomic.Int32  // number of closed peers: the fast path when 0

	held    atomic.Uint64
	dropped atomic.Uint64

	mu     sync.Mutex
	byKey  map[topo.Key]*holding
	byAddr map[netip.Addr]*holding
	ready  [][]byte // packets of peers that were opened, to go first
}

// holding is the queue of one closed peer.
type holding struct {
	addrs   []netip.Addr
	packets [][]byte
	firm    bool // a packet that arrives from the peer does not open it
}

// NewGate is a gate that holds nothing.
func NewGate() *Gate {
	return &Gate{
		opening: make(chan struct{}, 1),
		byKey:   map[topo.Key]*holding{},
		byAddr:  map[netip.Addr]*holding{},
	}
}

// Close begins to hold packets for addrs, the addresses of key. Closing a
// closed peer updates its addresses.
func (g *Gate) Close(key topo.Key, addrs []netip.Addr) {
	g.mu.Lock()
	defer g.mu.Unlock()
	h := g.byKey[key]
	if h == nil {
		h = &holding{}
		g.byKey[key] = h
		g.closed.Add(1)
	}
	g.unmap(h)
	h.addrs = addrs
	for _, a := range addrs {
		g.byAddr[a] = h
	}
}

// Firm lets what is held for key wait for Open, even if the peer is heard.
func (g *Gate) Firm(key topo.Key) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if h := g.byKey[key]; h != nil {
		h.firm = true
	}
}

func (g *Gate) unmap(h *holding) {
	for _, a := range h.addrs {
		if g.byAddr[a] == h {
			delete(g.byAddr, a)
		}
	}
}

// Open lets go what was held for key.
func (g *Gate) Open(key topo.Key) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if h := g.byKey[key]; h != nil {
		g.openLocked(key, h)
	}
}

func (g *Gate) openLocked(key topo.Key, h *holding) {
	g.unmap(h)
	delete(g.byKey, key)
	g.closed.Add(-1)
	if len(h.packets) == 0 {
		return
	}
	g.ready = append(g.ready, h.packets...)
	select {
	case g.opening <- struct{}{}:
	default:
	}
}

// Forget drops what is held for key.
func (g *Gate) Forget(key topo.Key) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if h := g.byKey[key]; h != nil {
		g.dropped.Add(uint64(len(h.packets)))
		h.packets = nil
		g.openLocked(key, h)
	}
}

// Heard opens the peer that a packet came from: it has a session.
func (g *Gate) Heard(packet []byte) {
	if g.closed.Load() == 0 {
		return
	}
	src, _, ok := addresses(packet)
	if !ok {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	h := g.byAddr[src]
	if h == nil || h.firm {
		return
	}
	for key, o := range g.byKey {
		if o == h {
			g.openLocked(key, h)
			return
		}
	}
}

// Hold reports whether packet must wait, and keeps a copy of it if so.
func (g *Gate) Hold(packet []byte) bool {
	if g.closed.Load() == 0 {
		return false
	}
	_, dst, ok := addresses(packet)
	if !ok {
		return false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	h := g.byAddr[dst]
	if h == nil {
		return false
	}
	if len(h.packets) == MaxHeld {
		copy(h.packets, h.packets[1:])
		h.packets = h.packets[:MaxHeld-1]
		g.dropped.Add(1)
	}
	h.packets = append(h.packets, append([]byte(nil), packet...))
	g.held.Add(1)
	return true
}

// Released gets a value when packets were let go: Next returns them.
func (g *Gate) Released() <-chan struct{} { return g.opening }

// Next returns a packet that was let go, nil if there is none.
func (g *Gate) Next() []byte {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.ready) == 0 {
		g.ready = nil
		return nil
	}
	p := g.ready[0]
	g.ready[0] = nil
	g.ready = g.ready[1:]
	return p
}

// Take fills bufs with packets that were let go.
func (g *Gate) Take(bufs [][]byte, sizes []int, offset int) int {
	n := 0
	for n < len(bufs) {
		p := g.Next()
		if p == nil {
			break
		}
		if len(p) <= len(bufs[n])-offset {
			sizes[n] = copy(bufs[n][offset:], p)
			n++
		}
	}
	return n
}

// Filter keeps back those packets of a batch that must wait, and leaves a
// size of 0 for them. If others were let go meanwhile, the whole batch goes
// behind those and 0 is returned.
func (g *Gate) Filter(bufs [][]byte, sizes []int, offset int) int {
	if g.closed.Load() > 0 {
		for i, b := range bufs {
			if g.Hold(b[offset : offset+sizes[i]]) {
				sizes[i] = 0
			}
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.ready) == 0 {
		return len(bufs)
	}
	for i, b := range bufs {
		if sizes[i] > 0 {
			g.ready = append(g.ready, bytes.Clone(b[offset:offset+sizes[i]]))
		}
	}
	return 0
}

// Counters says how many packets were held and dropped so far.
func (g *Gate) Counters() Counters {
	return Counters{Held: g.held.Load(), Dropped: g.dropped.Load()}
}

// addresses returns source and destination of an IP packet.
func addresses(packet []byte) (src, dst netip.Addr, ok bool) {
	if len(packet) == 0 {
		return src, dst, false
	}
	switch packet[0] >> 4 {
	case 4:
		if len(packet) < 20 {
			return src, dst, false
		}
		return netip.AddrFrom4([4]byte(packet[12:16])), netip.AddrFrom4([4]byte(packet[16:20])), true
	case 6:
		if len(packet) < 40 {
			return src, dst, false
		}
		return netip.AddrFrom16([16]byte(packet[8:24])), netip.AddrFrom16([16]byte(packet[24:40])), true
	}
	return src, dst, false
}
