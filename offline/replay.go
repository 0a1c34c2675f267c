package offline

import (
	"context"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/backend/convert"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/eventlog/audit"
)

// ReplayOptions say how far a log is replayed. At most one of Position, Clock and
// Time is set; none means the whole log.
type ReplayOptions struct {
	Position  event.Cursor // the last event of each source
	Clock     cluster.HLC  // of the last event
	Time      time.Time    // of the last event
	Hindsight bool         // leave out what later terms made void
}

// ReplayLog folds the event log of a state directory up to a position.
func ReplayLog(ctx context.Context, stateDir string, o ReplayOptions) (api.LogReplay, error) {
	l, err := openLogFiles(stateDir)
	if err != nil {
		return api.LogReplay{}, adviseCommand(err)
	}
	at := audit.At{Position: o.Position, Clock: o.Clock, Hindsight: o.Hindsight}
	if !o.Time.IsZero() {
		at.Clock = cluster.NewHLC(o.Time, 0xffff)
	}
	st, r, err := l.dir.ReplayAt(ctx, at)
	if err != nil {
		return api.LogReplay{}, adviseCommand(err)
	}
	return convert.Replay(l.id.Node, o.Hindsight, st, r), nil
}
