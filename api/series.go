package api

import (
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/job"
)

// MaxPoints bounds the spans of a JobSeries; UsualPoints are as many as there are where
// nobody says how many.
const (
	MaxPoints   = 500
	UsualPoints = 120
)

// JobSeries answers GET /v1/jobs/{id}/series: how a job went, by its events. The time
// between From and To is cut into spans of the same length; each list has one value of
// each span, at its end. Counts are those since the beginning.
type JobSeries struct {
	Header
	Job  job.ID    `json:"job"`
	From time.Time `json:"from"` // the submission
	To   time.Time `json:"to"`   // the end, or when it was asked
	// StepSeconds is the length of a span.
	StepSeconds float64 `json:"step_seconds"`
	Total       uint64  `json:"total"` // iterations of the whole job
	// Iterations are those that count, RatePerSecond how many came in the span.
	Iterations    []uint64  `json:"iterations"`
	RatePerSecond []float64 `json:"rate_per_second"`
	// Metrics are the first by name, MetricsOmitted how many more there are.
	Metrics        []MetricSeries  `json:"metrics"`
	MetricsOmitted int             `json:"metrics_omitted"`
	Workers        []WorkerSeries  `json:"workers"`  // who did most first
	Failures       []FailureSeries `json:"failures"` // the most frequent first
	// Compacted says that earlier events are no longer kept: lists of such a job lack
	// what those told.
	Compacted bool `json:"compacted"`
}

// MetricSeries is one metric, merged over what counted by then; null before the first
// result. Low and High are the ends of the normal 95 % interval of the mean, null where
// there is none.
type MetricSeries struct {
	Name string     `json:"name"`
	N    []uint64   `json:"n"` // samples
	Mean []*float64 `json:"mean"`
	Low  []*float64 `json:"low"`
	High []*float64 `json:"high"`
}

// WorkerSeries is one host's part. The last one may be nobody's by name: all others.
type WorkerSeries struct {
	Node       cluster.NodeID `json:"node"`
	Iterations []uint64       `json:"iterations"` // that count
}

// FailureSeries counts attempts that failed, or were taken back, for one reason. The
// last one may have none: all others.
type FailureSeries struct {
	Reason    string   `json:"reason"`
	Reclaimed bool     `json:"reclaimed"`
	Attempts  []uint64 `json:"attempts"`
}
