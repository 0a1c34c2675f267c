package groupsync

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/skein-project/skein/cluster/event"
)

// Held is a group that waits for an operator: more than half of its members would
// leave.
type Held struct {
	Group   string
	Members []string // that it would have, sorted
	From    string   // the key of the configuration
}

// take hands the groups that differ from those in the log to the holder, but for those
// that wait for an operator. again says that an error may pass.
func (g *Sync) take(ctx context.Context, from string, sets []event.GroupSet) (again bool, err error) {
	var held []Held
	var next []event.GroupSet
	for _, b := range sets {
		switch have := g.o.Have(b.Group); {
		case slices.Equal(have, b.Members):
		case dropsHalf(have, b.Members):
			held = append(held, Held{Group: b.Group, Members: b.Members, From: from})
		default:
			next = append(next, b)
		}
	}
	g.hold(from, held)
	for _, b := range next {
		if again, err := g.o.Set(ctx, b); err != nil {
			return again, fmt.Errorf("group %s: %w", b.Group, err)
		}
	}
	if len(next) > 0 {
		g.o.Logger.Info().Str("from", from).Int("groups", len(next)).Msg("groups set")
	}
	return false, nil
}

// hold keeps what waits of one source.
func (g *Sync) hold(from string, held []Held) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(held) > 0 && !slices.EqualFunc(held, g.held[from], func(a, b Held) bool { return a.Group == b.Group }) {
		g.o.Logger.Warn().Strs("groups", names(held)).Msg("more than half of the members would leave: groups wait for an operator")
	}
	if g.held == nil {
		g.held = map[string][]Held{}
	}
	g.held[from] = held
}

func names(held []Held) []string {
	var list []string
	for _, h := range held {
		list = append(list, h.Group)
	}
	return list
}

// Waiting lists the groups that wait for an operator now, by name. A nil Sync has none.
func (g *Sync) Waiting() []Held {
	if g == nil {
		return nil
	}
	g.mu.Lock()
	all := slices.Concat(g.held["jobs.groups_file"], g.held["jobs.groups_url"])
	g.mu.Unlock()
	all = slices.DeleteFunc(all, func(h Held) bool { return !dropsHalf(g.o.Have(h.Group), h.Members) }) // an operator has decided
	slices.SortStableFunc(all, func(a, b Held) int { return cmp.Compare(a.Group, b.Group) })
	return all
}

// Reasons says which groups wait, if any do.
func (g *Sync) Reasons() []string {
	held := g.Waiting()
	if len(held) == 0 {
		return nil
	}
	return []string{fmt.Sprintf("%s: more than half of the members would leave group %s; it stays until `skein group set --force`",
		held[0].From, strings.Join(names(held), ", "))}
}

// dropsHalf reports that more than half of have are not in next; both are sorted.
func dropsHalf(have, next []string) bool {
	gone := 0
	for _, m := range have {
		if _, stays := slices.BinarySearch(next, m); !stays {
			gone++
		}
	}
	return 2*gone > len(have)
}
