package jobs

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/cmd/skein/cli"
	"github.com/skein-project/skein/present"
)

func jobResults(a *cli.App) *cobra.Command {
	var chunks, follow bool
	var since string
	cmd := &cobra.Command{
		Use: "results ID", Short: "What a job computed: its metrics, or the results of its chunks", Args: cli.Exactly(1, "the id or the name of a job"),
		Long: "One line for each metric, merged over the chunks so far. With --chunks, one for each\n" +
			"chunk and metric in the order in which results were accepted, each with a position:\n" +
			"--since POSITION continues after it, on any host, and misses none. With --follow it\n" +
			"waits until the job has ended, and exits like `job run --follow`.",
		Example: "  skein job results jabc -o csv > prices.csv\n" +
			"  skein job results jabc --chunks --follow -o jsonl --since n1/1:42",
		RunE: func(cmd *cobra.Command, args []string) error {
			if !chunks {
				if since != "" {
					return cli.Usagef("--since is of --chunks").WithHint("add --chunks")
				}
				return results(a, cmd.Context(), args[0], follow)
			}
			at, err := event.ParseCursor(since)
			if err != nil {
				return cli.Usagef("--since: %s", err)
			}
			if follow && a.Output == "json" {
				return cli.Usagef("one JSON value cannot be followed").WithHint("use -o jsonl: one value in each line")
			}
			return chunkResults(a, cmd.Context(), args[0], api.ChunkQuery{After: at, Follow: follow})
		},
	}
	cmd.Flags().BoolVar(&chunks, "chunks", false, "the results of each chunk")
	cmd.Flags().StringVar(&since, "since", "", "with --chunks: only those after this position")
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "wait for the end; exit 8 if the job did not complete")
	return cmd
}

// metricLine is one metric of a job, for -o jsonl.
type metricLine struct {
	Job    job.ID    `json:"job"`
	State  job.State `json:"state"`
	Metric string    `json:"metric"`
	api.Summary
}

func results(a *cli.App, ctx context.Context, id string, follow bool) error {
	show := func(j api.Job, raw []byte) error {
		v := cli.View{Raw: raw, Body: j, Items: []any{}, Table: func() present.Table { return resultsTable(a, j) }}
		for _, name := range present.MetricNames(j) {
			v.Items = append(v.Items, metricLine{Job: j.ID, State: j.State, Metric: name, Summary: j.Aggregates[name]})
		}
		if len(j.Skipped) > 0 {
			a.Note("job %s is %s: without chunks %s", present.Short(j.ID), j.State, spansText(j.Skipped))
		} else if !j.State.Final() {
			a.Note("job %s is %s: %s so far", present.Short(j.ID), j.State, present.Percent(j))
		}
		return a.Show(v)
	}
	if follow {
		return followTo(a, ctx, id, "", "", func(j api.Job) error { return show(j, nil) })
	}
	return a.WithClient(ctx, func(ctx context.Context, c *api.Client) error {
		j, raw, err := cli.Fetch[api.Job](ctx, c, "/v1/jobs/"+pathEscape(id))
		if err != nil {
			return err
		}
		return show(j, raw)
	})
}

func resultsTable(a *cli.App, j api.Job) present.Table {
	if a.Output == "table" {
		return present.Metrics(j)
	}
	return present.Results(j)
}

// spansText names chunks: "3, 7-9".
func spansText(spans []job.Span) string {
	words := make([]string, len(spans))
	for i, s := range spans {
		words[i] = strconv.Itoa(s.First)
		if s.Last > s.First {
			words[i] += "-" + strconv.Itoa(s.Last)
		}
	}
	if len(spans) == job.MaxSpans {
		words = append(words, "...")
	}
	return strings.Join(words, ", ")
}

// chunkHead are the columns of chunks: a row for each metric.
var chunkHead = [...]string{
	"CHUNK", "ATTEMPT", "WORKER", "AT", "SECONDS", "OFFSET", "ITERATIONS", "METRIC", "N", "MEAN", "M2", "MIN", "MAX", "POSITION",
}

func chunkResults(a *cli.App, ctx context.Context, id string, q api.ChunkQuery) error {
	c, err := a.Client()
	if err != nil {
		return err
	}
	defer c.Close()
	headed, seen := false, false
	note, forget := a.Once()
	at, err := c.Chunks(ctx, id, q, api.FollowOptions{Retry: func(cause error) error {
		if _, away := cause.(*api.UnreachableError); away && !seen { //nolint:errorlint // the first dial's own error
			return cause
		}
		seen = true
		note("waiting for the daemon: %s", cause)
		return nil
	}, Position: func(p api.StreamPosition) {
		if p.Compacted {
			a.Note("older results are no longer kept: these begin at %s", p.Cursor)
		}
	}}, func(r api.ChunkResult) error {
		first := !headed
		headed, seen = true, true
		forget()
		return chunkLines(a, r, first)
	})
	if a.Output == "json" && err == nil {
		err = a.EndArray(headed)
	}
	if at.String() != "" && (ctx.Err() != nil || !q.Follow) {
		a.Note("read up to %s", at)
	}
	switch {
	case q.Follow && ctx.Err() != nil:
		a.Code = cli.ExitInterrupted
		return nil
	case err != nil || !q.Follow:
		return err
	}
	ctx, cancel := a.Limited(ctx)
	defer cancel()
	j, err := c.Job(ctx, id)
	if err != nil {
		return err
	}
	return endOf(j)
}

func chunkLines(a *cli.App, r api.ChunkResult, first bool) error {
	if done, err := a.Element(r, first); done {
		return err
	}
	write := cli.WriteTSVRows
	if a.Output == "csv" {
		write = cli.WriteCSVRows
	}
	var rows [][]string
	if first {
		rows = append(rows, chunkHead[:])
	}
	head := []string{
		strconv.Itoa(r.Chunk), strconv.Itoa(r.Attempt), string(r.Worker), present.Stamp(r.At), present.PlainSeconds(r.Seconds),
		strconv.FormatUint(r.Offset, 10), strconv.FormatUint(r.Iterations, 10),
	}
	for _, name := range slices.Sorted(maps.Keys(r.Metrics)) {
		m := r.Metrics[name]
		rows = append(rows, append(slices.Clone(head), name, strconv.FormatUint(m.N, 10), fullNumber(m.Mean), fullNumber(m.M2),
			fullNumber(m.Min), fullNumber(m.Max), r.Cursor))
	}
	if len(r.Metrics) == 0 {
		rows = append(rows, append(head, present.Unknown, "0", present.Unknown, present.Unknown, present.Unknown, present.Unknown, r.Cursor))
	}
	write(a.Out, rows)
	return nil
}

// fullNumber is a number with all its bits.
func fullNumber(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }
