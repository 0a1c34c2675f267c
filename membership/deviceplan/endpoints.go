package deviceplan

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/internal/durable"
	"github.com/skein-project/skein/mesh"
)

// Bounds of the endpoint cache.
const (
	endpointsFile = "endpoints.json"
	// cachedEach is how many endpoints of one host are remembered.
	cachedEach   = 3
	maxEndpoints = 1 << 20 // bytes of the file
)

// endpointCache remembers where each peer was last reached, the latest first,
// so that a host finds the others after a restart even if what they announced is
// out of date. It belongs to the planner.
type endpointCache struct {
	file  string
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
	c := &endpointCache{file: filepath.Join(dir, endpointsFile), known: map[cluster.NodeID][]netip.AddrPort{}}
	f, err := os.Open(c.file)
	if errors.Is(err, fs.ErrNotExist) {
		return c, nil
	}
	if err != nil {
		return c, fmt.Errorf("endpoint cache: %w", err)
	}
	defer f.Close()
	var d endpointsOnDisk
	if err := json.NewDecoder(io.LimitReader(f, maxEndpoints)).Decode(&d); err != nil {
		return c, fmt.Errorf("endpoint cache %s: %w", c.file, err)
	}
	if d.Version != 1 {
		return c, fmt.Errorf("endpoint cache %s: version %d, this program reads 1", c.file, d.Version)
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
	data, err := json.Marshal(endpointsOnDisk{Version: 1, Endpoints: c.known})
	if err != nil {
		return fmt.Errorf("endpoint cache: %w", err)
	}
	if err := durable.WriteFile(c.file, append(data, '\n'), 0o600); err != nil {
		return fmt.Errorf("endpoint cache: %w", err)
	}
	c.dirty = false
	return nil
}
