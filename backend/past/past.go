package past

import (
	"context"
	"errors"
	"iter"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/backend/convert"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/eventlog/audit"
	"github.com/skein-project/skein/eventlog/state"
	"github.com/skein-project/skein/eventlog/store"
)

// Log is the event log of this host.
type Log interface {
	ReplayAt(ctx context.Context, at audit.At) (*state.State, audit.Replayed, error)
	Heads() []event.Head
	Oldest() event.Cursor
	Rewind() *audit.Rewind
	LastBefore(h event.Head, before func(cluster.HLC) bool) (uint64, error)
	After(ctx context.Context, at event.Cursor, f store.Filter) iter.Seq2[event.Event, error]
}

// Past answers what is asked about the past of the log.
type Past struct {
	self   cluster.NodeID
	log    Log
	rewind Rewind
	turn   *turn

	words words
}

// Rewind replays a log up to the last event whose clock is at most at.
type Rewind func(ctx context.Context, at cluster.HLC) (*state.State, audit.Replayed, error)

// New returns a Past of the log of host self.
func New(self cluster.NodeID, log Log, rewind Rewind) *Past {
	return &Past{self: self, log: log, rewind: rewind, turn: newTurn(), words: words{list: map[span]word{}}}
}

// Replay implements status/past.Log.
func (p *Past) Replay(ctx context.Context, at api.ReplayAt) (api.LogReplay, error) {
	leave, err := p.turn.enter(ctx)
	if err != nil {
		return api.LogReplay{}, err
	}
	defer leave()
	to := audit.At{Position: at.Position, Hindsight: at.Hindsight}
	if !at.Time.IsZero() {
		to.Clock = cluster.NewHLC(at.Time, 0xffff)
	}
	var st *state.State
	var r audit.Replayed
	if to.Clock > 0 && !to.Hindsight {
		st, r, err = p.rewind(ctx, to.Clock)
	} else {
		st, r, err = p.log.ReplayAt(ctx, to)
	}
	if err != nil {
		return api.LogReplay{}, problem(err)
	}
	return convert.Replay(p.self, at.Hindsight, st, r), nil
}

func problem(err error) error {
	if gone, ok := errors.AsType[*store.CompactedError](err); ok {
		return api.Errorf(api.CodeCompacted, "%v", gone).WithHint("ask for a time after %s", gone.Oldest)
	}
	if errors.Is(err, audit.ErrPosition) {
		return api.Errorf(api.CodeInvalidRequest, "at: %s", err)
	}
	return err
}
