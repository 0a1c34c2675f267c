package status

import (
	"net/http"
	"slices"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/eventlog/state/history"
	"github.com/skein-project/skein/status/door"
	"github.com/skein-project/skein/status/query"
)

// history tells every change of state of a job, read from its events.
func (hs *handlers) history(r *http.Request) (api.JobHistory, error) {
	chunks, err := query.FlagOf(r, "chunks")
	if err != nil {
		return api.JobHistory{}, err
	}
	id, err := hs.jobID(r)
	if err != nil {
		return api.JobHistory{}, err
	}
	job, err := hs.backend.Job(r.Context(), id)
	if err != nil {
		return api.JobHistory{}, err
	}
	at := hs.backend.Oldest().Clone()
	compacted := len(at) > 0
	fold := history.New(id, job.Chunks.Total, chunks, api.MaxTransitions)
	about := event.Subject{Job: string(id)}
	for e, err := range hs.backend.Events(r.Context(), at, job.SubmittedAt.Add(-time.Second), about) {
		if err != nil {
			return api.JobHistory{}, err
		}
		if e.Kind.Authority() && about.Match(&e) && !hs.backend.Void(e) {
			fold.Apply(e)
		}
	}
	out := api.JobHistory{Job: id, Transitions: []api.Transition{}, Compacted: compacted}
	changes, omitted := fold.Changes()
	out.Omitted = omitted
	for _, c := range changes {
		out.Transitions = append(out.Transitions, api.Transition{
			At: c.At.Time(), Node: c.Node, Seq: c.Seq, Term: c.Term, Kind: c.Kind, Chunk: c.Chunk, Attempt: c.Attempt, Worker: c.Worker,
			From: c.From, To: c.To, Actor: c.Actor, Reason: c.Reason,
		})
	}
	return out, r.Context().Err()
}

// maxGroupBody is room for the longest group.
const maxGroupBody = cluster.MaxGroupMembers*(cluster.MaxPrincipal+8) + maxBody

// setGroup says who belongs to a group.
func (hs *handlers) setGroup(r *http.Request, req api.GroupRequest) (api.GroupSet, error) {
	set := event.GroupSet{Group: r.PathValue("name"), Members: slices.Compact(slices.Sorted(slices.Values(req.Members)))}
	if err := set.Check(); err != nil {
		return api.GroupSet{}, api.Errorf(api.CodeInvalidRequest, "%v", err)
	}
	return hs.backend.SetGroup(r.Context(), door.Of(r.Context()).Actor(), set)
}
