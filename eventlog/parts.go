package eventlog

import (
	"context"
	"errors"
	"fmt"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/eventlog/replicate"
	"github.com/skein-project/skein/eventlog/snapshots"
	"github.com/skein-project/skein/eventlog/state"
	"github.com/skein-project/skein/eventlog/store"
	"github.com/skein-project/skein/eventlog/wire"
)

// inbound is what replication sees of the writer.
type inbound struct{ l *Log }

// Offer implements replicate.Writer.
func (i inbound) Offer(ctx context.Context, ru *wire.Run) (wait func(context.Context) error, err error) {
	r := &request{run: ru, weight: int64(ru.Bytes), records: len(ru.Events), class: foreign, done: make(chan struct{}, 1)}
	if err := i.l.w.in.put(ctx, r); err != nil {
		return nil, err
	}
	return func(ctx context.Context) error { return i.l.await(ctx, r) }, nil
}

// AddFork implements replicate.Writer.
func (i inbound) AddFork(ctx context.Context, f wire.Fork, p wire.Proof) error {
	return i.l.exclusive(ctx, urgent, func(w *store.Writer) (refused, failed error) {
		if !w.AddFork(f, p) {
			return nil, nil
		}
		err := i.l.fold.fork(f.Source, f.Seq)
		w.Notify()
		return nil, err
	})
}

// Renew implements replicate.Writer.
func (i inbound) Renew(ctx context.Context, inc uint64, reason string) error {
	return i.l.submit(ctx, &request{renew: &renewal{inc: inc, reason: reason}, class: urgent, done: make(chan struct{}, 1)})
}

// exclusive runs f in the place of the writer.
func (l *Log) exclusive(ctx context.Context, c class, f func(*store.Writer) (refused, failed error)) error {
	return l.submit(ctx, &request{exclusive: f, class: c, done: make(chan struct{}, 1)})
}

// admit says whether n bytes of another host's chain may be stored.
func (l *Log) admit(node cluster.NodeID, n int64) (reason string, err error) {
	if err := l.room.Admit(node, n); err != nil {
		return "quota", err
	}
	if !l.room.Takes(true) {
		return "disk_full", fmt.Errorf("%w: no room for events of others", ErrDiskFull)
	}
	return "", nil
}

// snapshotLog is what snapshots see of the log.
type snapshotLog struct{ *Log }

// Exclusive implements snapshots.Log.
func (s snapshotLog) Exclusive(ctx context.Context, f func(*store.Writer) (refused, failed error)) error {
	return s.exclusive(ctx, ordinary, f)
}

// GoOn implements snapshots.Log.
func (s snapshotLog) GoOn(st *state.State, base *event.SnapshotTaken) error {
	return s.fold.goOn(st, base)
}

// snapshotNetwork is what snapshots see of replication.
type snapshotNetwork struct{ *replicate.Replicator }

// Dial implements snapshots.Network.
func (n snapshotNetwork) Dial(ctx context.Context, to cluster.NodeID) (snapshots.Conn, error) {
	return n.Replicator.Follow(ctx, to)
}

// snapshotAnswers is what replication sees of snapshots.
type snapshotAnswers struct{ l *Log }

// Answer implements replicate.Snapshots.
func (s snapshotAnswers) Answer(from cluster.NodeID, m wire.Message) (wire.Type, []byte, error) {
	return s.l.snaps.Answer(from, m)
}

// Missed implements replicate.Snapshots. What a repair cut off is fetched from
// where it was cut as long as somebody may have it.
func (s snapshotAnswers) Missed(peer cluster.NodeID, err error) {
	if !errors.Is(err, wire.ErrDropped) || s.l.mend.Dropped(peer) {
		s.l.snaps.Missed(peer, err)
	}
}
