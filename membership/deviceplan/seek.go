package deviceplan

import (
	"net/netip"
	"slices"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/discover"
	"github.com/skein-project/skein/mesh"
	"github.com/skein-project/skein/mesh/topo"
)

const (
	// deadTries is after how many handshakes without an answer all endpoints of a peer count
	// as dead: each was tried by then.
	deadTries = topo.MaxEndpoints
	// foundPlaces is how many of a peer's candidates are such that were found, foundTurn how
	// long these are tried before the next ones.
	foundPlaces = 3
	foundTurn   = 40 * time.Second
)

// seeker looks for the peers whose endpoints are all dead. A nil one looks for nobody.
type seeker struct {
	finder *discover.Finder
	dead   map[cluster.NodeID]bool
	turn   int
	turned time.Time
}

// newSeeker returns nil where there is nothing to ask.
func newSeeker(o Options, changed func()) *seeker {
	if len(o.Discover) == 0 {
		return nil
	}
	return &seeker{dead: make(map[cluster.NodeID]bool), finder: discover.New(discover.Options{
		Sources: o.Discover, Changed: changed, Logger: o.Logger,
		Own: func(at netip.AddrPort) bool { return OwnEndpoint(at, o.Port) },
	})}
}

// OwnEndpoint reports that an endpoint is one of this machine, at a port of ours.
func OwnEndpoint(at netip.AddrPort, port uint16) bool {
	return at.Port() == port && (at.Addr().IsLoopback() || slices.Contains(Interfaces(nil), at.Addr()))
}

// seek gives the peers whose endpoints are all dead some that were found, in turn.
func (s *seeker) seek(peers []topo.Peer, seen []mesh.PeerStatus, now time.Time) []topo.Peer {
	if s == nil {
		return peers
	}
	taken := s.look(seen)
	s.finder.Want(len(s.dead) > 0)
	if now.Sub(s.turned) >= foundTurn {
		s.turn, s.turned = s.turn+1, now
	}
	return withFound(peers, s.dead, s.finder.Found(), taken, s.turn)
}

// look takes in which peers are out of reach, and returns where the others are.
func (s *seeker) look(seen []mesh.PeerStatus) (taken []netip.AddrPort) {
	known := make(map[cluster.NodeID]bool, len(seen))
	for _, p := range seen {
		known[p.Node] = true
		switch {
		case p.Reachable:
			delete(s.dead, p.Node)
			taken = append(taken, p.Endpoint)
		case p.Attempts >= deadTries:
			s.dead[p.Node] = true
		}
	}
	for n := range s.dead {
		if !known[n] {
			delete(s.dead, n)
		}
	}
	return taken
}

// withFound adds endpoints that were found to those of dead peers: some of them at a time,
// since a device tries few, and none at which another peer is. Whose they are nobody knows:
// only the host with the peer's key answers.
func withFound(peers []topo.Peer, dead map[cluster.NodeID]bool, found, taken []netip.AddrPort, turn int) []topo.Peer {
	free := slices.DeleteFunc(slices.Clone(found), func(at netip.AddrPort) bool { return slices.Contains(taken, at) })
	if len(free) == 0 {
		return peers
	}
	for i, p := range peers {
		if !dead[p.Node] {
			continue
		}
		list := slices.Clone(p.Endpoints[:min(len(p.Endpoints), topo.MaxEndpoints-foundPlaces)])
		for k := range min(len(free), foundPlaces) {
			if at := free[(turn*foundPlaces+k)%len(free)]; !slices.Contains(list, at) {
				list = append(list, at)
			}
		}
		peers[i].Endpoints = list
	}
	return peers
}
