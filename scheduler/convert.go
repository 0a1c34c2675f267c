package scheduler

import (
	"fmt"
	"slices"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/eventlog/state"
	"github.com/skein-project/skein/scheduler/plan"
	"github.com/skein-project/skein/scheduler/stream"
)

// addedOf turns what the log says of an open job into the plan's terms.
func addedOf(st *state.State, id cluster.JobID) plan.JobAdded {
	j, _ := st.Job(id)
	return plan.JobAdded{Job: id, Spec: j.Spec, Owner: j.Owner, Restore: restoreOf(j, st.Unfinished(id))}
}

func restoreOf(j state.Job, open []state.OpenChunk) *plan.Restore {
	r := &plan.Restore{Failures: j.Failures, Stopped: j.Stopped, Actor: j.StoppedBy}
	if n := len(j.LastFailures); n > 0 {
		f := j.LastFailures[n-1]
		r.Reason = fmt.Sprintf("chunk %d: %s", f.Chunk, f.Reason)
	}
	for _, a := range j.Aggregates {
		r.Metrics = append(r.Metrics, a.Name)
	}
	r.Open = make([]plan.OpenChunk, len(open))
	for i, o := range open {
		c := plan.OpenChunk{Chunk: o.Chunk, GivenUp: o.GivenUp, Disputed: o.Disputed, Attempts: o.Attempts, Failed: o.Failed, Lost: o.Reclaims, FailedOn: o.FailedOn}
		for _, t := range o.Open {
			c.Tries = append(c.Tries, plan.OpenTry{Attempt: t.Attempt, Worker: t.Worker})
		}
		r.Open[i] = c
	}
	return r
}

// holderActor is who stops a job when nobody asked for it.
const holderActor = "holder"

// draftOf turns a decision into an event; not every decision is one.
func draftOf(term cluster.Term, action plan.Action) (cluster.Draft, bool) {
	switch a := action.(type) {
	case plan.Assign:
		return assigned(term, a.Job, a.Worker, a.Chunks), true
	case plan.Adopt:
		return assigned(term, a.Job, a.Worker, a.Chunks), true
	case plan.Accept:
		return cluster.Draft{Term: term, Kind: cluster.KindChunksAccepted, Body: cluster.ChunksAccepted{
			Job: a.Job, Accepts: []cluster.Accept{{Chunk: a.Chunk, Attempt: a.Attempt, Worker: a.Worker, Result: a.Result, Seconds: a.Seconds, Settles: a.Settles}},
		}}, true
	case plan.Fail:
		return cluster.Draft{Term: term, Kind: cluster.KindChunkFailed, Body: cluster.ChunkFailed{
			Job: a.Job, Chunk: a.Chunk, Attempt: a.Attempt, Worker: a.Worker, Reason: a.Reason, Class: a.Class, Final: a.Final, Parked: a.Parked,
		}}, true
	case plan.Reclaim:
		return cluster.Draft{Term: term, Kind: cluster.KindChunkReclaimed, Body: cluster.ChunkReclaimed{
			Job: a.Job, Chunk: a.Chunk, Attempt: a.Attempt, Worker: a.Worker, Reason: a.Reason,
		}}, true
	case plan.Stop:
		return cluster.Draft{Term: term, Kind: cluster.KindJobStopped, Body: cluster.JobStopped{
			Job: a.Job, Actor: holderActor, Reason: a.Reason, Cause: a.Cause,
		}}, true
	case plan.Starved:
		return cluster.Draft{Term: term, Kind: cluster.KindJobQueued, Body: cluster.JobWaiting{
			Job: a.Job, Reason: "no worker is fit for it",
		}}, true
	case plan.Waiting:
		return cluster.Draft{Term: term, Kind: cluster.KindJobQueued, Body: cluster.JobWaiting{Job: a.Job, Reason: a.Reason}}, true
	case plan.Finish:
		return cluster.Draft{Term: term, Kind: cluster.KindJobDone, Body: cluster.JobDone{
			Job: a.Job, State: a.State, Reason: a.Reason,
		}}, true
	}
	return cluster.Draft{}, false
}

// releases are the events of a release, each of a bounded size.
func releases(term cluster.Term, a plan.Released) (out []cluster.Draft) {
	for part := range slices.Chunk(a.Chunks, cluster.MaxReleases) {
		out = append(out, cluster.Draft{Term: term, Kind: cluster.KindChunksReleased, Body: cluster.ChunksReleased{
			Job: a.Job, Attempt: a.Attempt, Chunks: part, Actor: a.Actor,
		}})
	}
	return out
}

func assigned(term cluster.Term, job cluster.JobID, w cluster.NodeID, tries []plan.Try) cluster.Draft {
	body := cluster.ChunksAssigned{Job: job, Assignments: make([]cluster.Assignment, len(tries))}
	for i, t := range tries {
		body.Assignments[i] = cluster.Assignment{Chunk: t.Chunk, Attempt: t.Attempt, Worker: w}
	}
	return cluster.Draft{Term: term, Kind: cluster.KindChunksAssigned, Body: body}
}

// weight is an upper bound of a draft's encoded size, in bytes.
func weight(d cluster.Draft) int {
	const frame = 512
	switch b := d.Body.(type) {
	case cluster.ChunksAssigned:
		return frame + 96*len(b.Assignments)
	case cluster.JobSubmitted:
		n := frame + 6*(cluster.MaxKeyBytes+cluster.MaxJobName+maxOwner)
		for _, set := range [][]string{b.Spec.Zones, b.Spec.Permission.Users, b.Spec.Permission.Groups} {
			for _, v := range set {
				n += 6*len(v) + 8
			}
		}
		return n + frame
	case cluster.ChunksAccepted:
		n := frame
		for _, a := range b.Accepts {
			n += 256 + weightOf(a.Result.Metrics)
		}
		return n
	case cluster.ChunksReleased:
		return frame + 6*maxOwner + 32*len(b.Chunks)
	case cluster.JobsForgotten:
		return frame + 64*len(b.Jobs)
	case cluster.GroupSet:
		n := frame + 6*maxOwner
		for _, m := range b.Members {
			n += 6*len(m) + 4
		}
		return n
	case cluster.JobDone:
		n := frame + 6*cluster.MaxReason
		if b.Result != nil {
			n += weightOf(b.Result.Metrics) + 128*len(b.Result.Workers) + 64*len(b.Result.Skipped) + (64+6*cluster.MaxAnomalyReason)*len(b.Result.Anomalies)
		}
		return n
	}
	return frame + 6*cluster.MaxReason + 6*(cluster.MaxKeyBytes+cluster.MaxJobName)
}

func weightOf(metrics map[string]cluster.Metric) int {
	n := 0
	for name, m := range metrics {
		n += 256 + 6*len(name) + 24*m.Sketch.Buckets() // an escaped byte takes six
	}
	return n
}

func chunkRefs(tries []plan.Try) []stream.ChunkRef {
	out := make([]stream.ChunkRef, len(tries))
	for i, t := range tries {
		out[i] = stream.ChunkRef{Chunk: t.Chunk, Attempt: t.Attempt}
	}
	return out
}

func planRef(r stream.Ref) plan.Ref {
	return plan.Ref{Job: r.Job, Chunk: r.Chunk, Attempt: r.Attempt}
}

func streamRef(r plan.Ref) stream.Ref {
	return stream.Ref{Job: r.Job, Chunk: r.Chunk, Attempt: r.Attempt}
}

func resultOf(w cluster.NodeID, r stream.Result) plan.Result {
	return plan.Result{Ref: planRef(r.Ref), Worker: w, Result: r.Result, Error: r.Error, Class: r.Class, Seconds: r.Seconds}
}

func welcomeOf(w cluster.NodeID, m stream.Welcome) plan.WorkerConnected {
	e := plan.WorkerConnected{Worker: w, Slots: m.Slots, Credits: m.Room, Executors: m.Executors, Draining: m.Draining, Owner: workerOwner(w)}
	for _, r := range m.Assigned {
		e.Assigned = append(e.Assigned, planRef(r))
	}
	return e
}

// holdsOf lists all that a worker has.
func holdsOf(w cluster.NodeID, m stream.Assigned) plan.WorkerHolds {
	e := plan.WorkerHolds{Worker: w}
	for _, r := range m.Refs {
		e.Refs = append(e.Refs, planRef(r))
	}
	for _, r := range m.Kept {
		e.Kept = append(e.Kept, planRef(r))
	}
	return e
}

// statusOf says how a worker gets on.
func statusOf(w cluster.NodeID, m stream.Status) plan.WorkerStatus {
	e := plan.WorkerStatus{Worker: w, Ready: m.Ready, Draining: m.Draining}
	for _, p := range m.Progress {
		e.Progress = append(e.Progress, plan.Progress{Ref: planRef(p.Ref), Done: p.Done})
	}
	return e
}
