package jobs

import (
	"maps"
	"slices"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/eventlog/state/canon"
)

// MaxFailures is how many of the latest failures of a job are kept.
const MaxFailures = 8

// Job is a copy of what is known of one job.
type Job struct {
	ID        job.ID    `json:"id"`
	Spec      job.Spec  `json:"spec"`
	Owner     string    `json:"owner"`
	State     job.State `json:"state"`
	Reason    string    `json:"reason,omitempty"`
	Queued    string    `json:"queued,omitempty"`  // why it waited at first
	Zones     []string  `json:"zones,omitempty"`   // in which what has not begun runs; none: in those of Spec
	Stopped   bool      `json:"stopped,omitempty"` // is to end
	StoppedBy string    `json:"stopped_by,omitempty"`
	// StopReason and StopCause belong to Stopped.
	StopReason string        `json:"stop_reason,omitempty"`
	StopCause  job.StopCause `json:"stop_cause,omitempty"`
	Chunks     int           `json:"chunks"`
	Counts     ChunkCounts   `json:"counts"`
	// Iterations is how many are accepted; Spec.Iterations is the goal.
	Iterations uint64 `json:"iterations"`
	// Attempts, Failures and Reclaims count over all chunks and terms.
	Attempts int `json:"attempts"`
	Failures int `json:"failures"`
	Reclaims int `json:"reclaims"`
	// Disputed chunks have accepted results that differ.
	Disputed     int             `json:"disputed,omitempty"`
	LastFailures []Failure       `json:"last_failures,omitempty"` // the oldest first
	Aggregates   []Named         `json:"aggregates,omitempty"`    // by name
	Workers      []job.WorkShare `json:"workers,omitempty"`       // by name
	GivenUp      []job.FailShare `json:"given_up,omitempty"`      // by name of the worker
	// Anomalies are results that are odd beside the others, the first of them.
	Anomalies []job.Anomaly `json:"anomalies,omitempty"`
	// Skipped are the chunks without a result, of a job that has ended.
	Skipped []job.Span `json:"skipped,omitempty"`
	// Outputs are the files that the accepted chunks left; nil: none.
	Outputs *job.OutputSum `json:"outputs,omitempty"`
	// Seconds is the run time of the accepted attempts, as workers tell it.
	Seconds float64 `json:"seconds"`
	// Started is the first assignment, Progress the last accepted result;
	// zero when there is none.
	Submitted cluster.HLC `json:"submitted"`
	Started   cluster.HLC `json:"started,omitempty"`
	Progress  cluster.HLC `json:"progress,omitempty"`
	Finished  cluster.HLC `json:"finished,omitempty"`
}

// ChunkCounts says how many chunks are in each state. Failed ones are given
// up; of them Parked for want of hosts that could run them.
type ChunkCounts struct {
	Pending  int `json:"pending"`
	Assigned int `json:"assigned"`
	Accepted int `json:"accepted"`
	Failed   int `json:"failed"`
	Parked   int `json:"parked"`
}

// Failure is one attempt that ended without a result.
type Failure struct {
	Chunk   int            `json:"chunk"`
	Attempt int            `json:"attempt"`
	Worker  cluster.NodeID `json:"worker"`
	Reason  string         `json:"reason"`
	Final   bool           `json:"final,omitempty"` // the chunk was given up
	At      cluster.HLC    `json:"at"`

	key canon.Key
}

// Logged is a failed attempt whose words are in an artefact.
type Logged struct {
	job.Attempt
	Log cluster.Hash `json:"log"`

	key canon.Key
}

// Logs lists the first failures of a job whose words outlive the hosts that ran them,
// the oldest first.
func (f *Fold) Logs(id job.ID) []Logged {
	if j, ok := f.jobs[id]; ok {
		return slices.Clone(j.tally.logs)
	}
	return nil
}

// Kept lists the artefacts that are kept as long as their jobs are known, and the files
// that open jobs are given.
func (f *Fold) Kept() map[cluster.Hash]bool {
	out := make(map[cluster.Hash]bool)
	for _, j := range f.jobs {
		for _, l := range j.tally.logs {
			out[l.Log] = true
		}
		for _, l := range j.outputs {
			for _, file := range l.files {
				out[file.Hash] = true
			}
		}
		if !j.ended() {
			for _, h := range j.spec.Files {
				out[h] = true
			}
			for _, s := range j.saves {
				out[s.Hash] = true
			}
		}
	}
	return out
}

// Named is one metric, merged over the chunks.
type Named struct {
	Name string `json:"name"`
	job.Metric
}

// OpenChunk is a chunk that is neither accepted nor given up; Unfinished returns
// others too.
type OpenChunk struct {
	Chunk    int
	GivenUp  bool             // it is tried again only when it is released
	Disputed bool             // accepted, of the only host in FailedOn, with results that differ
	Attempts int              // the highest attempt number used
	Failed   int              // attempts that failed
	Reclaims int              // attempts taken back, but of outside workers, which come and go
	FailedOn []cluster.NodeID // workers on which it failed or was taken back, by name
	Open     []job.Attempt    // attempts that may still run; none: pending
}

func (j *foldedJob) state() job.State {
	switch {
	case j.ended():
		return j.done.V.State
	case !j.stop.At.IsZero():
		return job.Cancelling
	case j.tally.attempts > 0 || j.work.count[chunkPending] < j.total:
		return job.Running
	case !j.queued.At.IsZero():
		return job.Queued
	}
	return job.Pending
}

// summary is the view without its lists.
func (j *foldedJob) summary() Job {
	v := Job{
		ID: j.id, Spec: j.spec, Owner: j.owner, State: j.state(), Reason: j.done.V.Reason,
		Queued: j.queued.V, Stopped: !j.stop.At.IsZero(), StoppedBy: j.stop.V.actor, StopReason: j.stop.V.reason,
		StopCause: j.stop.V.cause, Zones: j.zones.V, Chunks: j.total,
		Counts: ChunkCounts{
			Pending: j.work.count[chunkPending], Assigned: j.work.count[chunkAssigned],
			Accepted: j.work.count[chunkAccepted], Failed: j.work.count[chunkFailed] + j.work.count[chunkParked], Parked: j.work.count[chunkParked],
		},
		Iterations: j.work.iterations, Attempts: j.tally.attempts, Failures: j.tally.failures, Reclaims: j.tally.reclaims,
		Disputed: j.work.disputed, Seconds: float64(j.work.micros) / 1e6, Submitted: j.submittedAt.HLC,
		Started: j.tally.firstTry, Progress: j.tally.lastDone, Finished: j.done.At.HLC,
	}
	if r := j.sealed.V; r != nil {
		v.Counts = ChunkCounts{Pending: j.total - r.Accepted - r.Failed, Accepted: r.Accepted, Failed: r.Failed}
		v.Iterations, v.Disputed, v.Seconds = r.Iterations, r.Disputed, float64(r.Micros)/1e6
	}
	return v
}

func (j *foldedJob) view() Job {
	v := j.summary()
	v.LastFailures = slices.Clone(j.tally.recent)
	r := j.result()
	v.Outputs = r.Outputs
	for _, name := range slices.Sorted(maps.Keys(r.Metrics)) {
		v.Aggregates = append(v.Aggregates, Named{Name: name, Metric: r.Metrics[name]})
	}
	v.Workers, v.Anomalies, v.GivenUp = slices.Clone(r.Workers), slices.Clone(r.Anomalies), slices.Clone(r.GivenUp)
	switch {
	case j.sealed.V != nil:
		v.Skipped = slices.Clone(r.Skipped)
	case v.State.Final():
		v.Skipped = j.work.skipped()
	}
	return v
}

// Result returns the result of a job so far: what the event that ends it says.
func (f *Fold) Result(id job.ID) (job.Result, bool) {
	j, ok := f.jobs[id]
	if !ok {
		return job.Result{}, false
	}
	r := *j.result()
	r.Metrics, r.Workers, r.GivenUp = maps.Clone(r.Metrics), slices.Clone(r.Workers), slices.Clone(r.GivenUp)
	if j.sealed.V == nil {
		r.Skipped = j.work.skipped()
	}
	return r, true
}

// Job returns a copy of one job, aggregates of what is accepted so far
// included.
func (f *Fold) Job(id job.ID) (Job, bool) {
	j, ok := f.jobs[id]
	if !ok {
		return Job{}, false
	}
	return j.view(), true
}

// Jobs returns all jobs in order of submission, without failures, aggregates
// and workers.
func (f *Fold) Jobs() []Job {
	all := slices.SortedFunc(maps.Values(f.jobs), func(a, b *foldedJob) int { return a.submittedAt.Compare(b.submittedAt) })
	out := make([]Job, len(all))
	for i, j := range all {
		out[i] = j.summary()
	}
	return out
}

// Open returns the open chunks of a job by index: what a new holder needs to
// go on. It is empty for a job that is unknown or done.
func (f *Fold) Open(id job.ID) []OpenChunk {
	j, ok := f.jobs[id]
	if !ok || j.ended() {
		return nil
	}
	return j.work.open()
}

// Unfinished returns the open chunks of a job, those that were given up, and
// those of which differing results were accepted: all that the next holder must
// know one by one.
func (f *Fold) Unfinished(id job.ID) []OpenChunk {
	j, ok := f.jobs[id]
	if !ok || j.ended() {
		return nil
	}
	return j.work.unfinished()
}

func (j *foldedJob) ended() bool { return !j.done.At.IsZero() }

func (c *chunk) openView(index int) OpenChunk {
	o := OpenChunk{Chunk: index, Attempts: c.released}
	for _, t := range c.tries {
		o.Attempts = max(o.Attempts, t.attempt)
		switch {
		case (t.failed || t.reclaimed) && t.attempt <= c.released:
			continue // a release took it back
		case t.failed:
			o.Failed++
		case t.reclaimed && !cluster.IsOutside(t.worker):
			o.Reclaims++
		case t.reclaimed:
		case t.assigned:
			o.Open = append(o.Open, job.Attempt{Chunk: index, Number: t.attempt, Worker: t.worker})
		}
		if t.failed || t.reclaimed {
			o.FailedOn = append(o.FailedOn, t.worker)
		}
	}
	slices.Sort(o.FailedOn)
	o.FailedOn = slices.Compact(o.FailedOn)
	slices.SortFunc(o.Open, func(a, b job.Attempt) int { return a.Number - b.Number })
	return o
}
