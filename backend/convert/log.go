package convert

import (
	"errors"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/eventlog/audit"
	"github.com/skein-project/skein/eventlog/segment"
	"github.com/skein-project/skein/eventlog/snapshots"
)

// LogVerify converts the report of a check of the log and the error that came with
// it. What is wrong with the log is part of the result; an error means that the log
// could not be checked.
func LogVerify(report audit.Report, err error) (api.LogVerify, error) {
	out := api.LogVerify{
		OK: err == nil, Events: report.Events, SizeBytes: uint64(max(0, report.Bytes)), Segments: report.Segments,
		TornBytes: uint64(max(0, report.TornBytes)), Signatures: report.Heads, Unsigned: report.Unchecked,
		Snapshots: report.Snapshots, Signers: report.Signers, DroppedEvents: report.Dropped, Forked: []event.SourceID{},
		StateHash: report.StateHash, Sources: []api.LogSource{},
	}
	for _, f := range report.Forks {
		out.Forked = append(out.Forked, f.Source)
	}
	for _, h := range report.Ends {
		out.Sources = append(out.Sources, api.LogSource{Source: h.Source, Seq: h.Seq, Hash: h.Hash})
	}
	if corrupt, ok := errors.AsType[*segment.CorruptError](err); ok {
		out.Problem, out.Hint = corrupt.Error(), corrupt.Hint()
		out.BadSource, out.BadSeq = &corrupt.Source, corrupt.Seq
		return out, nil
	}
	return out, err
}

// Snapshot converts what is known of a snapshot.
func Snapshot(s snapshots.Info) api.LogSnapshot {
	return api.LogSnapshot{
		ID: s.ID, Term: s.Term, Events: s.Events, LastAt: s.Clock.Time(), SizeBytes: uint64(max(0, s.Bytes)),
		StateHash: s.State, Signers: s.Signers,
	}
}
