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

// nearest lists hosts of the own zone that are asked for h before those in from, which have
// it. Where one of these is in that zone itself there is nothing to look for.
func (a *Store) nearest(h cluster.Hash, from []cluster.NodeID) []cluster.NodeID {
	if a.opts.Near == nil {
		return nil
	}
	near := a.opts.Near()
	if slices.ContainsFunc(from, func(n cluster.NodeID) bool { return slices.Contains(near, n) }) {
		return nil
	}
	places := make([]Place, len(near))
	for i, n := range near {
		places[i].Node = n
	}
	return Copies(h, places, maxNear)
}

// fetchNear fetches h from the own zone, if it is there. What does not go well is no
// failure: the others are asked next.
func (a *Store) fetchNear(ctx context.Context, h cluster.Hash, from []cluster.NodeID) bool {
	for _, p := range a.nearest(h, from) {
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
