package artefact

import (
	"context"
	"slices"
	"time"

	"github.com/skein-project/skein/cluster"
)

// maxNear is how many hosts of the own zone are asked before one of another zone. They are
// drawn by the artefact, so that all hosts of a zone ask the same first.
const maxNear = 3

// nearTime bounds a fetch in the own zone: what is so slow is as far as any other.
const nearTime = 30 * time.Second

// fetchNear fetches h from the own zone, if it is there. Where those in from, which have
// it, are in that zone themselves there is nothing to look for. What does not go well is
// no failure: the others are asked next.
func (a *Store) fetchNear(ctx context.Context, h cluster.Hash, from []cluster.NodeID) bool {
	if a.opts.Near == nil {
		return false
	}
	near := a.opts.Near()
	if slices.ContainsFunc(from, func(n cluster.NodeID) bool { return slices.Contains(near, n) }) {
		return false
	}
	places := make([]Place, len(near))
	for i, n := range near {
		places[i].Node = n
	}
	for _, p := range Copies(h, places, maxNear) {
		limited, cancel := context.WithTimeout(ctx, nearTime)
		err := a.fetchFrom(limited, h, p)
		cancel()
		if err == nil {
			a.log.Debug().Str("peer", string(p)).Str("artefact", h.String()).Msg("artefact fetched in the own zone")
			return true
		}
		if ctx.Err() != nil {
			return false
		}
	}
	return false
}
