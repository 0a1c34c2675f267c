package backend

import (
	"context"
	"errors"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/backend/convert"
	"github.com/skein-project/skein/eventlog/snapshots"
	"github.com/skein-project/skein/forward"
)

// Snapshots implements status.SnapshotKeeper.
func (l *logs) Snapshots(context.Context) (api.LogSnapshots, error) {
	st := l.log.Snapshots()
	out := api.LogSnapshots{
		Snapshots: []api.LogSnapshot{}, EventsSince: st.Since, ReclaimableBytes: uint64(max(0, st.Reclaimable)),
		DroppedEvents: st.Dropped, ArchivedSegments: st.Archived, Trouble: st.Trouble, Mismatch: st.Mismatch,
	}
	for _, s := range st.Kept {
		out.Snapshots = append(out.Snapshots, convert.Snapshot(s))
	}
	return out, nil
}

// TakeSnapshot implements status.SnapshotKeeper.
func (l *logs) TakeSnapshot(ctx context.Context, actor string) (api.LogSnapshotTaken, error) {
	snapshot, err := forward.AskHolder(ctx, l.remote, forward.Snapshot, actor, forward.None{})
	return api.LogSnapshotTaken{LogSnapshot: snapshot}, err
}

// snapshotHere takes a snapshot; this host is the holder.
func (l *logs) snapshotHere(ctx context.Context, by forward.Asker, _ forward.None) (api.LogSnapshot, error) {
	info, err := l.log.TakeSnapshot(ctx, by.Actor)
	switch {
	case errors.Is(err, snapshots.ErrNotHolder):
		return api.LogSnapshot{}, api.Errorf(api.CodeNoHolder, "%v", err)
	case errors.Is(err, context.DeadlineExceeded):
		return api.LogSnapshot{}, api.Errorf(api.CodeTimeout, "the voters are still folding the log").
			WithHint("the snapshot goes on: see `skein log snapshots`")
	case err != nil:
		return api.LogSnapshot{}, api.Errorf(api.CodeConflict, "%v", err).WithHint("see `skein log snapshots` on each voter")
	}
	l.logger.Info().Str("snapshot", info.ID.String()).Str("actor", by.Actor).Msg("snapshot taken on request")
	return convert.Snapshot(info), nil
}
