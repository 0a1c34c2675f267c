package api

import (
	"math"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/flow"
	"github.com/skein-project/skein/cluster/job"
)

// Jobs answers GET /v1/jobs, newest first. The jobs carry no Failures and no
// Aggregates.
type Jobs struct {
	Header
	Jobs []Job `json:"jobs"`
	// Next is, if there are more than limit, what to say as after for those.
	Next job.ID `json:"next,omitempty"`
}

// Job answers GET /v1/jobs/{id} and is each line of GET /v1/jobs/{id}/watch.
type Job struct {
	Header
	ID     job.ID    `json:"id"`
	Name   string    `json:"name"`
	State  job.State `json:"state"`
	Reason string    `json:"reason"` // why it failed or is partial
	// Waits says in words why a job does not begin or go on; Waiting says it of each
	// worker, while no worker may run the job and the holder is reached. StoppedBy and
	// StopReason are of the wish to end it.
	Waits   string   `json:"waits,omitempty"`
	Waiting *Waiting `json:"waiting,omitempty"`
	// Warning says what about the job will not go as was asked, as far as its results
	// show.
	Warning    string `json:"warning,omitempty"`
	StoppedBy  string `json:"stopped_by,omitempty"`
	StopReason string `json:"stop_reason,omitempty"`
	// Skipped are the chunks without a result, of a job that has ended: at most
	// cluster.MaxSpans spans.
	Skipped []job.Span `json:"skipped,omitempty"`
	// Outputs are the files that the accepted chunks left; none: there are none.
	Outputs *job.OutputSum `json:"outputs,omitempty"`
	// Anomalies are results that count and are odd beside the others, the first
	// cluster.MaxAnomalies chunks of them.
	Anomalies   []job.Anomaly `json:"anomalies,omitempty"`
	Owner       string        `json:"owner"`
	Spec        job.Spec      `json:"spec"`
	SubmittedAt time.Time     `json:"submitted_at"`
	FinishedAt  *time.Time    `json:"finished_at"`
	// ElapsedSeconds counts from the submission to the end, or to now.
	ElapsedSeconds float64         `json:"elapsed_seconds"`
	Holder         cluster.NodeID  `json:"holder"` // who schedules it now, empty: nobody known
	Term           cluster.Term    `json:"term"`
	Chunks         ChunkCounts     `json:"chunks"`
	Iterations     IterationCounts `json:"iterations"`
	Attempts       AttemptCounts   `json:"attempts"`
	RatePerSecond  *float64        `json:"rate_per_second"` // iterations; null: not measured
	ETASeconds     *float64        `json:"eta_seconds"`     // null: not known
	Workers        []JobWorker     `json:"workers"`         // sorted by node
	// Zones are the parts of the zones that its hosts are in now, sorted by zone; none:
	// nothing counts yet, or no host of it is in a zone.
	Zones      []JobZone          `json:"zones,omitempty"`
	Aggregates map[string]Summary `json:"aggregates"` // by metric
	// Failures holds the most recent failures, newest first, at most
	// MaxFailures.
	Failures []Failure `json:"failures"`
}

// Waiting says why nothing of a job runs though something is to be done.
type Waiting struct {
	Since    time.Time    `json:"since"`    // as the holder of this term knows it
	Workers  int          `json:"workers"`  // members, those that are dead included
	Eligible int          `json:"eligible"` // of them, those that may run it, busy ones included
	Reasons  []WaitReason `json:"reasons"`  // the most frequent first
	Hint     string       `json:"hint"`     // what to do about it
}

// WaitReason is what keeps some workers from a job: gone, no_stream, draining, unready,
// stuck or distrusted; executor, memory, zone, permission or not_accepted, which last until somebody
// configures something else; or excluded, opinion, reserved or busy. Held, backoff and operator
// keep the job from all workers, and name none.
type WaitReason struct {
	Reason   string           `json:"reason"`
	Text     string           `json:"text"` // the same in words, of the workers
	Workers  int              `json:"workers"`
	Examples []cluster.NodeID `json:"examples"` // the first of them
}

// Released answers POST /v1/jobs/{id}/release.
type Released struct {
	Header
	Job    job.ID `json:"job"`
	Chunks int    `json:"chunks"` // that are tried again
}

// MaxFailures bounds Job.Failures.
const MaxFailures = 32

// ChunkCounts counts the chunks of a job by state.
type ChunkCounts struct {
	Total    int `json:"total"`
	Pending  int `json:"pending"`
	Assigned int `json:"assigned"`
	Accepted int `json:"accepted"`
	Failed   int `json:"failed"` // given up
	Parked   int `json:"parked"` // of those, for want of hosts that could run them
}

// IterationCounts tells how much of a job counts already.
type IterationCounts struct {
	Total    uint64 `json:"total"`
	Accepted uint64 `json:"accepted"`
}

// AttemptCounts counts what was tried.
type AttemptCounts struct {
	Assigned  uint64 `json:"assigned"`
	Failed    uint64 `json:"failed"`
	Reclaimed uint64 `json:"reclaimed"`
}

// JobWorker is one host's part in a job.
type JobWorker struct {
	Node     cluster.NodeID `json:"node"`
	Assigned int            `json:"assigned"` // attempts it has now
	Accepted int            `json:"accepted"` // chunks that count
	Failed   int            `json:"failed"`   // chunks that were given up after its attempt
}

// JobZone is one zone's part in a job.
type JobZone struct {
	Zone       string `json:"zone"`       // empty: hosts in none, or that are gone
	Assigned   int    `json:"assigned"`   // attempts that its hosts have now
	Accepted   int    `json:"accepted"`   // chunks that count
	Iterations uint64 `json:"iterations"` // of these
	Failed     int    `json:"failed"`     // chunks that were given up when its hosts had tried
}

// Failure is one failed or reclaimed attempt.
type Failure struct {
	Chunk   int            `json:"chunk"`
	Attempt int            `json:"attempt"`
	Worker  cluster.NodeID `json:"worker"`
	At      time.Time      `json:"at"`
	Reason  string         `json:"reason"`
	Final   bool           `json:"final"` // the chunk was given up
}

// Summary describes one metric of a job.
type Summary struct {
	N    uint64  `json:"n"`
	Mean float64 `json:"mean"`
	Min  float64 `json:"min"`
	Max  float64 `json:"max"`
	// Std is the sample standard deviation, SE the standard error of the
	// mean, CI95Low and CI95High its normal 95 % interval, RelativeError half the
	// interval's width over the mean; null for n = 1, or if they are no numbers.
	Std           *float64 `json:"std"`
	SE            *float64 `json:"se"`
	CI95Low       *float64 `json:"ci95_low"`
	CI95High      *float64 `json:"ci95_high"`
	RelativeError *float64 `json:"relative_error"`
	// P50, P90 and P99 are quantiles, right to QuantileError of themselves;
	// null if not every chunk told its distribution.
	P50           *float64 `json:"p50"`
	P90           *float64 `json:"p90"`
	P99           *float64 `json:"p99"`
	QuantileError *float64 `json:"quantile_error"`
}

// Summarise turns a merged metric into what is shown of it.
func Summarise(m job.Metric) Summary {
	s := Summary{N: m.N, Mean: m.Mean, Min: m.Min, Max: m.Max}
	if m.Sketch.Count() > 0 {
		at := func(q float64) *float64 { return finite(min(max(m.Sketch.Quantile(q), m.Min), m.Max)) }
		s.P50, s.P90, s.P99, s.QuantileError = at(0.5), at(0.9), at(0.99), finite(m.Sketch.Accuracy())
	}
	low, high := finite(m.Mean-m.CI95()), finite(m.Mean+m.CI95())
	if m.N < 2 || low == nil || high == nil {
		return s
	}
	s.Std, s.SE, s.CI95Low, s.CI95High = finite(m.Std()), finite(m.SE()), low, high
	s.RelativeError = finite(m.RelativeError())
	return s
}

// finite leaves out what JSON has no number for, and what says nothing.
func finite(v float64) *float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return nil
	}
	return &v
}

// Wait says when a submit is acknowledged.
type Wait string

// Acknowledgement stages.
const (
	WaitLocal  Wait = "local"  // durable on the holder
	WaitStable Wait = "stable" // durable on a majority of the voters
)

// SubmitRequest is the body of POST /v1/jobs. Artefact and config must have
// been uploaded to the same host before, or be known in the cluster.
type SubmitRequest struct {
	// Spec.Key makes a retry the same job.
	Spec job.Spec `json:"spec"`
	Wait Wait     `json:"wait,omitempty"` // empty: stable
	// WaitForWorker makes a job that no worker may ever run, because of its executor,
	// its zones or its permission, wait for one instead of being refused.
	WaitForWorker bool `json:"wait_for_worker,omitempty"`
	// ZoneCount makes the holder choose that many zones for the job, out of spec.zones
	// or, without those, out of all that hosts name; the answer and the log show the
	// choice as spec.zones. ZonePrefer names those to prefer over others that are as
	// healthy. Submitted again under the same key, the job stays where it is.
	ZoneCount  int      `json:"zone_count,omitempty"`
	ZonePrefer []string `json:"zone_prefer,omitempty"`
	// Spread is split (the default): one job over its zones; or each: the whole job in each of
	// them, in the zone_count that the holder chooses or, without, in all of spec.zones, or of
	// all that hosts name. That is a run of a workflow with a step for each zone.
	Spread Spread `json:"spread,omitempty"`
	// ZonePolicy goes with spread each: best_effort (the default; the run ends when all zones
	// have), quorum (once most have completed) or fail_fast (with the first failure).
	// ZoneDeadlineSeconds after its beginning a zone's job ends as timeout.
	ZonePolicy          flow.ZonePolicy `json:"zone_policy,omitempty"`
	ZoneDeadlineSeconds float64         `json:"zone_deadline_seconds,omitempty"`
}

// Spread says how a job takes several zones.
type Spread string

// Values of Spread.
const (
	SpreadSplit Spread = "split"
	SpreadEach  Spread = "each"
)

// Zoned is the run that a request with spread each asks for; nil: it asks for a job. What it
// says about zones is checked, its spec is not.
func (r SubmitRequest) Zoned() (*flow.Zoned, error) {
	switch r.Spread {
	case "", SpreadSplit:
		if r.ZonePolicy != "" || r.ZoneDeadlineSeconds != 0 {
			return nil, Errorf(CodeInvalidJob, "zone_policy and zone_deadline_seconds go with spread %s", SpreadEach)
		}
		return nil, nil //nolint:nilnil // no run is asked for
	case SpreadEach:
	default:
		return nil, Errorf(CodeInvalidJob, "spread is %.32q, want %s or %s", string(r.Spread), SpreadSplit, SpreadEach)
	}
	z := flow.Zoned{
		Job: r.Spec, Count: r.ZoneCount, Prefer: r.ZonePrefer, Policy: r.ZonePolicy, DeadlineSeconds: r.ZoneDeadlineSeconds, WaitForWorker: r.WaitForWorker,
	}
	if err := z.Check(); err != nil {
		return nil, Errorf(CodeInvalidJob, "%v", err)
	}
	return &z, nil
}

// SubmitResponse answers POST /v1/jobs.
type SubmitResponse struct {
	Header
	Job job.ID `json:"job,omitempty"` // empty: it is a run
	// Run is that of a job that runs in each zone; those are spec.zones.
	Run flow.RunID `json:"run,omitempty"`
	// Created is false if it existed already under this key.
	Created bool     `json:"created"`
	Spec    job.Spec `json:"spec"` // with its defaults, and the chunks that were chosen
	// Ack is what was waited for; StableVoters counts the voters that have
	// it on disk; of a run at least so many.
	Ack          Wait `json:"ack"`
	StableVoters int  `json:"stable_voters"`
}

// StopRequest is the body of POST /v1/jobs/{id}/stop.
type StopRequest struct {
	Reason string `json:"reason,omitempty"`
}

// Artefact answers PUT /v1/artefacts: the bytes are durable on this host.
type Artefact struct {
	Header
	Hash      cluster.Hash `json:"hash"`
	SizeBytes int64        `json:"size_bytes"`
}
