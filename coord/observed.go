package coord

import (
	"net/netip"
	"slices"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/coord/member"
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

// endpoints is what this host knows beyond announcements of where hosts are.
// It belongs to the loop.
type endpoints struct {
	live   map[cluster.NodeID]netip.AddrPort // by the own device, as of this round
	hints  []wire.PeerHint                   // of this round, what is news first
	seen   map[cluster.NodeID][]sighting     // of others, as others see them
	seenAs map[cluster.NodeID]sighting       // of this host, one per reporter
	own    []netip.Addr                      // of this host's interfaces, as of this round
	// public is what this host believes of itself, next what the reporters
	// have agreed on since nextAt.
	public place
	next   place
	nextAt time.Duration
	// changed says that a plan of the mesh would come out differently;
	// toldAt is when that was last said.
	changed bool
	toldAt  time.Duration
}

func newEndpoints() endpoints {
	return endpoints{seen: make(map[cluster.NodeID][]sighting), seenAs: make(map[cluster.NodeID]sighting)}
}

// look begins a round: it asks the device where the peers are, forgets what is
// old and prepares this round's hints.
func (s *Service) look(now time.Duration) {
	e := &s.endpoints
	if s.o.Observed != nil {
		live := s.o.Observed()
		for node, at := range live {
			if p := s.peers[node]; p != nil && e.live[node] != at {
				p.probe.next = 0 // another path, perhaps a narrower one
			}
		}
		e.live = live
	}
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
	if s.o.Interfaces != nil {
		e.own = s.o.Interfaces()
	}
	s.learnPublic(now)
	e.hints = s.roundHints()
}

// roundHints names members in turn: first those that are not where they say,
// then any.
func (s *Service) roundHints() []wire.PeerHint {
	const want = wire.MaxKnownPeers + 1 // the addressee is left out
	var news, rest []wire.PeerHint
	n := len(s.members)
	for i := range n {
		m := s.members[(s.rotate*wire.MaxKnownPeers+i)%n]
		if m.Node == s.o.Self || len(m.WGPub) != len(wire.WGKey{}) {
			continue
		}
		h := wire.PeerHint{Node: m.Node, WGPub: wire.WGKey(m.WGPub), TunnelIP: meshAddr(m)}
		live, ok := s.endpoints.live[m.Node]
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

// hints are what a heartbeat to one member says about members: every second
// time where the member itself is seen, and what this round is about.
func (s *Service) hints(to cluster.NodeID) []wire.PeerHint {
	out := make([]wire.PeerHint, 0, wire.MaxKnownPeers)
	live, ok := s.endpoints.live[to]
	if m, known := s.dir.Load().byNode[to]; ok && known && live.IsValid() && s.rotate%2 == 0 && len(m.WGPub) == len(wire.WGKey{}) {
		out = append(out, wire.PeerHint{Node: to, WGPub: wire.WGKey(m.WGPub), TunnelIP: meshAddr(m), Endpoint: live})
	}
	for _, h := range s.endpoints.hints {
		if h.Node != to && len(out) < cap(out) {
			out = append(out, h)
		}
	}
	return out
}

// onHints notes where a peer sees this host and others. A hint adds no member
// and no key: it only says where else to try one that is certified.
func (s *Service) onHints(from cluster.NodeID, hints []wire.PeerHint, now time.Duration) {
	e := &s.endpoints
	dir := s.dir.Load()
	for _, h := range hints {
		m, ok := dir.byNode[h.Node]
		if !ok || h.Node == from || !h.Endpoint.IsValid() || string(h.WGPub[:]) != string(m.WGPub) ||
			!s.plausible(dir, m, h.Endpoint) {
			continue
		}
		at := netip.AddrPortFrom(h.Endpoint.Addr().Unmap(), h.Endpoint.Port())
		x := sighting{at: at, by: from, when: now}
		if h.Node == s.o.Self {
			e.seenAs[from] = x
		} else if !slices.Contains(m.Endpoints, at) {
			s.sight(h.Node, x)
		}
	}
}

// sight keeps a sighting of a member.
func (s *Service) sight(node cluster.NodeID, x sighting) {
	e := &s.endpoints
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
func (s *Service) plausible(dir *directory, m cluster.Member, at netip.AddrPort) bool {
	a := at.Addr().Unmap()
	if at.Port() == 0 || a.IsUnspecified() || a.IsMulticast() || a.Zone() != "" {
		return false
	}
	if a.IsLoopback() { // good among the hosts of one machine only
		return slices.ContainsFunc(m.Endpoints, func(o netip.AddrPort) bool { return o.Addr().IsLoopback() })
	}
	_, mesh := dir.byAddr[a]
	return !mesh && !member.ULAPrefix(s.o.Verifier.Cluster).Contains(a)
}

// place is where the world sees this host.
type place struct {
	at  netip.AddrPort // zero: the others do not agree on one
	nat bool           // its address is none of this host's own
}

// learnPublic concludes where the world sees this host, once the reporters
// have said the same for publicHold: what one of them makes up, or a change of
// the moment, goes into no announcement.
func (s *Service) learnPublic(now time.Duration) {
	e := &s.endpoints
	next := s.agreed()
	if next != e.next {
		e.next, e.nextAt = next, now
	}
	if next != e.public && now-e.nextAt >= publicHold {
		e.public, e.changed, s.dirty = next, true, true
	}
}

// agreed is what the reporters agree on. At least half of those that see a
// public endpoint must name it, and at least two as soon as there are two that
// could; failing that, the same of those that see a private one. Where there
// are many reporters, what fewer than a quarter name does not count.
func (s *Service) agreed() place {
	e := &s.endpoints
	need := 1
	if len(e.seenAs) > 1 || s.alive() > 1 {
		need = 2
	}
	var out place
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
			out.nat = len(e.own) > 0 && !slices.Contains(e.own, addr)
			if at := most(ports, netip.AddrPort.Compare); enough(ports[at]) {
				out.at = at
				out.nat = len(e.own) > 0 && !slices.Contains(e.own, at.Addr())
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

// alive counts the other hosts that are alive.
func (s *Service) alive() int {
	n := 0
	for node := range s.peers {
		if s.detector.Health(node) == cluster.Alive {
			n++
		}
	}
	return n
}

// tellEndpoints says that endpoints changed, now and then.
func (s *Service) tellEndpoints(now time.Duration) {
	e := &s.endpoints
	if !e.changed || now-e.toldAt < observedPause {
		return
	}
	e.changed, e.toldAt = false, now
	s.dirty, s.tellMembers = true, true
}

// observed returns where others see node, the latest first, without what it
// announces itself.
func (s *Service) observed(m cluster.Member) []netip.AddrPort {
	list := slices.Clone(s.endpoints.seen[m.Node])
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
