package daemon

import (
	"context"
	"errors"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/eventlog"
)

// journalSize is how many events about the membership may wait for the log.
const journalSize = 256

// note logs a fact about the membership, some time. It never waits: who calls
// it keeps the cluster running. A full queue drops the newest, which the log
// of the daemon then tells.
func (n *node) note(kind cluster.Kind, body any) {
	select {
	case n.notes <- cluster.Draft{Kind: kind, Body: body}:
	default:
		n.log.Error().Str("kind", string(kind)).Msg("event not logged: too many wait")
	}
}

// keepJournal appends what was noted, once the own chain may grow, until ctx
// ends.
func (n *node) keepJournal(ctx context.Context) error {
	select {
	case <-n.joined:
	case <-ctx.Done():
		return ctx.Err()
	}
	if err := n.tellForced(ctx); err != nil && ctx.Err() == nil {
		n.log.Error().Err(err).Msg("forced voters not logged") // again at the next start
	}
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case d := <-n.notes:
			err := retry(ctx, func() error {
				_, err := n.events.Append(ctx, []cluster.Draft{d})
				if errors.Is(err, eventlog.ErrDiskFull) && !d.Kind.Essential() {
					// What is essential must not wait behind it.
					n.log.Error().Err(err).Str("kind", string(d.Kind)).Msg("event not logged")
					return nil
				}
				return err
			}, func(err error) {
				n.log.Warn().Err(err).Str("kind", string(d.Kind)).Msg("event not logged yet")
			})
			if err != nil {
				return err
			}
		}
	}
}

// recordTime bounds the wait for the log before an operator gets the answer.
const recordTime = 2 * time.Second

// record logs what an operator changed. It is in this host's log when record
// returns; if the log does not take it in time it waits as a note.
func (n *node) record(ctx context.Context, kind cluster.Kind, body any) {
	ctx, cancel := context.WithTimeout(ctx, recordTime)
	defer cancel()
	if _, err := n.appendNow(ctx, kind, body); err != nil {
		n.log.Warn().Err(err).Str("kind", string(kind)).Msg("event not logged yet")
		n.note(kind, body)
	}
}

// appendNow logs a fact that must be in the log before its writer goes on, and
// returns its place in the own chain.
func (n *node) appendNow(ctx context.Context, kind cluster.Kind, body any) (uint64, error) {
	select {
	case <-n.joined:
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	events, err := n.events.Append(ctx, []cluster.Draft{{Kind: kind, Body: body}})
	if err != nil {
		return 0, err
	}
	return events[len(events)-1].Seq, nil
}
