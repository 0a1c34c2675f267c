package artefact

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"slices"

	"github.com/skein-project/skein/cluster"
)

// Place is a host that may keep copies.
type Place struct {
	Node cluster.NodeID
	Zone string
}

// Copies says which of the places keep h, n of them or all: those that a draw over hash
// and name puts first, so that all hosts find the same, and few copies move when a host
// comes or goes. The second is in another zone than the first, where there is one.
func Copies(h cluster.Hash, places []Place, n int) []cluster.NodeID {
	type drawn struct {
		Place
		lot [sha256.Size]byte
	}
	list := make([]drawn, len(places))
	for i, p := range places {
		list[i] = drawn{Place: p, lot: sha256.Sum256(append(h[:len(h):len(h)], p.Node...))}
	}
	slices.SortFunc(list, func(a, b drawn) int {
		return cmp.Or(bytes.Compare(b.lot[:], a.lot[:]), cmp.Compare(a.Node, b.Node))
	})
	if len(list) > 2 && n > 1 {
		if i := slices.IndexFunc(list, func(d drawn) bool { return d.Zone != list[0].Zone }); i > 1 {
			other := list[i]
			list = slices.Insert(slices.Delete(list, i, i+1), 1, other)
		}
	}
	out := make([]cluster.NodeID, 0, n)
	for _, d := range list[:min(n, len(list))] {
		out = append(out, d.Node)
	}
	return out
}
