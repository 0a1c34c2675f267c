package config

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/BurntSushi/toml"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
)

// MaxGroupsFile is the longest file of groups, in bytes.
const MaxGroupsFile = 32 << 20

// flat refuses what lies deeper than the members of a group: the parser takes stack for
// each level of brackets, of which there is an end, and time for each part of a key.
func flat(text []byte) error {
	if bytes.Contains(text, []byte(`"""`)) || bytes.Contains(text, []byte("'''")) {
		return errors.New("texts of several lines are not allowed")
	}
	line, depth := 1, 0
	quote := byte(0) // of the text that i is in
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\n':
			line, quote = line+1, 0
		case quote == '"' && c == '\\':
			i++
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case c == '"' || c == '\'':
			quote = c
		case c == '#':
			for i+1 < len(text) && text[i+1] != '\n' {
				i++
			}
		case c == '[':
			depth++
		case c == ']':
			depth--
		}
		if quote == 0 && (depth > 1 || text[i] == '{' || text[i] == '.') {
			return fmt.Errorf("line %d: want the name of a group and a list of its members", line)
		}
	}
	return nil
}

// ParseGroups reads a file of groups: TOML, each key the name of a group, its
// value the list of its members. Groups and members come back sorted, members
// once. A file of which anything is wrong is refused whole.
func ParseGroups(text []byte) ([]event.GroupSet, error) {
	if len(text) > MaxGroupsFile {
		return nil, fmt.Errorf("groups: %d bytes, at most %d are allowed", len(text), MaxGroupsFile)
	}
	if err := flat(text); err != nil {
		return nil, fmt.Errorf("groups: %w", err)
	}
	var lists map[string][]string
	if _, err := toml.Decode(string(text), &lists); err != nil {
		return nil, fmt.Errorf("groups: %.256s (want lines such as render = [\"uid:1000\", \"node:n4\"])", err.Error())
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
