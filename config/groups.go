package config

import (
	"fmt"
	"maps"
	"slices"

	"github.com/BurntSushi/toml"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
)

// MaxGroupsFile is the longest file of groups, in bytes.
const MaxGroupsFile = 32 << 20

// ParseGroups reads a file of groups: TOML, each key the name of a group, its
// value the list of its members. Groups and members come back sorted, members
// once. A file of which anything is wrong is refused whole.
func ParseGroups(text []byte) ([]event.GroupSet, error) {
	if len(text) > MaxGroupsFile {
		return nil, fmt.Errorf("groups: %d bytes, at most %d are allowed", len(text), MaxGroupsFile)
	}
	var lists map[string][]string
	if _, err := toml.Decode(string(text), &lists); err != nil {
		return nil, fmt.Errorf("groups: %w (want lines such as render = [\"uid:1000\", \"node:n4\"])", err)
	}
	if len(lists) > cluster.MaxGroups {
		return nil, fmt.Errorf("groups: %d groups, at most %d are allowed", len(lists), cluster.MaxGroups)
	}
	out := make([]event.GroupSet, 0, len(lists))
	for _, name := range slices.Sorted(maps.Keys(lists)) {
		g := event.GroupSet{Group: name, Members: slices.Compact(slices.Sorted(slices.Values(lists[name])))}
		if err := g.Check(); err != nil {
			return nil, fmt.Errorf("group %.64q: %w", name, err)
		}
		out = append(out, g)
	}
	return out, nil
}
