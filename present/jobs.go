package present

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster/job"
)

// Short is a prefix of a job's id that is unique in practice; commands take it.
func Short(id job.ID) string {
	if len(id) > 9 {
		return string(id[:9])
	}
	return string(id)
}

func jobID(id job.ID) Cell { return Cell{Text: Short(id), Exact: string(id)} }

// Percent is the part of a job's iterations that is done.
func Percent(j api.Job) string {
	if j.Iterations.Total == 0 {
		return Unknown
	}
	// Rounded down: 100 % means all.
	return fmt.Sprintf("%d%%", uint64(100*(float64(j.Iterations.Accepted)/float64(j.Iterations.Total))))
}

// Jobs shows a list of jobs.
func Jobs(list api.Jobs) Table {
	type J = api.Job
	observed := list.ObservedAt
	return tableOf(list.Jobs,
		col("ID", Text, 0, func(j J) Cell { return jobID(j.ID) }),
		col("NAME", Text, 0, func(j J) Cell { return word(j.Name) }),
		col("STATE", State, 0, func(j J) Cell { return word(j.State) }),
		col("DONE", Number, 0, func(j J) Cell { return Cell{Text: Percent(j)} }),
		col("ITERATIONS", Number, 7, func(j J) Cell { return whole(j.Iterations.Total) }),
		col("CHUNKS", Text, 5, func(j J) Cell { return Cell{Text: fmt.Sprintf("%d/%d", j.Chunks.Accepted, j.Chunks.Total)} }),
		col("FAILED", Number, 4, func(j J) Cell { return whole(j.Attempts.Failed) }),
		col("RATE", Number, 3, func(j J) Cell { return rate(j.RatePerSecond) }),
		col("ETA", Time, 2, func(j J) Cell { return span(j.ETASeconds) }),
		col("SUBMITTED", Time, 6, func(j J) Cell { return at(j.SubmittedAt, observed) }),
		col("OWNER", Text, 1, func(j J) Cell { return word(j.Owner) }),
	)
}

// MetricNames are the names of a job's metrics, sorted.
func MetricNames(j api.Job) []string { return slices.Sorted(maps.Keys(j.Aggregates)) }

// metric is what came out of a job under one name.
type metric struct {
	name string
	api.Summary
}

func metricsOf(j api.Job) []metric {
	var rows []metric
	for _, name := range MetricNames(j) {
		rows = append(rows, metric{name, j.Aggregates[name]})
	}
	return rows
}

// Metrics shows what came out of a job.
func Metrics(j api.Job) Table {
	rows := metricsOf(j)
	number := func(f float64) Cell { return Cell{Text: Digits(f)} }
	columns := []column[metric]{
		col("METRIC", Text, 0, func(m metric) Cell { return Cell{Text: m.name} }),
		col("MEAN", Number, 0, func(m metric) Cell { return number(m.Mean) }),
		col("SE", Number, 0, func(m metric) Cell { return digits(m.SE) }),
		col("STD", Number, 4, func(m metric) Cell { return digits(m.Std) }),
		col("MIN", Number, 5, func(m metric) Cell { return number(m.Min) }),
		col("MAX", Number, 5, func(m metric) Cell { return number(m.Max) }),
		col("CI95", Text, 3, func(m metric) Cell {
			if m.CI95Low == nil || m.CI95High == nil {
				return Cell{Text: Unknown}
			}
			return Cell{Text: Digits(*m.CI95Low) + ".." + Digits(*m.CI95High)}
		}),
		col("N", Number, 1, func(m metric) Cell { return whole(m.N) }),
	}
	if slices.ContainsFunc(rows, func(m metric) bool { return m.P50 != nil }) {
		columns = append(columns,
			col("P50", Number, 2, func(m metric) Cell { return digits(m.P50) }),
			col("P90", Number, 2, func(m metric) Cell { return digits(m.P90) }),
			col("P99", Number, 2, func(m metric) Cell { return digits(m.P99) }))
	}
	return tableOf(rows, columns...)
}

// Results is Metrics with all that is known, one number a cell.
func Results(j api.Job) Table {
	t := NewTable("METRIC", "N", "MEAN", "SE", "STD", "MIN", "MAX", "CI95_LOW", "CI95_HIGH", "RELATIVE_ERROR", "P50", "P90", "P99", "QUANTILE_ERROR")
	for _, m := range metricsOf(j) {
		row := []string{m.name, strconv.FormatUint(m.N, 10)}
		for _, v := range []*float64{&m.Mean, m.SE, m.Std, &m.Min, &m.Max, m.CI95Low, m.CI95High, m.RelativeError, m.P50, m.P90, m.P99, m.QuantileError} {
			row = append(row, digits(v).In(FormWide))
		}
		t.Add(row...)
	}
	return t
}

// Failures shows the attempts of a job that failed.
func Failures(j api.Job) Table {
	type F = api.Failure
	observed := j.ObservedAt
	return tableOf(j.Failures,
		col("CHUNK", Number, 0, func(f F) Cell { return whole(f.Chunk) }),
		col("ATTEMPT", Number, 2, func(f F) Cell { return whole(f.Attempt) }),
		col("WORKER", Text, 0, func(f F) Cell { return word(f.Worker) }),
		col("WHEN", Time, 1, func(f F) Cell { return at(f.At, observed) }),
		col("FINAL", Text, 3, func(f F) Cell { return yes(f.Final) }),
		col("REASON", Text, 0, func(f F) Cell { return Cell{Text: strings.ReplaceAll(f.Reason, "\n", " ")} }),
	)
}

// Transitions shows how a job came to be what it is.
func Transitions(h api.JobHistory) Table {
	type T = api.Transition
	observed := h.ObservedAt
	chunk := func(r T, n int) Cell {
		if r.Chunk == nil {
			return Cell{Text: Unknown}
		}
		return whole(n)
	}
	return tableOf(h.Transitions,
		col("AT", Time, 0, func(r T) Cell { return at(r.At, observed) }),
		col("TERM", Number, 4, func(r T) Cell { return term(r.Term) }),
		col("CHUNK", Number, 0, func(r T) Cell {
			if r.Chunk == nil {
				return Cell{Text: Unknown}
			}
			return whole(*r.Chunk)
		}),
		col("ATTEMPT", Number, 3, func(r T) Cell { return chunk(r, r.Attempt) }),
		col("WORKER", Text, 1, func(r T) Cell { return word(r.Worker) }),
		col("FROM", State, 2, func(r T) Cell { return word(r.From) }),
		col("TO", State, 0, func(r T) Cell { return Cell{Text: r.To} }),
		col("BY", Text, 5, func(r T) Cell { return word(r.Actor) }),
		col("REASON", Text, 0, func(r T) Cell { return word(r.Reason) }),
	)
}

// Events shows what happened, as sentences.
func Events(list []api.Event, observed time.Time) Table {
	type E = api.Event
	return tableOf(list,
		col("AT", Time, 0, func(e E) Cell { return at(e.Time, observed) }),
		col("TERM", Number, 3, func(e E) Cell { return term(e.Term) }),
		more("KIND", Text, func(e E) Cell { return word(e.Kind) }),
		col("EVENT", Text, 0, func(e E) Cell { return Cell{Text: Sentence(e.Source.Node, e.Kind, e.Body)} }),
	)
}

// Workers shows who runs chunks.
func Workers(w api.Workers) Table {
	type W = api.Worker
	observed := w.ObservedAt
	return tableOf(w.Workers,
		col("WORKER", Text, 0, func(x W) Cell {
			if x.Kind == api.WorkerGroup {
				return Cell{Text: fmt.Sprintf("%s (%d)", x.Node, x.Workers), Exact: string(x.Node)}
			}
			return word(x.Node)
		}),
		more("KIND", Text, func(x W) Cell { return word(x.Kind) }),
		col("LIVE", State, 0, func(x W) Cell { return word(health(x.Live, x.Stopped)) }),
		col("READY", Text, 0, func(x W) Cell {
			if x.Draining {
				return Cell{Text: "draining", Exact: YesNo(x.Ready)}
			}
			return yes(x.Ready)
		}),
		col("PROGRESS", State, 2, func(x W) Cell { return word(x.Progress) }),
		col("VERDICT", Text, 1, func(x W) Cell { return word(x.Verdict) }),
		col("SLOTS", Number, 4, func(x W) Cell { return whole(x.Slots) }),
		col("ASSIGNED", Number, 5, func(x W) Cell { return whole(x.Assigned) }),
		col("BACKLOG", Number, 6, func(x W) Cell {
			return Cell{Text: Count(float64(x.BacklogIterations)), Exact: strconv.FormatUint(x.BacklogIterations, 10)}
		}),
		col("RATE", Number, 3, func(x W) Cell { return rate(x.RatePerSecond) }),
		col("DRAIN", Time, 3, func(x W) Cell {
			if x.Assigned == 0 && x.BacklogIterations == 0 {
				return Cell{Text: Unknown} // idle: there is nothing to be done with
			}
			return span(&x.DrainSeconds)
		}),
		more("VIA", Text, func(x W) Cell { return word(x.Via) }),
		more("WINDOW", Number, func(x W) Cell { return whole(x.Window) }),
		more("CONNECTED", Text, func(x W) Cell { return yes(x.Connected) }),
		more("DRAINING", Text, func(x W) Cell { return yes(x.Draining) }),
		more("TRUSTED", Text, func(x W) Cell { return yes(x.Trusted) }),
		more("EXCLUDED", Time, func(x W) Cell { return ahead(x.ExcludedSeconds, observed) }),
		more("OWNER", Text, func(x W) Cell { return word(x.Owner) }),
		col("ACCEPTS", Text, 7, func(x W) Cell {
			c := word(x.Accept)
			if len(x.AcceptNames) > 0 {
				c.Exact = OrDash(x.Accept + ":" + strings.Join(x.AcceptNames, ","))
			}
			return c
		}),
	)
}
