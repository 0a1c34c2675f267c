package convert

import (
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/eventlog/audit"
	"github.com/skein-project/skein/eventlog/state"
)

// clockTime returns the wall time of a clock, nil for none.
func clockTime(c cluster.HLC) *time.Time {
	if c == 0 {
		return nil
	}
	return new(c.Time())
}

// Replay says what the log of host was when folded up to a position.
func Replay(host cluster.NodeID, hindsight bool, st *state.State, r audit.Replayed) api.LogReplay {
	out := api.LogReplay{
		Host: host, Hindsight: hindsight, Position: r.Position.String(), LastHLC: r.Last, LastAt: clockTime(r.Last),
		Events: r.Events, Void: r.Void, Malformed: r.Malformed, StateHash: r.StateHash,
		Config: LeaseConfig(st.Voters()), Members: []api.ReplayMember{}, Jobs: []api.ReplayJob{}, Actions: []api.ReplayAction{},
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
