package groupsync

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/skein-project/skein/cluster/event"
)

// Held is a group that waits for an operator: more than half of those who were its
// members within a day would leave.
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
		switch have, _ := g.o.Have(b.Group); {
		case slices.Equal(have, b.Members):
		case g.drops(b):
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
	all = slices.DeleteFunc(all, func(h Held) bool { // what an operator has decided
		have, _ := g.o.Have(h.Group)
		return slices.Equal(have, h.Members) || !g.drops(event.GroupSet{Group: h.Group, Members: h.Members})
	})
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

// lately is how far back what a group was counts, so that many small losses are held
// as one large one would be.
const lately = 24 * time.Hour

// past is when each was last seen in a group.
type past map[string]time.Time

// fromConfig begins the actor of what a host took from its configuration.
const fromConfig = "config"

// drops reports that more than half of those who were in a group of late would leave,
// since an operator last set it.
func (g *Sync) drops(b event.GroupSet) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return dropsHalf(slices.Sorted(maps.Keys(g.was(b.Group))), b.Members)
}

// remember looks at the groups that were looked at before: another host may have
// changed them.
func (g *Sync) remember() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for group := range g.past {
		if len(g.was(group)) == 0 {
			delete(g.past, group)
		}
	}
}

// was looks at a group now, and returns it with what it was of late; mu is held.
func (g *Sync) was(group string) past {
	have, actor := g.o.Have(group)
	p, now := g.past[group], g.now()
	if p == nil || !strings.HasPrefix(actor, fromConfig) { // an operator has decided
		p = past{}
		g.past[group] = p
	}
	for _, m := range have {
		p[m] = now
	}
	maps.DeleteFunc(p, func(_ string, seen time.Time) bool { return now.Sub(seen) > lately })
	return p
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
