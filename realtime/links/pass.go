package links

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/skein-project/skein/cluster"
)

const (
	// MaxWhole bounds the hosts of which somebody wants all halves.
	MaxWhole = 256
	// maxOthers bounds the halves in one message about others.
	maxOthers = 2 * MaxHalves
)

// CheckWhole refuses a list that nobody asks for.
func CheckWhole(list []cluster.NodeID) error {
	if len(list) > MaxWhole {
		return fmt.Errorf("all half-edges of %d hosts, at most %d are allowed", len(list), MaxWhole)
	}
	for _, n := range list {
		if _, err := cluster.ParseNodeID(string(n)); err != nil {
			return fmt.Errorf("half-edges of a host: %w", err)
		}
	}
	return nil
}

// Told is what a host told of its halves, passed on by another.
type Told struct {
	From cluster.NodeID `json:"from"`
	Report
}

// Others is what a host passes on at a time.
type Others struct {
	Told []Told `json:"told"`
}

// Check refuses what no host passes on.
func (o Others) Check() error {
	n := 0
	for _, t := range o.Told {
		if _, err := cluster.ParseNodeID(string(t.From)); err != nil {
			return fmt.Errorf("half-edges of others: %w", err)
		}
		if err := t.Check(); err != nil {
			return fmt.Errorf("half-edges of %s: %w", t.From, err)
		}
		n += 1 + len(t.Set) + len(t.Del)
	}
	if n > maxOthers {
		return fmt.Errorf("%d half-edges of others at a time", n)
	}
	return nil
}

// Passer passes on to one reader what a Table has of some hosts. The zero value has passed
// on nothing.
type Passer struct {
	// Few says that only what is not well is passed on, but of the hosts in Whole.
	Few   bool
	Whole []cluster.NodeID
	told  map[cluster.NodeID]host
}

// Pass returns what those hosts reported since the last call: of each the first time all, then
// what changed, and that it reported though nothing changed.
func (p *Passer) Pass(t *Table, of []cluster.NodeID) (out []Others) {
	told, n := map[cluster.NodeID]host{}, 0
	for _, from := range of {
		is, ever := t.hosts[from]
		was, before := p.told[from]
		switch {
		case !ever:
			continue
		case before && was.at == is.at:
			told[from] = was
			continue
		}
		if p.Few && !slices.Contains(p.Whole, from) {
			is.halves = maps.Clone(is.halves)
			maps.DeleteFunc(is.halves, func(_ cluster.NodeID, h Half) bool { return h.Well() })
		}
		told[from] = is
		x := Told{From: from, Report: between(was.halves, is.halves)}
		if x.All = !before; len(x.Set)+len(x.Del) > MaxHalves {
			x.Report = between(nil, is.halves)
			x.All = true
		}
		if size := 1 + len(x.Set) + len(x.Del); out == nil || n+size > maxOthers {
			out, n = append(out, Others{}), 0
		}
		last := &out[len(out)-1]
		last.Told, n = append(last.Told, x), n+1+len(x.Set)+len(x.Del)
	}
	p.told = told
	return out
}

// between is what makes a out of b.
func between(a, b map[cluster.NodeID]Half) (r Report) {
	for to, h := range b {
		if old, known := a[to]; !known || old != h {
			r.Set = append(r.Set, h)
		}
	}
	for to := range a {
		if _, still := b[to]; !still {
			r.Del = append(r.Del, to)
		}
	}
	slices.SortFunc(r.Set, func(x, y Half) int { return strings.Compare(string(x.To), string(y.To)) })
	slices.Sort(r.Del)
	return r
}
