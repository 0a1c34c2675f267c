package election

import (
	"maps"
	"slices"
	"strings"
)

// checks are the reasons why this host does not stand for the lease.
type checks struct {
	failing  map[string]string // self-checks that fail; copied on write
	leaving  bool              // asked to leave: does not stand again
	draining bool              // what the daemon last said
	drained  bool              // draining, and the core was told not to stand
}

// set notes the outcome of a self-check, which is good without a reason; it
// reports whether that is new.
func (c *checks) set(name, reason string) bool {
	if c.failing[name] == reason {
		return false
	}
	c.failing = maps.Clone(c.failing)
	if reason == "" {
		delete(c.failing, name)
	} else {
		c.failing[name] = reason
	}
	return true
}

// reason says why the core must not hold, empty if it may.
func (c *checks) reason() string {
	var reasons []string
	for _, n := range slices.Sorted(maps.Keys(c.failing)) {
		reasons = append(reasons, n+": "+c.failing[n])
	}
	if c.drained {
		reasons = append(reasons, "draining")
	}
	return strings.Join(reasons, "; ")
}
