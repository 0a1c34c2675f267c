package offline

import (
	"context"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/backend/convert"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/eventlog/audit"
	"github.com/skein-project/skein/eventlog/state"
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
	out := replayOf(st)
	out.Host, out.Hindsight = l.id.Node, o.Hindsight
	out.Position, out.LastHLC, out.LastAt = r.Position.String(), r.Last, clockTime(r.Last)
	out.Events, out.Void, out.Malformed, out.StateHash = r.Events, r.Void, r.Malformed, r.StateHash
	return out, nil
}

// clockTime returns the wall time of a clock, nil for none.
func clockTime(c cluster.HLC) *time.Time {
	if c == 0 {
		return nil
	}
	return new(c.Time())
}

// replayOf converts a fold.
func replayOf(st *state.State) api.LogReplay {
	out := api.LogReplay{
		Config: convert.LeaseConfig(st.Voters()), Members: []api.ReplayMember{}, Jobs: []api.ReplayJob{}, Actions: []api.ReplayAction{},
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
