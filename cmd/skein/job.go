package main

import (
	"context"
	"fmt"
	"io"
	"sort"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
)

func (a *app) jobCommand() *cobra.Command {
	return group("job", "Submit, watch and stop jobs", a.jobRun(), a.jobList(), a.jobStatus(), a.jobResults(), a.jobStop(), a.jobRetry())
}

func (a *app) jobList() *cobra.Command {
	var state string
	cmd := &cobra.Command{
		Use: "ls", Aliases: []string{"list"}, Short: "List the jobs, newest first", Args: exactly(0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := oneOf("--state", state, cluster.JobPending, cluster.JobRunning, cluster.JobCompleted,
				cluster.JobFailed, cluster.JobPartial, cluster.JobCancelled, cluster.JobTimeout, cluster.JobQueued, cluster.JobCancelling); err != nil {
				return err
			}
			return a.withClient(cmd.Context(), func(ctx context.Context, c *api.Client) error {
				list, raw, err := fetch[api.Jobs](ctx, c, "/v1/jobs")
				if err != nil {
					return err
				}
				v := view{raw: raw}
				if state != "" {
					kept := []api.Job{}
					for _, j := range list.Jobs {
						if string(j.State) == state {
							kept = append(kept, j)
						}
					}
					list.Jobs = kept
					v = view{body: list}
				}
				v.items = items(list.Jobs)
				v.table = func(f form) table { return jobsTable(list, f) }
				return a.show(v)
			})
		},
	}
	cmd.Flags().StringVar(&state, "state", "", "only jobs in this state")
	return cmd
}

func jobsTable(list api.Jobs, f form) table {
	wide := f.wide()
	t := table{head: []string{"ID", "NAME", "STATE", "DONE", "ITERATIONS", "CHUNKS", "FAILED", "RATE", "ETA", "SUBMITTED", "OWNER"}}
	for _, j := range list.Jobs {
		id := string(j.ID)
		if !wide {
			id = short(j.ID)
		}
		t.add(id, orDash(j.Name), string(j.State), percent(j), strconv.FormatUint(j.Iterations.Total, 10),
			fmt.Sprintf("%d/%d", j.Chunks.Accepted, j.Chunks.Total), strconv.FormatUint(j.Attempts.Failed, 10),
			f.rate(j), f.age(j.ETASeconds), when(j.SubmittedAt, list.ObservedAt, wide), orDash(j.Owner))
	}
	return t
}

// short is a prefix of an id that is unique in practice; commands take it.
func short(id cluster.JobID) string {
	if len(id) > 9 {
		return string(id[:9])
	}
	return string(id)
}

func percent(j api.Job) string {
	if j.Iterations.Total == 0 {
		return unknown
	}
	// Rounded down: 100 % means all.
	return fmt.Sprintf("%d%%", uint64(100*(float64(j.Iterations.Accepted)/float64(j.Iterations.Total))))
}

// rate shows iterations a second.
func (f form) rate(j api.Job) string {
	if f == formTSV && j.RatePerSecond != nil {
		return number(*j.RatePerSecond)
	}
	return rate(j)
}

func rate(j api.Job) string {
	if j.RatePerSecond == nil {
		return unknown
	}
	return count(*j.RatePerSecond) + "/s"
}

func (a *app) jobStatus() *cobra.Command {
	var follow, history, chunks bool
	var metric string
	cmd := &cobra.Command{
		Use: "status ID", Aliases: []string{"show"}, Short: "One job: progress, results, failures with reasons", Args: exactly(1, "the id of a job"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if follow {
				return a.follow(cmd.Context(), args[0], metric)
			}
			return a.withClient(cmd.Context(), func(ctx context.Context, c *api.Client) error {
				if history || chunks {
					return a.jobHistory(ctx, c, args[0], chunks)
				}
				j, raw, err := fetch[api.Job](ctx, c, "/v1/jobs/"+pathEscape(args[0]))
				if err != nil {
					return err
				}
				return a.showJob(j, raw)
			})
		},
	}
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "watch it to its end; exit 8 if it failed")
	cmd.Flags().StringVar(&metric, "metric", "", "metric in the progress line (default: the first)")
	cmd.Flags().BoolVar(&history, "history", false, "every change of its state, from the log")
	cmd.Flags().BoolVar(&chunks, "chunks", false, "with --history, those of its chunks too")
	return cmd
}

func (a *app) jobStop() *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use: "stop ID", Short: "End a job; what it has stays", Args: exactly(1, "the id of a job"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withClient(cmd.Context(), func(ctx context.Context, c *api.Client) error {
				j, err := c.StopJob(ctx, args[0], reason)
				if err != nil {
					return err
				}
				switch a.output {
				case "json", "jsonl":
					return a.show(view{body: j})
				}
				a.note("job %s is %s", j.ID, j.State)
				return nil
			})
		},
	}
	cmd.Flags().StringVar(&reason, "reason", "", "why, for the log")
	return cmd
}

// showJob writes a job in the form that -o asks for.
func (a *app) showJob(j api.Job, raw []byte) error {
	v := view{
		raw: raw, body: j, table: func(form) table { return jobFields(j) },
		toml: func() ([]byte, error) { return specTOML(j.Spec) },
	}
	if a.output == "table" || a.output == "wide" {
		a.jobPage(a.out, j, a.output == "wide")
		return nil
	}
	return a.show(v)
}

func (a *app) jobPage(w io.Writer, j api.Job, wide bool) {
	field := func(name, format string, args ...any) {
		fmt.Fprintf(w, "  %-11s %s\n", name, fmt.Sprintf(format, args...))
	}
	name := ""
	if j.Name != "" {
		name = " " + j.Name
	}
	reason := ""
	if j.Reason != "" {
		reason = ": " + j.Reason
	}
	fmt.Fprintf(w, "job %s%s   %s%s\n", j.ID, name, j.State, reason)
	field("iterations", "%d of %d (%s)", j.Iterations.Accepted, j.Iterations.Total, percent(j))
	field("chunks", "%d of %d accepted, %d assigned, %d pending, %d given up",
		j.Chunks.Accepted, j.Chunks.Total, j.Chunks.Assigned, j.Chunks.Pending, j.Chunks.Failed)
	field("attempts", "%d assigned, %d failed, %d reclaimed", j.Attempts.Assigned, j.Attempts.Failed, j.Attempts.Reclaimed)
	if j.State.Final() {
		field("time", "%s", age(j.ElapsedSeconds))
	} else {
		field("time", "%s, %s, eta %s", age(j.ElapsedSeconds), rate(j), ageOf(j.ETASeconds))
	}
	field("submitted", "%s by %s", when(j.SubmittedAt, j.ObservedAt, wide)+ago(wide), orDash(j.Owner))
	if j.Waits != "" && !j.State.Final() {
		field("waits", "%s", j.Waits)
	}
	if j.StopReason != "" || j.State == cluster.JobCancelling {
		field("stopped", "by %s: %s", orDash(j.StoppedBy), orDash(j.StopReason))
	}
	if len(j.Skipped) > 0 {
		field("skipped", "chunks %s", spansText(j.Skipped))
	}
	for _, x := range j.Anomalies {
		field("odd", "chunk %d of %s: %s", x.Chunk, x.Worker, x.Reason)
	}
	if n := j.Chunks.Parked; n > 0 {
		field("parked", "%s of those given up: no host could run them", plural(n, "chunk"))
	}
	if len(j.Workers) > 0 {
		parts := make([]string, len(j.Workers))
		for i, x := range j.Workers {
			parts[i] = fmt.Sprintf("%s %d", x.Node, x.Accepted)
		}
		field("workers", "%s (chunks accepted)", strings.Join(parts, ", "))
	}
	if wide {
		field("artefact", "%s", j.Spec.Artefact)
		if !j.Spec.Config.IsZero() {
			field("config", "%s", j.Spec.Config)
		}
		field("seed", "%d", j.Spec.Seed)
		field("limits", "%d attempts, %s and %s each", j.Spec.Attempts, j.Spec.Timeout(), bytesOf(j.Spec.MemoryBytes))
	}
	if len(j.Aggregates) > 0 {
		fmt.Fprintln(w)
		a.writeTable(metricsTable(j))
	}
	if len(j.Failures) > 0 {
		fmt.Fprintln(w)
		a.writeTable(failuresTable(j, wide))
	}
}

// jobFields is the page for scripts.
func jobFields(j api.Job) table {
	t := table{head: []string{"KEY", "VALUE"}}
	whole := func(key string, n uint64) { t.add(key, strconv.FormatUint(n, 10)) }
	t.add("id", string(j.ID))
	t.add("name", orDash(j.Name))
	t.add("state", string(j.State))
	t.add("reason", orDash(j.Reason))
	whole("iterations", j.Iterations.Total)
	whole("iterations_accepted", j.Iterations.Accepted)
	whole("chunks", uint64(j.Chunks.Total))
	whole("chunks_accepted", uint64(j.Chunks.Accepted))
	whole("chunks_failed", uint64(j.Chunks.Failed))
	whole("chunks_parked", uint64(j.Chunks.Parked))
	t.add("skipped", orDash(spansText(j.Skipped)))
	whole("attempts", j.Attempts.Assigned)
	whole("attempts_failed", j.Attempts.Failed)
	whole("attempts_reclaimed", j.Attempts.Reclaimed)
	t.add("elapsed_seconds", plainSeconds(j.ElapsedSeconds))
	t.add("rate_per_second", formTSV.rate(j))
	t.add("eta_seconds", formTSV.age(j.ETASeconds))
	t.add("submitted_at", stamp(j.SubmittedAt))
	t.add("owner", orDash(j.Owner))
	for _, name := range metricNames(j) {
		m := j.Aggregates[name]
		for _, v := range []struct {
			key   string
			value *float64
		}{
			{"mean", &m.Mean},
			{"se", m.SE},
			{"std", m.Std},
			{"min", &m.Min},
			{"max", &m.Max},
			{"ci95_low", m.CI95Low},
			{"ci95_high", m.CI95High},
			{"relative_error", m.RelativeError},
			{"p50", m.P50},
			{"p90", m.P90},
			{"p99", m.P99},
		} {
			text := unknown
			if v.value != nil {
				text = number(*v.value)
			}
			t.add("metric."+name+"."+v.key, text)
		}
		whole("metric."+name+".n", m.N)
	}
	return t
}

func ago(wide bool) string {
	if wide {
		return ""
	}
	return " ago"
}

func metricsTable(j api.Job) table {
	t := table{head: []string{"METRIC", "MEAN", "SE", "STD", "MIN", "MAX", "CI95", "N"}}
	quantiles := false
	for _, m := range j.Aggregates {
		quantiles = quantiles || m.P50 != nil
	}
	if quantiles {
		t.head = append(t.head, "P50", "P90", "P99")
	}
	for _, name := range metricNames(j) {
		m := j.Aggregates[name]
		ci := unknown
		if m.CI95Low != nil && m.CI95High != nil {
			ci = number(*m.CI95Low) + ".." + number(*m.CI95High)
		}
		row := []string{name, number(m.Mean), optional(m.SE), optional(m.Std), number(m.Min), number(m.Max), ci, strconv.FormatUint(m.N, 10)}
		if quantiles {
			row = append(row, optional(m.P50), optional(m.P90), optional(m.P99))
		}
		t.add(row...)
	}
	return t
}

func metricNames(j api.Job) []string {
	names := make([]string, 0, len(j.Aggregates))
	for name := range j.Aggregates {
		names = append(names, name)
	}
	sort.Strings(names)
	return names
}

func number(f float64) string { return strconv.FormatFloat(f, 'g', 10, 64) }

func optional(f *float64) string {
	if f == nil {
		return unknown
	}
	return strconv.FormatFloat(*f, 'g', 4, 64)
}

func failuresTable(j api.Job, wide bool) table {
	t := table{head: []string{"CHUNK", "ATTEMPT", "WORKER", "WHEN", "FINAL", "REASON"}}
	for _, f := range j.Failures {
		t.add(strconv.Itoa(f.Chunk), strconv.Itoa(f.Attempt), orDash(f.Worker), when(f.At, j.ObservedAt, wide),
			yesNo(f.Final), strings.ReplaceAll(f.Reason, "\n", " "))
	}
	return t
}
