package daemon

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/coord/join"
	"github.com/skein-project/skein/coord/member"
	"github.com/skein-project/skein/eventlog"
	"github.com/skein-project/skein/eventlog/record"
	"github.com/skein-project/skein/eventlog/state"
)

// logFiles is the event log of a state directory, to be read only. A daemon
// may be using it, or its host have left.
type logFiles struct {
	id      *join.Identity
	records member.Records
	roster  roster
	dir     *eventlog.Dir
}

func openLogFiles(stateDir string) (*logFiles, error) {
	id, records, err := join.LoadPast(stateDir)
	if err != nil {
		return nil, err
	}
	l := &logFiles{id: id, records: records, roster: rosterOf(id, records)}
	l.dir, err = eventlog.OpenDir(eventlog.VerifyOptions{
		Dir: logDir(stateDir), Cluster: id.Cluster.String(), Self: id.Node, KeyOf: l.roster.keyOf,
	})
	if err != nil {
		return nil, fmt.Errorf("event log of %s: %w", stateDir, err)
	}
	return l, nil
}

// LogHeads returns the ends of the chains in a state directory, sorted by
// source. Their signatures are not checked.
func LogHeads(stateDir string) ([]cluster.Head, error) {
	l, err := openLogFiles(stateDir)
	if err != nil {
		return nil, adviseCommand(err)
	}
	return l.dir.Heads(), nil
}

// ReplayOptions say up to where a log is replayed. Of Position, Clock and Time
// at most one is set; none means all of it.
type ReplayOptions struct {
	Position  cluster.Cursor // the last event of each source
	Clock     cluster.HLC    // of the last event
	Time      time.Time      // of the last event
	Hindsight bool           // leave out what later terms made void
}

// ReplayLog folds the event log of a state directory up to a position.
func ReplayLog(ctx context.Context, stateDir string, o ReplayOptions) (api.LogReplay, error) {
	l, err := openLogFiles(stateDir)
	if err != nil {
		return api.LogReplay{}, adviseCommand(err)
	}
	at := eventlog.At{Position: o.Position, Clock: o.Clock, Hindsight: o.Hindsight}
	if !o.Time.IsZero() {
		at.Clock = cluster.NewHLC(o.Time, 0xffff)
	}
	st, r, err := l.dir.ReplayAt(ctx, at)
	if err != nil {
		return api.LogReplay{}, adviseCommand(err)
	}
	out := replayOf(st)
	out.Host, out.Hindsight = l.id.Node, o.Hindsight
	out.Position, out.LastHLC, out.LastAt = r.Position.String(), r.Last, clockTime(r.Last)
	out.Events, out.Void, out.Malformed, out.StateHash = r.Events, r.Void, r.Malformed, r.StateHash
	return out, nil
}

// clockTime is the wall part of a clock, nil for none.
func clockTime(c cluster.HLC) *time.Time {
	if c == 0 {
		return nil
	}
	return new(c.Time())
}

// replayOf shows a fold.
func replayOf(st *state.State) api.LogReplay {
	out := api.LogReplay{
		Config: apiConfig(st.Voters()), Members: []api.ReplayMember{}, Jobs: []api.ReplayJob{}, Actions: []api.ReplayAction{},
	}
	if t, ok := st.LastTerm(); ok {
		out.Lease = api.ReplayLease{
			Term: t.Term, Holder: t.Holder, StartedAt: clockTime(t.Started), EndedAt: clockTime(t.Released),
			Reason: t.Reason, Successor: t.Successor,
		}
	}
	for _, m := range st.Members() {
		out.Members = append(out.Members, api.ReplayMember{
			Node: m.Node, Status: string(m.Status), Addr: m.IP4, Sponsor: m.Sponsor, JoinedAt: clockTime(m.Joined),
			Version: m.Version, StartedAt: clockTime(m.Started), Health: m.Health, Publishing: m.Publishing,
			EndedAt: clockTime(m.Ended), EndedBy: m.EndedBy, Reason: m.Reason,
		})
	}
	for _, j := range st.Jobs() {
		out.Jobs = append(out.Jobs, api.ReplayJob{
			ID: j.ID, Name: j.Spec.Name, Owner: j.Owner, State: j.State, Reason: j.Reason, StoppedBy: j.StoppedBy,
			SubmittedAt: clockTime(j.Submitted), FinishedAt: clockTime(j.Finished),
			Chunks: api.ChunkCounts{
				Total: j.Chunks, Pending: j.Counts.Pending, Assigned: j.Counts.Assigned,
				Accepted: j.Counts.Accepted, Failed: j.Counts.Failed,
			},
			Iterations: api.IterationCounts{Total: j.Spec.Iterations, Accepted: j.Iterations},
		})
	}
	for _, a := range st.Actions() {
		out.Actions = append(out.Actions, api.ReplayAction{
			At: a.At.Time(), Node: a.Node, Kind: a.Kind, Actor: a.Actor, Subject: a.Subject, Reason: a.Reason,
		})
	}
	return out
}

// ExportOptions select the events of an export. The zero value exports all.
type ExportOptions struct {
	From  cluster.Cursor // only later events
	Since time.Time      // by the writers' clocks
	Kinds []string       // as api.ParseKinds returns them
	Node  cluster.NodeID // of the source
}

// ExportLog writes the event log of a state directory to w, in the total order
// of events: a line with what is needed to verify them, a line for each event,
// and a line that tells the end. It returns how far it came also with an error,
// so that a later export can go on from there.
func ExportLog(ctx context.Context, stateDir string, o ExportOptions, w io.Writer) (api.ExportEnd, error) {
	l, err := openLogFiles(stateDir)
	if err != nil {
		return api.ExportEnd{}, adviseCommand(err)
	}
	x := &exporter{w: bufio.NewWriterSize(w, 64<<10), at: o.From.Clone()}
	if len(x.at) == 0 {
		x.at = l.dir.Oldest().Clone()
	}
	err = x.run(ctx, l, o)
	if err1 := x.w.Flush(); err1 != nil {
		return api.ExportEnd{Cursor: o.From.String()}, fmt.Errorf("write export: %w", err1) // what is out, nobody knows
	}
	if gone, ok := errors.AsType[*eventlog.CompactedError](err); ok {
		err = &hinted{error: err, hint: fmt.Sprintf("go on with --since %s", gone.Oldest)}
	}
	if err != nil {
		return x.end(), fmt.Errorf("export event log of %s: %w", stateDir, err)
	}
	return x.end(), nil
}

// exporter writes one export.
type exporter struct {
	w   *bufio.Writer
	at  cluster.Cursor // all up to it is written
	n   uint64
	raw []byte
}

func (x *exporter) end() api.ExportEnd { return api.ExportEnd{Events: x.n, Cursor: x.at.String()} }

func (x *exporter) run(ctx context.Context, l *logFiles, o ExportOptions) error {
	head := l.exportHead(o)
	head.From = x.at.String()
	if err := x.line(api.ExportLine{Export: &head}); err != nil {
		return err
	}
	for e, err := range l.dir.After(ctx, x.at, eventlog.Filter{Kinds: o.Kinds, Node: o.Node, Since: o.Since}) {
		if err != nil {
			return err
		}
		if err := x.event(e); err != nil {
			return err
		}
	}
	return x.line(api.ExportLine{End: new(x.end())})
}

func (x *exporter) event(e cluster.Event) (err error) {
	if x.raw, err = record.AppendEvent(x.raw[:0], e); err != nil {
		return err
	}
	if record.HashEvent(e.Prev, x.raw) != e.Hash {
		return fmt.Errorf("%s at seq %d does not encode to the bytes that were read", e.Source, e.Seq)
	}
	x.n++
	return x.line(api.ExportEvent{
		Source: e.Source, Seq: e.Seq, Prev: e.Prev, Time: e.HLC.Time(), HLC: e.HLC, Term: e.Term,
		Kind: e.Kind, Body: e.Body, Hash: e.Hash, Raw: x.raw,
	})
}

func (x *exporter) line(v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if _, err := x.w.Write(b); err != nil {
		return err
	}
	return x.w.WriteByte('\n')
}

// exportHead is the first line of an export.
func (l *logFiles) exportHead(o ExportOptions) api.ExportHead {
	h := api.ExportHead{
		Version: api.ExportVersion, Cluster: l.id.Cluster.String(), ClusterName: l.id.ClusterName, Host: l.id.Node,
		ExportedAt: time.Now().UTC(), Kinds: o.Kinds, Node: o.Node, Heads: l.dir.Heads(),
		RootKey: l.id.RootPub, Certs: []string{}, Keys: []api.ExportKey{},
	}
	if !o.Since.IsZero() {
		h.Since = &o.Since
	}
	for _, m := range l.roster.members {
		h.Keys = append(h.Keys, api.ExportKey{Node: m.Node, Key: m.IDPub})
	}
	for _, r := range l.roster.retired {
		h.Keys = append(h.Keys, api.ExportKey{Node: r.Node, Key: r.Cert.IDPub})
	}
	for _, c := range l.records.Certs {
		h.Certs = append(h.Certs, c.String())
	}
	return h
}
