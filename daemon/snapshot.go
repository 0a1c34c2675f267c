package daemon

import (
	"cmp"
	"context"
	"errors"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/eventlog"
)

// orNever turns 0, which a configuration means never by, into what the log
// means never by.
func orNever(n int64) int64 {
	if n == 0 {
		return -1
	}
	return n
}

// Snapshots implements status.SnapshotKeeper.
func (b backend) Snapshots(context.Context) (api.LogSnapshots, error) {
	st := b.events.Snapshots()
	out := api.LogSnapshots{
		Snapshots: []api.LogSnapshot{}, EventsSince: st.Since, ReclaimableBytes: uint64(max(0, st.Reclaimable)),
		DroppedEvents: st.Dropped, ArchivedSegments: st.Archived, Trouble: st.Trouble, Mismatch: st.Mismatch,
	}
	for _, s := range st.Kept {
		out.Snapshots = append(out.Snapshots, apiSnapshot(s))
	}
	return out, nil
}

func apiSnapshot(s eventlog.SnapshotInfo) api.LogSnapshot {
	return api.LogSnapshot{
		ID: s.ID, Term: s.Term, Events: s.Events, LastAt: s.Clock.Time(), SizeBytes: uint64(max(0, s.Bytes)),
		StateHash: s.State, Signers: s.Signers,
	}
}

// TakeSnapshot implements status.SnapshotKeeper.
func (b backend) TakeSnapshot(ctx context.Context, actor string) (api.LogSnapshotTaken, error) {
	reply, err := b.toHolder(ctx, remoteRequest{Actor: actor, Snapshot: &struct{}{}})
	if err != nil {
		return api.LogSnapshotTaken{}, err
	}
	if reply.Snapshot == nil {
		return api.LogSnapshotTaken{}, api.Errorf(api.CodeInternal, "the holder took no snapshot, and did not say why")
	}
	return api.LogSnapshotTaken{LogSnapshot: *reply.Snapshot}, nil
}

// snapshotHere takes a snapshot as the holder.
func (n *node) snapshotHere(ctx context.Context, actor string) remoteReply {
	info, err := n.events.TakeSnapshot(ctx, actor)
	switch {
	case errors.Is(err, eventlog.ErrNotHolder):
		return remoteReply{Problem: api.Errorf(api.CodeNoHolder, "%v", err)}
	case errors.Is(err, context.DeadlineExceeded):
		return remoteReply{Problem: api.Errorf(api.CodeTimeout, "the voters are still folding the log").
			WithHint("the snapshot goes on: see `skein log snapshots`")}
	case err != nil:
		return remoteReply{Problem: api.Errorf(api.CodeConflict, "%v", err).WithHint("see `skein log snapshots` on each voter")}
	}
	n.log.Info().Str("snapshot", info.ID.String()).Str("actor", actor).Msg("snapshot taken on request")
	s := apiSnapshot(info)
	return remoteReply{Snapshot: &s}
}

// judgeSnapshots looks whether snapshots are taken and agreed on.
func judgeSnapshots(f clusterFacts) verdict {
	st, every := f.snapshots, f.snapshotEvery
	switch {
	case st.Mismatch != "":
		return failure("this host folds the log to another state than others: %s", st.Mismatch).
			advise("run `skein log verify --all-hosts`; do versions differ? A host that alone differs is to be set up anew")
	case st.RefusedEvents > 0 && len(st.Refused) > 0:
		last := st.Refused[len(st.Refused)-1]
		return failure("%d events have no effect since they would change what a snapshot holds, the last %s of %s, event %d: %s",
			st.RefusedEvents, cmp.Or(string(last.Kind), "a fork"), last.Source, last.Seq, last.Reason).
			advise("its host acted without the log of a majority: was it restored from a backup, or do two hosts share an identity?")
	case st.Trouble != "":
		return warning("the last snapshot failed: %s", st.Trouble).
			advise("are all voters up, and has each room on its disk? Until it works the log only grows")
	case every > 0 && st.Since > 3*uint64(every):
		return warning("%d events since the last snapshot, one is due after %d", st.Since, every).
			advise("`skein log snapshot` takes one, or says why not")
	case len(st.Kept) == 0:
		return good("none needed yet, %d events", st.Since)
	}
	last := st.Kept[len(st.Kept)-1]
	return good("%d events, signed by %d voters; %d since", last.Events, len(last.Signers), st.Since)
}
