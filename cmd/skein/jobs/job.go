package jobs

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/cmd/skein/cli"
	"github.com/skein-project/skein/cmd/skein/joblogs"
	"github.com/skein-project/skein/cmd/skein/joboutputs"
	"github.com/skein-project/skein/cmd/skein/jobtrace"
	"github.com/skein-project/skein/present"
)

func jobCommand(a *cli.App, d Options) *cobra.Command {
	return cli.Group("job", "Submit, watch and stop jobs", jobRun(a, d), jobList(a), jobStatus(a), jobExplain(a), jobResults(a), joblogs.Command(a), joboutputs.Command(a), jobStop(a), jobRetry(a), jobtrace.Command(a))
}

func jobList(a *cli.App) *cobra.Command {
	var state string
	cmd := &cobra.Command{
		Use: "ls", Aliases: []string{"list"}, Short: "List the jobs, newest first", Args: cli.Exactly(0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := cli.OneOf("--state", state, job.Pending, job.Running, job.Completed,
				job.Failed, job.Partial, job.Cancelled, job.TimedOut, job.Skipped, job.Queued, job.Cancelling); err != nil {
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
				v.Table = func() present.Table { return present.Jobs(list) }
				return a.Show(v)
			})
		},
	}
	cmd.Flags().StringVar(&state, "state", "", "only jobs in this state")
	return cmd
}

func jobStatus(a *cli.App) *cobra.Command {
	var follow, history, chunks bool
	var metric string
	cmd := &cobra.Command{
		Use: "status ID", Aliases: []string{"show"}, Short: "One job: progress, results, failures with reasons", Args: cli.Exactly(1, "the id or the name of a job"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if follow {
				return followJob(a, cmd.Context(), args[0], "", metric)
			}
			return a.WithClient(cmd.Context(), func(ctx context.Context, c *api.Client) error {
				if history || chunks {
					return jobtrace.History(a, ctx, c, args[0], chunks)
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
		Raw: raw, Body: j, Table: func() present.Table { return jobFields(j) },
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
	field("iterations", "%d of %d (%s)", j.Iterations.Accepted, j.Iterations.Total, present.Percent(j))
	field("chunks", "%d of %d accepted, %d assigned, %d pending, %d given up",
		j.Chunks.Accepted, j.Chunks.Total, j.Chunks.Assigned, j.Chunks.Pending, j.Chunks.Failed)
	field("attempts", "%d assigned, %d failed, %d reclaimed", j.Attempts.Assigned, j.Attempts.Failed, j.Attempts.Reclaimed)
	if r := present.Rate(j.RatePerSecond); j.State.Final() || r == present.Unknown && j.ETASeconds == nil {
		field("time", "%s", present.Age(j.ElapsedSeconds))
	} else {
		field("time", "%s, %s, eta %s", present.Age(j.ElapsedSeconds), r, present.AgeOf(j.ETASeconds))
	}
	field("submitted", "%s by %s", present.When(j.SubmittedAt, j.ObservedAt, wide)+ago(wide), present.OrDash(j.Owner))
	if why := waits(j); why != "" {
		field("waits", "%s", why)
		if w := j.Waiting; w != nil {
			for _, r := range named(w) {
				field("", "%s: %s", r.Reason, present.WaitReason(r))
			}
			field("since", "%s", present.When(w.Since, j.ObservedAt, wide)+ago(wide))
			field("hint", "%s", w.Hint)
		}
	}
	if j.Warning != "" {
		field("warning", "%s", j.Warning)
	}
	if j.StopReason != "" || j.State == job.Cancelling {
		field("stopped", "by %s: %s", present.OrDash(j.StoppedBy), present.OrDash(j.StopReason))
	}
	if len(j.Skipped) > 0 {
		field("skipped", "chunks %s", spansText(j.Skipped))
	}
	for _, x := range j.Anomalies {
		field("odd", "chunk %d of %s: %s", x.Chunk, x.Worker, x.Reason)
	}
	if n := j.Chunks.Parked; n > 0 {
		field("parked", "%s of those given up: no host could run them", present.Plural(n, "chunk"))
	}
	if o := j.Outputs; o != nil {
		field("outputs", "%s, %s: skein job outputs %s", present.Plural(o.Files, "file"), present.BytesOf(uint64(o.Bytes)), present.Short(j.ID))
	}
	if len(j.Workers) > 0 {
		parts := make([]string, len(j.Workers))
		for i, x := range j.Workers {
			parts[i] = fmt.Sprintf("%s %d", x.Node, x.Accepted)
		}
		field("workers", "%s (chunks accepted)", strings.Join(parts, ", "))
	}
	for _, z := range j.Zones {
		text := fmt.Sprintf("%s: %s, %d iterations, %d assigned", present.OrDash(z.Zone), present.Plural(z.Accepted, "chunk"), z.Iterations, z.Assigned)
		if z.Failed > 0 {
			text += fmt.Sprintf(", %d given up", z.Failed)
		}
		field("zone", "%s", text)
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
		a.WriteTable(present.Metrics(j))
	}
	if len(j.Failures) > 0 {
		fmt.Fprintln(w)
		a.WriteTable(present.Failures(j))
	}
}

// waits says why a job waits, or "".
func waits(j api.Job) string {
	if j.State.Final() {
		return ""
	}
	return j.Waits
}

// named are the reasons that name workers: the sentence about all says the other.
func named(w *api.Waiting) []api.WaitReason {
	return slices.DeleteFunc(slices.Clone(w.Reasons), func(r api.WaitReason) bool { return r.Workers == 0 })
}

// jobFields is the page for scripts.
func jobFields(j api.Job) present.Table {
	t := present.NewTable("KEY", "VALUE")
	whole := func(key string, n uint64) { t.Add(key, strconv.FormatUint(n, 10)) }
	t.Add("id", string(j.ID))
	t.Add("name", present.OrDash(j.Name))
	t.Add("state", string(j.State))
	t.Add("reason", present.OrDash(j.Reason))
	whole("iterations", j.Iterations.Total)
	whole("iterations_accepted", j.Iterations.Accepted)
	whole("chunks", uint64(j.Chunks.Total))
	whole("chunks_accepted", uint64(j.Chunks.Accepted))
	whole("chunks_failed", uint64(j.Chunks.Failed))
	whole("chunks_parked", uint64(j.Chunks.Parked))
	t.Add("skipped", present.OrDash(spansText(j.Skipped)))
	whole("attempts", j.Attempts.Assigned)
	whole("attempts_failed", j.Attempts.Failed)
	whole("attempts_reclaimed", j.Attempts.Reclaimed)
	t.Add("elapsed_seconds", present.PlainSeconds(j.ElapsedSeconds))
	t.Add("rate_per_second", exactNumber(j.RatePerSecond))
	t.Add("eta_seconds", plainAge(j.ETASeconds))
	t.Add("submitted_at", present.Stamp(j.SubmittedAt))
	t.Add("owner", present.OrDash(j.Owner))
	t.Add("waits", present.OrDash(waits(j)))
	for _, name := range present.MetricNames(j) {
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
				text = present.Digits(*v.value)
			}
			t.Add("metric."+name+"."+v.key, text)
		}
		whole("metric."+name+".n", m.N)
	}
	return t
}

func exactNumber(v *float64) string {
	if v == nil {
		return present.Unknown
	}
	return present.Digits(*v)
}

func plainAge(seconds *float64) string {
	if seconds == nil {
		return present.Unknown
	}
	return present.PlainSeconds(*seconds)
}

func ago(wide bool) string {
	if wide {
		return ""
	}
	return " ago"
}
