package endpoint

import (
	"net/netip"
	"slices"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/coord/wire"
)

const (
	// maxObserved bounds the endpoints kept of one member; of one reporter it
	// is one, so that a single host cannot push out what the others saw.
	maxObserved = 3
	// observedLife is how long an endpoint counts after it was last reported.
	observedLife = 10 * time.Minute
	// observedPause is the least time between notices of changed endpoints.
	observedPause = time.Second
	// publicHold is how long the others must agree on where this host is.
	publicHold = 10 * time.Second
)

// sighting is an endpoint at which a member was seen.
type sighting struct {
	at   netip.AddrPort
	by   cluster.NodeID
	when time.Duration
}

// Directory looks members up.
type Directory interface {
	Member(cluster.NodeID) (cluster.Member, bool)
	At(netip.Addr) (cluster.NodeID, bool)
}

// Endpoints is what this host knows of where hosts are, beyond what they announce.
type Endpoints struct {
	self   cluster.NodeID
	ula    netip.Prefix                      // of the mesh
	live   map[cluster.NodeID]netip.AddrPort // by this host's device, as of this round
	hints  []wire.PeerHint                   // of this round, what is news first
	seen   map[cluster.NodeID][]sighting     // of others, as others see them
	seenAs map[cluster.NodeID]sighting       // of this host, one per reporter
	own    []netip.Addr                      // of this host's interfaces, as of this round
	flaps  map[cluster.NodeID]*flap          // of others, by this host's device
	// public is what this host believes of itself, next what the reporters
	// have agreed on since nextAt.
	public Place
	next   Place
	nextAt time.Duration
	// changed says that a plan of the mesh would come out differently;
	// toldAt is when that was last said.
	changed bool
	toldAt  time.Duration
}

// New returns the Endpoints of host self in the cluster whose addresses lie in
// ula.
func New(self cluster.NodeID, ula netip.Prefix) *Endpoints {
	return &Endpoints{
		self: self, ula: ula, seen: make(map[cluster.NodeID][]sighting), seenAs: make(map[cluster.NodeID]sighting),
		flaps: make(map[cluster.NodeID]*flap),
	}
}

// Moved takes the endpoints at which this host's device has its peers now, and
// returns the peers whose endpoint has changed.
func (e *Endpoints) Moved(live map[cluster.NodeID]netip.AddrPort) []cluster.NodeID {
	var out []cluster.NodeID
	for node, at := range live {
		if e.live[node] != at {
			out = append(out, node)
		}
	}
	e.live = live
	return out
}

// SetOwn takes the addresses of this host outside the mesh.
func (e *Endpoints) SetOwn(own []netip.Addr) { e.own = own }

// Look begins a round: it forgets what is old and prepares the round's hints
// about members. Alive is how many other hosts are alive.
func (e *Endpoints) Look(now time.Duration, members []cluster.Member, round, alive int) {
	for node, list := range e.seen {
		kept := slices.DeleteFunc(list, func(x sighting) bool { return now-x.when > observedLife })
		switch e.changed = e.changed || len(kept) < len(list); len(kept) {
		case 0:
			delete(e.seen, node)
		default:
			e.seen[node] = kept
		}
	}
	for by, x := range e.seenAs {
		if now-x.when > observedLife {
			delete(e.seenAs, by)
		}
	}
	e.learnPublic(now, alive)
	e.follow(members, now)
	e.hints = e.roundHints(members, round)
}

// Public is where the world sees this host.
func (e *Endpoints) Public() Place { return e.public }

// Forget drops what is known of a host that is no longer a member.
func (e *Endpoints) Forget(node cluster.NodeID) {
	delete(e.seen, node)
	delete(e.seenAs, node)
	delete(e.flaps, node)
}

// roundHints names members in turn: first those that are not where they say,
// then any.
func (e *Endpoints) roundHints(members []cluster.Member, round int) []wire.PeerHint {
	const want = wire.MaxKnownPeers + 1 // the addressee is left out
	var news, rest []wire.PeerHint
	n := len(members)
	for i := range n {
		m := members[(round*wire.MaxKnownPeers+i)%n]
		if m.Node == e.self || len(m.WGPub) != len(wire.WGKey{}) {
			continue
		}
		h := wire.PeerHint{Node: m.Node, WGPub: wire.WGKey(m.WGPub), TunnelIP: m.MeshAddr()}
		live, ok := e.live[m.Node]
		switch {
		case ok && live.IsValid() && !slices.Contains(m.Endpoints, live):
			h.Endpoint = live
			if news = append(news, h); len(news) == want {
				return news
			}
			continue
		case len(m.Endpoints) > 0:
			h.Endpoint = m.Endpoints[0]
		}
		if len(rest) < want {
			rest = append(rest, h)
		}
	}
	return append(news, rest...)[:min(want, len(news)+len(rest))]
}

// Hints are what a heartbeat to one member says about members: every second
// time where the member itself is seen, and what this round is about.
func (e *Endpoints) Hints(to cluster.NodeID, round int, dir Directory) []wire.PeerHint {
	out := make([]wire.PeerHint, 0, wire.MaxKnownPeers)
	live, ok := e.live[to]
	if m, known := dir.Member(to); ok && known && live.IsValid() && round%2 == 0 && len(m.WGPub) == len(wire.WGKey{}) {
		out = append(out, wire.PeerHint{Node: to, WGPub: wire.WGKey(m.WGPub), TunnelIP: m.MeshAddr(), Endpoint: live})
	}
	for _, h := range e.hints {
		if h.Node != to && len(out) < cap(out) {
			out = append(out, h)
		}
	}
	return out
}

// OnHints notes where a peer sees this host and others. A hint adds no member
// and no key: it only says where else to try one that is certified.
func (e *Endpoints) OnHints(from cluster.NodeID, hints []wire.PeerHint, now time.Duration, dir Directory) {
	for _, h := range hints {
		m, ok := dir.Member(h.Node)
		if !ok || h.Node == from || !h.Endpoint.IsValid() || string(h.WGPub[:]) != string(m.WGPub) ||
			!e.plausible(dir, m, h.Endpoint) {
			continue
		}
		at := netip.AddrPortFrom(h.Endpoint.Addr().Unmap(), h.Endpoint.Port())
		x := sighting{at: at, by: from, when: now}
		if h.Node == e.self {
			e.seenAs[from] = x
		} else if !slices.Contains(m.Endpoints, at) {
			e.keep(h.Node, x)
		}
	}
}

// keep notes a sighting of a member.
func (e *Endpoints) keep(node cluster.NodeID, x sighting) {
	list := e.seen[node]
	if i := slices.IndexFunc(list, func(o sighting) bool { return o.at == x.at }); i >= 0 {
		list[i].when = x.when
		return
	}
	e.changed = true
	list = slices.DeleteFunc(list, func(o sighting) bool { return o.by == x.by })
	if len(list) >= maxObserved {
		oldest := 0
		for i := range list {
			if list[i].when < list[oldest].when {
				oldest = i
			}
		}
		list = slices.Delete(list, oldest, oldest+1)
	}
	e.seen[node] = append(list, x)
}

// plausible refuses endpoints that no WireGuard device can have, above all
// those inside the mesh itself.
func (e *Endpoints) plausible(dir Directory, m cluster.Member, at netip.AddrPort) bool {
	a := at.Addr().Unmap()
	if at.Port() == 0 || a.IsUnspecified() || a.IsMulticast() || a.Zone() != "" {
		return false
	}
	if a.IsLoopback() { // good among the hosts of one machine only
		return slices.ContainsFunc(m.Endpoints, func(o netip.AddrPort) bool { return o.Addr().IsLoopback() })
	}
	_, mesh := dir.At(a)
	return !mesh && !e.ula.Contains(a)
}

// Place is where the world sees this host.
type Place struct {
	At  netip.AddrPort // zero: the others do not agree on one
	NAT bool           // its address is none of this host's own
}

// learnPublic concludes where the world sees this host, once the reporters
// have said the same for publicHold: what one of them makes up, or a change of
// the moment, goes into no announcement.
func (e *Endpoints) learnPublic(now time.Duration, alive int) {
	next := e.agreed(alive)
	if next != e.next {
		e.next, e.nextAt = next, now
	}
	if next != e.public && now-e.nextAt >= publicHold {
		e.public, e.changed = next, true
	}
}

// agreed is what the reporters agree on. At least half of those that see a
// public endpoint must name it, and at least two as soon as there are two that
// could; failing that, the same of those that see a private one. Where there
// are many reporters, what fewer than a quarter name does not count.
func (e *Endpoints) agreed(alive int) Place {
	need := 1
	if len(e.seenAs) > 1 || alive > 1 {
		need = 2
	}
	var out Place
	for _, private := range []bool{false, true} {
		ports, addrs := make(map[netip.AddrPort]int), make(map[netip.Addr]int)
		all := 0
		for _, x := range e.seenAs {
			if x.at.Addr().IsPrivate() == private {
				all++
				ports[x.at]++
				addrs[x.at.Addr()]++
			}
		}
		enough := func(n int) bool { return n >= need && n*2 >= all && n*4 >= len(e.seenAs) }
		// Behind a router that gives a port for each peer the reporters agree
		// on the address alone.
		addr := most(addrs, netip.Addr.Compare)
		if addr.IsValid() && enough(addrs[addr]) {
			out.NAT = len(e.own) > 0 && !slices.Contains(e.own, addr)
			if at := most(ports, netip.AddrPort.Compare); enough(ports[at]) {
				out.At = at
				out.NAT = len(e.own) > 0 && !slices.Contains(e.own, at.Addr())
			}
			return out
		}
	}
	return out
}

// most is what has most votes, the lowest if there are several.
func most[K comparable](votes map[K]int, compare func(a, b K) int) K {
	var best K
	for k, n := range votes {
		if n > votes[best] || n == votes[best] && compare(k, best) < 0 {
			best = k
		}
	}
	return best
}

// Due reports, now and then, that endpoints have changed.
func (e *Endpoints) Due(now time.Duration) bool {
	if !e.changed || now-e.toldAt < observedPause {
		return false
	}
	e.changed, e.toldAt = false, now
	return true
}

// Observed returns where others see node, the latest first, without what it
// announces itself.
func (e *Endpoints) Observed(m cluster.Member) []netip.AddrPort {
	list := slices.Clone(e.seen[m.Node])
	slices.SortFunc(list, func(a, b sighting) int {
		if a.when != b.when {
			return int(b.when - a.when)
		}
		return a.at.Compare(b.at)
	})
	var out []netip.AddrPort
	for _, x := range list {
		if !slices.Contains(m.Endpoints, x.at) {
			out = append(out, x.at)
		}
	}
	return out
}
