package links

import (
	"cmp"
	"slices"
	"time"

	"github.com/skein-project/skein/cluster"
)

const (
	// Fresh is how long a report counts.
	Fresh = 15 * time.Second
	// Many is the number of hosts above which only what is not well is told.
	Many = 64
)

// Table keeps what the hosts reported last. The zero value is empty.
type Table struct {
	hosts map[cluster.NodeID]host
}

// host is what one has reported.
type host struct {
	halves map[cluster.NodeID]Half
	at     time.Duration
}

// Take takes in what a host reports now.
func (t *Table) Take(from cluster.NodeID, r Report, now time.Duration) {
	if t.hosts == nil {
		t.hosts = map[cluster.NodeID]host{}
	}
	t.hosts[from] = host{halves: apply(t.hosts[from].halves, r), at: now}
}

// Keep forgets all hosts but those of a list.
func (t *Table) Keep(list []cluster.NodeID) {
	for node := range t.hosts {
		if !slices.Contains(list, node) {
			delete(t.hosts, node)
		}
	}
}

// Edge is a half of a host, and when it was reported.
type Edge struct {
	From cluster.NodeID
	Half
	Reported time.Duration
	Ever     bool // it was reported
}

// Edges lists the halves between members, as far as they were reported and are
// wanted, sorted by From and To. Those of a host that is silent are unknown: among few members
// all of them, among many the one to self. Of names a host whose halves on both
// sides are wanted; empty: all.
func (t *Table) Edges(self, of cluster.NodeID, members []cluster.NodeID, now time.Duration) []Edge {
	known := map[cluster.NodeID]bool{}
	for _, m := range members {
		known[m] = true
	}
	var out []Edge
	for _, from := range members {
		h, ever := t.hosts[from]
		if ever && now-h.at < Fresh {
			for to, half := range h.halves {
				if known[to] && to != from && wanted(of, from, to) {
					out = append(out, Edge{From: from, Half: half, Reported: h.at, Ever: true})
				}
			}
			continue
		}
		for _, to := range members {
			if to == from || !wanted(of, from, to) || len(members) > Many && to != self && from != of {
				continue
			}
			out = append(out, Edge{From: from, Half: Half{To: to, State: Unknown}, Reported: h.at, Ever: ever})
		}
	}
	slices.SortFunc(out, func(a, b Edge) int {
		return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To))
	})
	return out
}

func wanted(of, from, to cluster.NodeID) bool { return of == "" || from == of || to == of }
