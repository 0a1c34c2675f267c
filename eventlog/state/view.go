package state

import (
	"maps"
	"slices"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/job"
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
	// Anomalies are results that are odd beside the others, the first of them.
	Anomalies []job.Anomaly `json:"anomalies,omitempty"`
	// Skipped are the chunks without a result, of a job that has ended.
	Skipped []job.Span `json:"skipped,omitempty"`
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

	key key
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
	Reclaims int              // attempts taken back
	FailedOn []cluster.NodeID // workers on which it failed or was taken back, by name
	Open     []job.Attempt    // attempts that may still run; none: pending
}

func (j *foldedJob) state() job.State {
	switch {
	case !j.doneAt.isZero():
		return j.done.State
	case !j.stop.at.isZero():
		return job.Cancelling
	case j.attempts > 0 || j.count[chunkPending] < j.total:
		return job.Running
	case !j.queued.at.isZero():
		return job.Queued
	}
	return job.Pending
}

// summary is the view without its lists.
func (j *foldedJob) summary() Job {
	v := Job{
		ID: j.id, Spec: j.spec, Owner: j.owner, State: j.state(), Reason: j.done.Reason,
		Queued: j.queued.v, Stopped: !j.stop.at.isZero(), StoppedBy: j.stop.v.actor, StopReason: j.stop.v.reason,
		StopCause: j.stop.v.cause, Chunks: j.total,
		Counts: ChunkCounts{
			Pending: j.count[chunkPending], Assigned: j.count[chunkAssigned],
			Accepted: j.count[chunkAccepted], Failed: j.count[chunkFailed] + j.count[chunkParked], Parked: j.count[chunkParked],
		},
		Iterations: j.iterations, Attempts: j.attempts, Failures: j.failures, Reclaims: j.reclaims,
		Disputed: j.disputed, Seconds: float64(j.micros) / 1e6, Submitted: j.submittedAt.hlc,
		Started: j.firstTry, Progress: j.lastDone, Finished: j.doneAt.hlc,
	}
	if r := j.sealed; r != nil {
		v.Counts = ChunkCounts{Pending: j.total - r.Accepted - r.Failed, Accepted: r.Accepted, Failed: r.Failed}
		v.Iterations, v.Disputed, v.Seconds = r.Iterations, r.Disputed, float64(r.Micros)/1e6
	}
	return v
}

func (j *foldedJob) view() Job {
	v := j.summary()
	v.LastFailures = slices.Clone(j.recent)
	r := j.result()
	for _, name := range slices.Sorted(maps.Keys(r.Metrics)) {
		v.Aggregates = append(v.Aggregates, Named{Name: name, Metric: r.Metrics[name]})
	}
	v.Workers, v.Anomalies = slices.Clone(r.Workers), slices.Clone(r.Anomalies)
	switch {
	case j.sealed != nil:
		v.Skipped = slices.Clone(r.Skipped)
	case v.State.Final():
		v.Skipped = j.skipped()
	}
	return v
}

// Result returns the result of a job so far: what the event that ends it says.
// A stale State has none.
func (s *State) Result(id job.ID) (job.Result, bool) {
	j, ok := s.jobs[id]
	if !ok || !j.known || s.stale {
		return job.Result{}, false
	}
	r := *j.result()
	r.Metrics, r.Workers = maps.Clone(r.Metrics), slices.Clone(r.Workers)
	if j.sealed == nil {
		r.Skipped = j.skipped()
	}
	return r, true
}

// Job returns a copy of one job, aggregates of what is accepted so far
// included.
func (s *State) Job(id job.ID) (Job, bool) {
	j, ok := s.jobs[id]
	if !ok || !j.known {
		return Job{}, false
	}
	return j.view(), true
}

// Jobs returns all jobs in order of submission, without failures, aggregates
// and workers.
func (s *State) Jobs() []Job {
	known := s.known()
	slices.SortFunc(known, func(a, b *foldedJob) int {
		switch {
		case a.submittedAt.less(b.submittedAt):
			return -1
		case b.submittedAt.less(a.submittedAt):
			return 1
		}
		return 0
	})
	out := make([]Job, len(known))
	for i, j := range known {
		out[i] = j.summary()
	}
	return out
}

func (s *State) known() []*foldedJob {
	known := make([]*foldedJob, 0, len(s.jobs))
	for _, j := range s.jobs {
		if j.known {
			known = append(known, j)
		}
	}
	return known
}

// Open returns the open chunks of a job by index: what a new holder needs to
// go on. It is empty for a job that is unknown or done.
func (s *State) Open(id job.ID) []OpenChunk {
	j, ok := s.jobs[id]
	if !ok || !j.known || !j.doneAt.isZero() || j.sealed != nil {
		return nil
	}
	open := make([]OpenChunk, 0, j.count[chunkPending]+j.count[chunkAssigned])
	for i := range j.chunks {
		if c := &j.chunks[i]; c.state() <= chunkAssigned {
			open = append(open, c.openView(i))
		}
	}
	return open
}

// Unfinished returns the open chunks of a job, those that were given up, and
// those of which differing results were accepted: all that the next holder must
// know one by one.
func (s *State) Unfinished(id job.ID) []OpenChunk {
	j, ok := s.jobs[id]
	if !ok || !j.known || !j.doneAt.isZero() || j.sealed != nil {
		return nil
	}
	var out []OpenChunk
	for i := range j.chunks {
		c := &j.chunks[i]
		switch st := c.state(); {
		case st == chunkAccepted && c.disputed:
			out = append(out, OpenChunk{Chunk: i, Disputed: true, Attempts: c.accept.attempt, FailedOn: []cluster.NodeID{c.accept.worker}})
		case st == chunkAccepted:
		default:
			o := c.openView(i)
			o.GivenUp = st > chunkAssigned
			out = append(out, o)
		}
	}
	return out
}

func (c *chunk) openView(index int) OpenChunk {
	o := OpenChunk{Chunk: index, Attempts: c.released}
	for _, t := range c.tries {
		o.Attempts = max(o.Attempts, t.attempt)
		switch {
		case (t.failed || t.reclaimed) && t.attempt <= c.released:
			continue // forgiven
		case t.failed:
			o.Failed++
		case t.reclaimed:
			o.Reclaims++
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
