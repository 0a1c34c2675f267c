package simnet

import (
	"encoding/binary"
	"hash/fnv"
	"net/netip"
	"sync"
	"time"
)

// Link is the quality of one direction between two hosts.
type Link struct {
	// Delay is the least one-way delay, Jitter what chance adds at most.
	Delay, Jitter time.Duration
	// Loss is the share of datagrams lost, 0 to 1.
	Loss float64
	// Duplicate is the share of datagrams delivered twice.
	Duplicate float64
	// MaxSize is the longest datagram that arrives, 0 for any: longer ones
	// vanish without a word. Streams do not care.
	MaxSize int
}

// Network connects hosts. Its methods may be called from any goroutine.
type Network struct {
	seed uint64

	mu      sync.Mutex
	deflt   Link
	links   map[pair]Link
	cut     map[pair]bool
	count   map[pair]uint64
	hosts   map[netip.Addr]*Host
	changed chan struct{} // closed and replaced when a cut, heal, crash or start happens
	halves  map[*half]struct{}
	tap     func(from, to netip.AddrPort, data []byte)
}

type pair struct{ from, to netip.Addr }

// New returns a network whose chances follow from seed and whose links all
// begin as link.
func New(seed uint64, link Link) *Network {
	return &Network{
		seed:    seed,
		deflt:   link,
		links:   make(map[pair]Link),
		cut:     make(map[pair]bool),
		count:   make(map[pair]uint64),
		hosts:   make(map[netip.Addr]*Host),
		changed: make(chan struct{}),
		halves:  make(map[*half]struct{}),
	}
}

// Host returns the host at addr, made and up on first use.
func (n *Network) Host(addr netip.Addr) *Host {
	n.mu.Lock()
	defer n.mu.Unlock()
	h := n.hosts[addr]
	if h == nil {
		h = &Host{
			net: n, addr: addr, up: true, port: 49152,
			packets: make(map[uint16]*PacketConn), listeners: make(map[uint16]*Listener),
		}
		n.hosts[addr] = h
	}
	return h
}

// SetLink changes both directions between a and b.
func (n *Network) SetLink(a, b netip.Addr, l Link) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.links[pair{a, b}], n.links[pair{b, a}] = l, l
}

// SetDefault changes every link that has no quality of its own.
func (n *Network) SetDefault(l Link) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.deflt = l
}

// Cut stops everything from one host to another, in that direction only.
func (n *Network) Cut(from, to netip.Addr) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.cut[pair{from, to}] = true
	n.wakeLocked()
}

// CutBoth stops everything between a and b.
func (n *Network) CutBoth(a, b netip.Addr) {
	n.Cut(a, b)
	n.Cut(b, a)
}

// Mend undoes the cuts between a and b.
func (n *Network) Mend(a, b netip.Addr) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.cut, pair{a, b})
	delete(n.cut, pair{b, a})
	n.wakeLocked()
}

// Partition cuts every pair of hosts that stand in different groups.
func (n *Network) Partition(groups ...[]netip.Addr) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for i, g := range groups {
		for j, other := range groups {
			if i == j {
				continue
			}
			for _, a := range g {
				for _, b := range other {
					n.cut[pair{a, b}] = true
				}
			}
		}
	}
	n.wakeLocked()
}

// Heal undoes every cut.
func (n *Network) Heal() {
	n.mu.Lock()
	defer n.mu.Unlock()
	clear(n.cut)
	n.wakeLocked()
}

// Tap calls f for every datagram that is sent, before its fate is known, from
// the goroutine that sends it. f must not call back into the network.
func (n *Network) Tap(f func(from, to netip.AddrPort, data []byte)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.tap = f
}

// Inject puts a datagram on the network as if from had sent it; from needs not
// exist. It is how a test forges.
func (n *Network) Inject(from, to netip.AddrPort, data []byte) { n.send(from, to, data) }

// wakeLocked lets every waiting dialer and stream look again.
func (n *Network) wakeLocked() {
	close(n.changed)
	n.changed = make(chan struct{})
	for h := range n.halves {
		h.wake()
	}
}

func (n *Network) linkLocked(p pair) Link {
	if l, ok := n.links[p]; ok {
		return l
	}
	return n.deflt
}

// upLocked reports whether bytes travel along p now.
func (n *Network) upLocked(p pair) bool {
	if n.cut[p] {
		return false
	}
	to := n.hosts[p.to]
	return to != nil && to.up
}

// chance returns a number in [0,1) fixed by seed, link, packet number and use.
func (n *Network) chance(p pair, number uint64, use byte) float64 {
	h := fnv.New64a()
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], n.seed)
	h.Write(b[:])
	from, to := p.from.As16(), p.to.As16()
	h.Write(from[:])
	h.Write(to[:])
	binary.BigEndian.PutUint64(b[:], number)
	h.Write(b[:])
	h.Write([]byte{use})
	x := h.Sum64()
	x ^= x >> 33 // FNV's upper bits mix badly
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	x *= 0xc4ceb9fe1a85ec53
	x ^= x >> 33
	return float64(x>>11) / (1 << 53)
}

// send decides the fate of one datagram.
func (n *Network) send(from, to netip.AddrPort, data []byte) {
	p := pair{from.Addr(), to.Addr()}
	n.mu.Lock()
	n.count[p]++
	number := n.count[p]
	l := n.linkLocked(p)
	tap, up := n.tap, n.upLocked(p)
	n.mu.Unlock()
	if tap != nil {
		tap(from, to, data)
	}
	if !up || n.chance(p, number, 'l') < l.Loss || (l.MaxSize > 0 && len(data) > l.MaxSize) {
		return
	}
	pk := packet{from: from, data: append([]byte(nil), data...)}
	copies := 1
	if n.chance(p, number, 'd') < l.Duplicate {
		copies = 2
	}
	for i := range copies {
		delay := l.Delay + time.Duration(n.chance(p, number, 'j'+byte(i))*float64(l.Jitter))
		if delay <= 0 {
			n.deliver(p, to, pk)
			continue
		}
		time.AfterFunc(delay, func() { n.deliver(p, to, pk) })
	}
}

func (n *Network) deliver(p pair, to netip.AddrPort, pk packet) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.upLocked(p) {
		return
	}
	c := n.hosts[p.to].packets[to.Port()]
	if c == nil {
		return
	}
	select {
	case c.queue <- pk:
	default:
		c.dropped.Add(1)
	}
}
