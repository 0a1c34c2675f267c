package lastseen

import (
	"context"
	"time"

	"github.com/rs/zerolog"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/coord"
	"github.com/skein-project/skein/coord/store"
	"github.com/skein-project/skein/internal/sysclock"
)

// Remembering runs svc and writes down in files at its end when the other voters were last
// heard.
func Remembering(svc *coord.Service, files *store.File, log zerolog.Logger) func(context.Context) error {
	former, _ := files.LoadSeen()
	return func(ctx context.Context) error {
		files.DropSeen()
		err := svc.Run(ctx)
		seen := seenBy(svc.View(), sysclock.Boot(), time.Now())
		if err := files.SaveSeen(seen.After(former)); err != nil {
			log.Warn().Err(err).Msg("not written down when the other voters were last heard")
		}
		return err
	}
}

// seenBy is what v knows of the other voters; now is the local time, wall that of
// the day.
func seenBy(v *coord.View, now time.Duration, wall time.Time) store.Seen {
	seen := store.Seen{Stopped: wall.UTC(), Heard: map[cluster.NodeID]time.Time{}}
	for _, node := range v.Lease.Config.Voters {
		if node == v.Self {
			continue
		}
		seen.Heard[node] = time.Time{}
		if m, ok := v.Member(node); ok && m.Heard {
			seen.Heard[node] = wall.Add(m.LastHeard - now).UTC()
		}
	}
	return seen
}
