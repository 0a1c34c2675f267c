package jobs

import (
	"context"
	"fmt"
	"io"
	"sort"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/cmd/skein/cli"
	"github.com/skein-project/skein/present"
)

func jobCommand(a *cli.App, d Options) *cobra.Command {
	return cli.Group("job", "Submit, watch and stop jobs", jobRun(a, d), jobList(a), jobStatus(a), jobResults(a), jobStop(a), jobRetry(a))
}

func jobList(a *cli.App) *cobra.Command {
	var state string
	cmd := &cobra.Command{
		Use: "ls", Aliases: []string{"list"}, Short: "List the jobs, newest first", Args: cli.Exactly(0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := cli.OneOf("--state", state, job.Pending, job.Running, job.Completed,
				job.Failed, job.Partial, job.Cancelled, job.TimedOut, job.Queued, job.Cancelling); err != nil {
				return err
			}
			return a.WithClient(cmd.Context(), func(ctx context.Context, c *api.Client) error {
				list, raw, err := cli.Fetch[api.Jobs](ctx, c, "/v1/jobs")
				if err != nil {
					return err
				}
				v := cli.View{Raw: raw}
				if state != "" {
					kept := []api.Job{}
					for _, j := range list.Jobs {
						if string(j.State) == state {
							kept = append(kept, j)
						}
					}
					list.Jobs = kept
					v = cli.View{Body: list}
				}
				v.Items = cli.Items(list.Jobs)
				v.Table = func(f cli.Form) cli.Table { return jobsTable(list, f) }
				return a.Show(v)
			})
		},
	}
	cmd.Flags().StringVar(&state, "state", "", "only jobs in this state")
	return cmd
}

func jobsTable(list api.Jobs, f cli.Form) cli.Table {
	wide := f.Wide()
	t := cli.Table{Head: []string{"ID", "NAME", "STATE", "DONE", "ITERATIONS", "CHUNKS", "FAILED", "RATE", "ETA", "SUBMITTED", "OWNER"}}
	for _, j := range list.Jobs {
		id := string(j.ID)
		if !wide {
			id = cli.Short(j.ID)
		}
		t.Add(id, cli.OrDash(j.Name), string(j.State), cli.Percent(j), strconv.FormatUint(j.Iterations.Total, 10),
			fmt.Sprintf("%d/%d", j.Chunks.Accepted, j.Chunks.Total), strconv.FormatUint(j.Attempts.Failed, 10),
			rateIn(f, j), f.Age(j.ETASeconds), cli.When(j.SubmittedAt, list.ObservedAt, wide), cli.OrDash(j.Owner))
	}
	return t
}

// rate shows iterations a second.
func rateIn(f cli.Form, j api.Job) string {
	if f == cli.FormTSV && j.RatePerSecond != nil {
		return number(*j.RatePerSecond)
	}
	return rate(j)
}

func rate(j api.Job) string {
	if j.RatePerSecond == nil {
		return present.Unknown
	}
	return cli.Count(*j.RatePerSecond) + "/s"
}

func jobStatus(a *cli.App) *cobra.Command {
	var follow, history, chunks bool
	var metric string
	cmd := &cobra.Command{
		Use: "status ID", Aliases: []string{"show"}, Short: "One job: progress, results, failures with reasons", Args: cli.Exactly(1, "the id or the name of a job"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if follow {
				return followJob(a, cmd.Context(), args[0], metric)
			}
			return a.WithClient(cmd.Context(), func(ctx context.Context, c *api.Client) error {
				if history || chunks {
					return jobHistory(a, ctx, c, args[0], chunks)
				}
				j, raw, err := cli.Fetch[api.Job](ctx, c, "/v1/jobs/"+pathEscape(args[0]))
				if err != nil {
					return err
				}
				return showJob(a, j, raw)
			})
		},
	}
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "watch it to its end; exit 8 if it failed")
	cmd.Flags().StringVar(&metric, "metric", "", "metric in the progress line (default: the first)")
	cmd.Flags().BoolVar(&history, "history", false, "every change of its state, from the log")
	cmd.Flags().BoolVar(&chunks, "chunks", false, "with --history, also those of its chunks")
	return cmd
}

func jobStop(a *cli.App) *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use: "stop ID", Short: "Stop a job; it keeps the results that it has", Args: cli.Exactly(1, "the id or the name of a job"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.WithClient(cmd.Context(), func(ctx context.Context, c *api.Client) error {
				j, err := c.StopJob(ctx, args[0], reason)
				if err != nil {
					return err
				}
				switch a.Output {
				case "json", "jsonl":
					return a.Show(cli.View{Body: j})
				}
				a.Note("job %s is %s", j.ID, j.State)
				return nil
			})
		},
	}
	cmd.Flags().StringVar(&reason, "reason", "", "why, for the log")
	return cmd
}

// showJob writes a job in the form that -o asks for.
func showJob(a *cli.App, j api.Job, raw []byte) error {
	v := cli.View{
		Raw: raw, Body: j, Table: func(cli.Form) cli.Table { return jobFields(j) },
		Toml: func() ([]byte, error) { return specTOML(j.Spec) },
	}
	if a.Output == "table" || a.Output == "wide" {
		jobPage(a, a.Out, j, a.Output == "wide")
		return nil
	}
	return a.Show(v)
}

func jobPage(a *cli.App, w io.Writer, j api.Job, wide bool) {
	field := func(name, format string, args ...any) {
		fmt.Fprintf(w, "  %-11s %s\n", name, present.Plain(fmt.Sprintf(format, args...)))
	}
	name := ""
	if j.Name != "" {
		name = " " + j.Name
	}
	reason := ""
	if j.Reason != "" {
		reason = ": " + j.Reason
	}
	fmt.Fprintf(w, "job %s%s   %s%s\n", j.ID, present.Plain(name), j.State, present.Plain(reason))
	field("iterations", "%d of %d (%s)", j.Iterations.Accepted, j.Iterations.Total, cli.Percent(j))
	field("chunks", "%d of %d accepted, %d assigned, %d pending, %d given up",
		j.Chunks.Accepted, j.Chunks.Total, j.Chunks.Assigned, j.Chunks.Pending, j.Chunks.Failed)
	field("attempts", "%d assigned, %d failed, %d reclaimed", j.Attempts.Assigned, j.Attempts.Failed, j.Attempts.Reclaimed)
	if r := rate(j); j.State.Final() || r == present.Unknown && j.ETASeconds == nil {
		field("time", "%s", present.Age(j.ElapsedSeconds))
	} else {
		field("time", "%s, %s, eta %s", present.Age(j.ElapsedSeconds), r, cli.AgeOf(j.ETASeconds))
	}
	field("submitted", "%s by %s", cli.When(j.SubmittedAt, j.ObservedAt, wide)+ago(wide), cli.OrDash(j.Owner))
	if why := waits(j); why != "" {
		field("waits", "%s", why)
		if w := j.Waiting; w != nil {
			field("since", "%s", cli.When(w.Since, j.ObservedAt, wide)+ago(wide))
			field("hint", "%s", w.Hint)
		}
	}
	if j.Warning != "" {
		field("warning", "%s", j.Warning)
	}
	if j.StopReason != "" || j.State == job.Cancelling {
		field("stopped", "by %s: %s", cli.OrDash(j.StoppedBy), cli.OrDash(j.StopReason))
	}
	if len(j.Skipped) > 0 {
		field("skipped", "chunks %s", spansText(j.Skipped))
	}
	for _, x := range j.Anomalies {
		field("odd", "chunk %d of %s: %s", x.Chunk, x.Worker, x.Reason)
	}
	if n := j.Chunks.Parked; n > 0 {
		field("parked", "%s of those given up: no host could run them", cli.Plural(n, "chunk"))
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
		field("limits", "%d attempts, %s and %s each", j.Spec.Attempts, j.Spec.Timeout(), present.BytesOf(j.Spec.MemoryBytes))
	}
	if len(j.Aggregates) > 0 {
		fmt.Fprintln(w)
		a.WriteTable(metricsTable(j))
	}
	if len(j.Failures) > 0 {
		fmt.Fprintln(w)
		a.WriteTable(failuresTable(j, wide))
	}
}

// waits says why a job waits, or "".
func waits(j api.Job) string {
	if j.State.Final() {
		return ""
	}
	return j.Waits
}

// jobFields is the page for scripts.
func jobFields(j api.Job) cli.Table {
	t := cli.Table{Head: []string{"KEY", "VALUE"}}
	whole := func(key string, n uint64) { t.Add(key, strconv.FormatUint(n, 10)) }
	t.Add("id", string(j.ID))
	t.Add("name", cli.OrDash(j.Name))
	t.Add("state", string(j.State))
	t.Add("reason", cli.OrDash(j.Reason))
	whole("iterations", j.Iterations.Total)
	whole("iterations_accepted", j.Iterations.Accepted)
	whole("chunks", uint64(j.Chunks.Total))
	whole("chunks_accepted", uint64(j.Chunks.Accepted))
	whole("chunks_failed", uint64(j.Chunks.Failed))
	whole("chunks_parked", uint64(j.Chunks.Parked))
	t.Add("skipped", cli.OrDash(spansText(j.Skipped)))
	whole("attempts", j.Attempts.Assigned)
	whole("attempts_failed", j.Attempts.Failed)
	whole("attempts_reclaimed", j.Attempts.Reclaimed)
	t.Add("elapsed_seconds", cli.PlainSeconds(j.ElapsedSeconds))
	t.Add("rate_per_second", rateIn(cli.FormTSV, j))
	t.Add("eta_seconds", cli.FormTSV.Age(j.ETASeconds))
	t.Add("submitted_at", cli.Stamp(j.SubmittedAt))
	t.Add("owner", cli.OrDash(j.Owner))
	t.Add("waits", cli.OrDash(waits(j)))
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
			text := present.Unknown
			if v.value != nil {
				text = number(*v.value)
			}
			t.Add("metric."+name+"."+v.key, text)
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

func metricsTable(j api.Job) cli.Table {
	t := cli.Table{Head: []string{"METRIC", "MEAN", "SE", "STD", "MIN", "MAX", "CI95", "N"}}
	quantiles := false
	for _, m := range j.Aggregates {
		quantiles = quantiles || m.P50 != nil
	}
	if quantiles {
		t.Head = append(t.Head, "P50", "P90", "P99")
	}
	for _, name := range metricNames(j) {
		m := j.Aggregates[name]
		ci := present.Unknown
		if m.CI95Low != nil && m.CI95High != nil {
			ci = number(*m.CI95Low) + ".." + number(*m.CI95High)
		}
		row := []string{name, number(m.Mean), optional(m.SE), optional(m.Std), number(m.Min), number(m.Max), ci, strconv.FormatUint(m.N, 10)}
		if quantiles {
			row = append(row, optional(m.P50), optional(m.P90), optional(m.P99))
		}
		t.Add(row...)
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
		return present.Unknown
	}
	return strconv.FormatFloat(*f, 'g', 4, 64)
}

func failuresTable(j api.Job, wide bool) cli.Table {
	t := cli.Table{Head: []string{"CHUNK", "ATTEMPT", "WORKER", "WHEN", "FINAL", "REASON"}}
	for _, f := range j.Failures {
		t.Add(strconv.Itoa(f.Chunk), strconv.Itoa(f.Attempt), cli.OrDash(f.Worker), cli.When(f.At, j.ObservedAt, wide),
			cli.YesNo(f.Final), strings.ReplaceAll(f.Reason, "\n", " "))
	}
	return t
}
