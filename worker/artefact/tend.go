package artefact

import (
	"context"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/internal/wait"
)

// Periods of fetching and removing artefacts.
const (
	tendEvery    = 3 * time.Second
	collectEvery = 10 * time.Minute
	keepFor      = 24 * time.Hour
)

// Tend fetches the artefacts that are needed, and removes those that are not, that were
// not stored recently and that spare does not want to keep. It ends with ctx.
func (a *Store) Tend(ctx context.Context, needed func() map[cluster.Hash]bool, spare func(cluster.Hash) bool) error {
	tick := wait.NewTicker(tendEvery)
	defer tick.Stop()
	collected := time.Now()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
			tick.Next()
		}
		keep := needed()
		for h := range keep {
			if _, ok := a.Has(h); !ok {
				if err := a.Fetch(ctx, h, nil); err != nil {
					a.log.Debug().Err(err).Msg("artefact of an open job not fetched")
				}
			}
		}
		if time.Since(collected) < collectEvery {
			continue
		}
		collected = time.Now()
		freed, err := a.Collect(func(h cluster.Hash) bool { return keep[h] || spare(h) }, keepFor)
		if err != nil {
			a.log.Warn().Err(err).Msg("artefacts not collected")
		} else if freed > 0 {
			a.log.Info().Int64("bytes", freed).Msg("artefacts collected")
		}
	}
}
