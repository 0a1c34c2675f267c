package scheduler

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/eventlog/state"
	"github.com/skein-project/skein/scheduler/plan/step"
	"github.com/skein-project/skein/scheduler/stream"
)

// addedOf turns what the log says of an open job into the plan's terms.
func addedOf(st *state.State, id job.ID) step.JobAdded {
	j, _ := st.Job(id)
	if len(j.Zones) > 0 {
		j.Spec.Zones = j.Zones
	}
	return step.JobAdded{Job: id, Spec: j.Spec, Owner: j.Owner, Restore: restoreOf(j, st.Unfinished(id))}
}

func restoreOf(j state.Job, open []state.OpenChunk) *step.Restore {
	r := &step.Restore{Failures: j.Failures, Stopped: j.Stopped, Actor: j.StoppedBy}
	if n := len(j.LastFailures); n > 0 {
		f := j.LastFailures[n-1]
		r.Reason = fmt.Sprintf("chunk %d: %s", f.Chunk, f.Reason)
	}
	for _, a := range j.Aggregates {
		r.Metrics = append(r.Metrics, a.Name)
	}
	r.Open = make([]step.OpenChunk, len(open))
	for i, o := range open {
		r.Open[i] = step.OpenChunk{
			Chunk: o.Chunk, GivenUp: o.GivenUp, Disputed: o.Disputed, Attempts: o.Attempts, Failed: o.Failed, Lost: o.Reclaims,
			FailedOn: o.FailedOn, Tries: o.Open,
		}
	}
	return r
}

// holderActor is who stops a job when nobody asked for it.
const holderActor = "holder"

// draftOf turns a decision into an event; not every decision is one.
func draftOf(term cluster.Term, action step.Action) (event.Draft, bool) {
	switch a := action.(type) {
	case step.Assign:
		return assigned(term, a.Job, a.Chunks), true
	case step.Adopt:
		return assigned(term, a.Job, a.Chunks), true
	case step.Accept:
		return event.Draft{Term: term, Kind: event.KindChunksAccepted, Body: event.ChunksAccepted{
			Job: a.Job, Accepts: []event.Accept{{Chunk: a.Chunk, Attempt: a.Number, Worker: a.Worker, Result: a.Result, Seconds: a.Seconds, Settles: a.Settles}},
		}}, true
	case step.Fail:
		return event.Draft{Term: term, Kind: event.KindChunkFailed, Body: event.ChunkFailed{
			Job: a.Job, Chunk: a.Chunk, Attempt: a.Number, Worker: a.Worker, Reason: a.Reason, Class: a.Class, Final: a.Final, Parked: a.Parked,
		}}, true
	case step.Reclaim:
		return event.Draft{Term: term, Kind: event.KindChunkReclaimed, Body: event.ChunkReclaimed{
			Job: a.Job, Chunk: a.Chunk, Attempt: a.Number, Worker: a.Worker, Reason: a.Reason,
		}}, true
	case step.Save:
		return event.Draft{Term: term, Kind: event.KindChunkSaved, Body: event.ChunkCheckpointed{
			Job: a.Job, Chunk: a.Chunk, Attempt: a.Number, Worker: a.Worker, Checkpoint: a.Checkpoint,
		}}, true
	case step.Stop:
		return event.Draft{Term: term, Kind: event.KindJobStopped, Body: event.JobStopped{
			Job: a.Job, Actor: holderActor, Reason: a.Reason, Cause: a.Cause,
		}}, true
	case step.Starved:
		return event.Draft{Term: term, Kind: event.KindJobQueued, Body: event.JobWaiting{
			Job: a.Job, Reason: a.Reason,
		}}, true
	case step.Waiting:
		return event.Draft{Term: term, Kind: event.KindJobQueued, Body: event.JobWaiting{Job: a.Job, Reason: clipReason("waits for a decision: " + a.Reason)}}, true
	case step.Finish:
		return event.Draft{Term: term, Kind: event.KindJobDone, Body: event.JobDone{
			Job: a.Job, State: a.State, Reason: a.Reason,
		}}, true
	}
	return event.Draft{}, false
}

// releases are the events of a release, each of a bounded size.
func releases(term cluster.Term, a step.Released) (out []event.Draft) {
	for part := range slices.Chunk(a.Chunks, event.MaxReleases) {
		out = append(out, event.Draft{Term: term, Kind: event.KindChunksReleased, Body: event.ChunksReleased{
			Job: a.Job, Attempt: a.Attempt, Chunks: part, Actor: a.Actor,
		}})
	}
	return out
}

func assigned(term cluster.Term, id job.ID, attempts []job.Attempt) event.Draft {
	return event.Draft{Term: term, Kind: event.KindChunksAssigned, Body: event.ChunksAssigned{Job: id, Assignments: attempts}}
}

// onWire are attempts as a frame names them, beside their job.
func onWire(attempts []job.Attempt) []job.Attempt {
	out := make([]job.Attempt, len(attempts))
	for i, a := range attempts {
		out[i] = job.Attempt{Chunk: a.Chunk, Number: a.Number}
	}
	return out
}

func resultOf(w cluster.NodeID, r stream.Result) step.Result {
	return step.Result{Attempt: r.At(w), Result: r.Result, Error: r.Error, Class: r.Class, Seconds: r.Seconds}
}

// welcomeOf says what a worker is, whose host belongs to owner; empty: to nobody.
func welcomeOf(w cluster.NodeID, m stream.Welcome, owner string) step.WorkerConnected {
	own := ownerOf(w, m, owner)
	return step.WorkerConnected{
		Worker: w, Slots: m.Slots, Credits: m.Room, Executors: m.Executors, Draining: m.Draining, Owner: own.Owner, Accept: own.Accept,
		Memory: m.MemoryBytes, Assigned: m.Assigned, Files: slices.Contains(m.Features, stream.FeatureFiles),
	}
}

// ownerOf says whose worker one is, and whose jobs it runs: a worker that does not
// tell runs everybody's.
func ownerOf(w cluster.NodeID, m stream.Welcome, owner string) step.OwnerChanged {
	accept := job.Acceptance{Accept: job.AcceptPublic}
	if m.Accept != nil {
		accept = m.Accept.Settle(owner)
	}
	return step.OwnerChanged{Worker: w, Owner: cmp.Or(owner, cluster.NodePrincipal(w)), Accept: accept}
}

// holdsOf lists all that a worker has.
func holdsOf(w cluster.NodeID, m stream.Assigned) step.WorkerHolds {
	return step.WorkerHolds{Worker: w, Refs: m.Refs, Kept: m.Kept}
}

// statusOf says how a worker gets on.
func statusOf(w cluster.NodeID, m stream.Status) step.WorkerStatus {
	e := step.WorkerStatus{Worker: w, Ready: m.Ready, Draining: m.Draining, Full: m.Full, Strain: min(uint64(m.Pressure), 1)}
	for _, p := range m.Progress {
		e.Progress = append(e.Progress, step.Progress{Attempt: p.Attempt, Done: p.Done, Ask: askOf(p.Ask), Saved: p.Saved})
	}
	return e
}

// askOf is a request for more time, as far as a time.Duration goes.
func askOf(a *stream.Ask) *step.Ask {
	if a == nil {
		return nil
	}
	return &step.Ask{Number: a.Number, For: time.Duration(min(max(a.Seconds, 0.001), 9e9) * float64(time.Second)), Reason: a.Reason}
}

// extended is how an attempt was answered that asked for more time.
func extended(a step.Extend) event.ChunkExtended {
	return event.ChunkExtended{
		Job: a.Job, Chunk: a.Chunk, Attempt: a.Number, Worker: a.Worker,
		AskedSeconds: a.Asked.Seconds(), Seconds: a.Given.Seconds(), Reason: a.Reason, Denied: a.Denied,
	}
}

// answered is the label of how an attempt was answered that asked for more time.
func answered(a step.Extend) string {
	if a.Given > 0 {
		return "extended"
	}
	return "denied"
}
