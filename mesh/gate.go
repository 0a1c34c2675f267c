package mesh

import (
	"net/netip"
	"sync"
	"sync/atomic"

	"github.com/skein-project/skein/mesh/topo"
)

// maxHeld bounds the packets that wait for one peer. More than that is better
// sent again by who wrote it than delivered late.
const maxHeld = 16

// gate stands between the TCP/IP stack and WireGuard. It holds packets for
// peers without a session, so that data never starts a handshake out of turn
// and a dead peer costs 16 small buffers.
type gate struct {
	opened chan struct{} // capacity 1: released is not empty; dropped when full
	closed atomic.Int32  // number of closed peers: the fast path when 0

	held    atomic.Uint64
	dropped atomic.Uint64

	mu       sync.Mutex
	byKey    map[topo.Key]*holding
	byAddr   map[netip.Addr]*holding
	released [][]byte // packets of peers that were opened, to go first
}

// holding is the queue of one closed peer.
type holding struct {
	addrs   []netip.Addr
	packets [][]byte
	firm    bool // a packet that arrives from the peer does not open it
}

func newGate() *gate {
	return &gate{
		opened: make(chan struct{}, 1),
		byKey:  map[topo.Key]*holding{},
		byAddr: map[netip.Addr]*holding{},
	}
}

// close begins to hold packets for addrs, the addresses of key. Closing a
// closed peer updates its addresses.
func (g *gate) close(key topo.Key, addrs []netip.Addr) {
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

// firm lets what is held for key wait for open, even if the peer is heard.
func (g *gate) firm(key topo.Key) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if h := g.byKey[key]; h != nil {
		h.firm = true
	}
}

func (g *gate) unmap(h *holding) {
	for _, a := range h.addrs {
		if g.byAddr[a] == h {
			delete(g.byAddr, a)
		}
	}
}

// open lets go what was held for key.
func (g *gate) open(key topo.Key) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if h := g.byKey[key]; h != nil {
		g.openLocked(key, h)
	}
}

func (g *gate) openLocked(key topo.Key, h *holding) {
	g.unmap(h)
	delete(g.byKey, key)
	g.closed.Add(-1)
	if len(h.packets) == 0 {
		return
	}
	g.released = append(g.released, h.packets...)
	select {
	case g.opened <- struct{}{}:
	default:
	}
}

// forget drops what is held for key.
func (g *gate) forget(key topo.Key) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if h := g.byKey[key]; h != nil {
		g.dropped.Add(uint64(len(h.packets)))
		h.packets = nil
		g.openLocked(key, h)
	}
}

// heard opens the peer that a packet came from: it has a session.
func (g *gate) heard(packet []byte) {
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

// hold reports whether packet must wait, and keeps a copy of it if so.
func (g *gate) hold(packet []byte) bool {
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
	if len(h.packets) == maxHeld {
		copy(h.packets, h.packets[1:])
		h.packets = h.packets[:maxHeld-1]
		g.dropped.Add(1)
	}
	h.packets = append(h.packets, append([]byte(nil), packet...))
	g.held.Add(1)
	return true
}

// next returns a packet that was let go, nil if there is none.
func (g *gate) next() []byte {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.released) == 0 {
		g.released = nil
		return nil
	}
	p := g.released[0]
	g.released[0] = nil
	g.released = g.released[1:]
	return p
}

func (g *gate) counters() counters {
	return counters{held: g.held.Load(), dropped: g.dropped.Load()}
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
