package deviceplan

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/netip"
	"slices"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/internal/durable"
	"github.com/skein-project/skein/mesh"
)

// cachedEach is how many endpoints of one host are remembered.
const cachedEach = 3

// endpointCache remembers where each peer was last reached, the latest first,
// so that a host finds the others after a restart even if what they announced is
// out of date. It belongs to the planner.
type endpointCache struct {
	dir   string
	known map[cluster.NodeID][]netip.AddrPort
	dirty bool
}

// endpointsOnDisk is the content of the file.
type endpointsOnDisk struct {
	Version   int                                 `json:"version"`
	Endpoints map[cluster.NodeID][]netip.AddrPort `json:"endpoints"`
}

// openEndpoints reads the cache of a state directory. A cache that cannot be
// read is empty, and the error says why: nothing depends on it.
func openEndpoints(dir string) (*endpointCache, error) {
	c := &endpointCache{dir: dir, known: map[cluster.NodeID][]netip.AddrPort{}}
	var d endpointsOnDisk
	if _, err := durable.Endpoints.ReadJSON(dir, &d); errors.Is(err, fs.ErrNotExist) {
		return c, nil
	} else if err != nil {
		return c, err
	}
	if d.Version != 1 {
		return c, durable.Endpoints.Damaged(dir, "version %d, this program reads 1", d.Version)
	}
	for node, eps := range d.Endpoints {
		eps = slices.DeleteFunc(eps, func(e netip.AddrPort) bool { return !e.IsValid() || e.Port() == 0 })
		if len(eps) > 0 {
			c.known[node] = eps[:min(len(eps), cachedEach)]
		}
	}
	return c, nil
}

// CachedEndpoints reads where the daemon of a state directory last reached each
// peer, the latest first.
func CachedEndpoints(stateDir string) (map[cluster.NodeID][]netip.AddrPort, error) {
	c, err := openEndpoints(stateDir)
	return c.known, err
}

// learn records where peers are reached now.
func (c *endpointCache) learn(peers []mesh.PeerStatus) {
	for _, p := range peers {
		if p.Reachable && p.Endpoint.IsValid() {
			c.reached(p.Node, netip.AddrPortFrom(p.Endpoint.Addr().Unmap(), p.Endpoint.Port()))
		}
	}
}

func (c *endpointCache) reached(node cluster.NodeID, at netip.AddrPort) {
	old := c.known[node]
	if len(old) > 0 && old[0] == at {
		return
	}
	next := []netip.AddrPort{at}
	for _, e := range old {
		if e != at && len(next) < cachedEach {
			next = append(next, e)
		}
	}
	c.known[node], c.dirty = next, true
}

// keep forgets hosts that are not members.
func (c *endpointCache) keep(isMember func(cluster.NodeID) bool) {
	before := len(c.known)
	maps.DeleteFunc(c.known, func(n cluster.NodeID, _ []netip.AddrPort) bool { return !isMember(n) })
	c.dirty = c.dirty || len(c.known) != before
}

// save writes the cache down if it changed.
func (c *endpointCache) save() error {
	if !c.dirty {
		return nil
	}
	if err := durable.Endpoints.WriteJSON(c.dir, endpointsOnDisk{Version: 1, Endpoints: c.known}); err != nil {
		return fmt.Errorf("endpoint cache: %w", err)
	}
	c.dirty = false
	return nil
}
