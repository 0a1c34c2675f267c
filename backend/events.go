package backend

import (
	"context"
	"errors"
	"iter"
	"slices"
	"time"

	"github.com/rs/zerolog"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/backend/past"
	"github.com/skein-project/skein/backend/proof"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/eventlog/snapshots"
	"github.com/skein-project/skein/eventlog/state"
	"github.com/skein-project/skein/eventlog/store"
	"github.com/skein-project/skein/forward"
)

// eventLog is what readers of the event log need.
type eventLog interface {
	past.Log
	proof.Log
	View(func(*state.State))
	Changed() <-chan struct{}
	Snapshots() snapshots.Status
	TakeSnapshot(ctx context.Context, actor string) (snapshots.Info, error)
}

// logs reads the event log, has snapshots of it taken, and has it checked.
type logs struct {
	*past.Past
	*proof.Proofs

	self   cluster.NodeID
	log    eventLog
	roster Roster
	remote *forward.Router
	checks *logChecks
	logger zerolog.Logger
}

// Knows implements status.EventReader.
func (l *logs) Knows(node cluster.NodeID) bool {
	if _, ok := l.roster.Member(node); ok || l.roster.IsRetired(node) {
		return true
	}
	return slices.ContainsFunc(l.log.Heads(), func(h event.Head) bool { return h.Source.Node == node })
}

// Void implements status.EventReader.
func (l *logs) Void(e event.Event) (void bool) {
	l.log.View(func(s *state.State) { void = s.Void(e) })
	return void
}

// Events implements status.EventReader.
func (l *logs) Events(ctx context.Context, at api.Cursor, since time.Time, about event.Subject) iter.Seq2[event.Event, error] {
	return func(yield func(event.Event, error) bool) {
		for e, err := range l.log.After(ctx, at, store.Filter{Since: since, About: about}) {
			if gone, ok := errors.AsType[*store.CompactedError](err); ok {
				p := api.Errorf(api.CodeCompacted, "%v", gone).WithHint("go on with --since %s", gone.Oldest)
				p.Cursor, err = gone.Oldest.String(), p
			}
			if !yield(e, err) || err != nil {
				return
			}
		}
	}
}

// Oldest implements status.EventReader.
func (l *logs) Oldest() api.Cursor { return l.log.Oldest() }

// Changed implements status.EventReader.
func (l *logs) Changed() <-chan struct{} { return l.log.Changed() }
