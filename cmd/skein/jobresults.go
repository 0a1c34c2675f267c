package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
)

func (a *app) jobResults() *cobra.Command {
	var chunks, follow bool
	var since string
	cmd := &cobra.Command{
		Use: "results ID", Short: "What a job computed: its metrics, or the results of its chunks", Args: exactly(1, "the id of a job"),
		Long: "One line for each metric, merged over the chunks so far. With --chunks one for\n" +
			"each chunk and metric in the order in which results were accepted, each with a\n" +
			"position: --since POSITION goes on behind it, on any host, and misses none. With\n" +
			"--follow it goes on to the job's end, and exits like `job run --follow`.",
		Example: "  skein job results jabc -o csv > prices.csv\n" +
			"  skein job results jabc --chunks --follow -o jsonl --since n1/1:42",
		RunE: func(cmd *cobra.Command, args []string) error {
			if !chunks {
				if since != "" {
					return usagef("--since is of --chunks").hint("add --chunks")
				}
				return a.results(cmd.Context(), args[0], follow)
			}
			at, err := cluster.ParseCursor(since)
			if err != nil {
				return usagef("--since: %s", err)
			}
			if follow && a.output == "json" {
				return usagef("one JSON value cannot be followed").hint("use -o jsonl: one value in each line")
			}
			return a.chunkResults(cmd.Context(), args[0], api.ChunkQuery{After: at, Follow: follow})
		},
	}
	cmd.Flags().BoolVar(&chunks, "chunks", false, "the results of single chunks")
	cmd.Flags().StringVar(&since, "since", "", "with --chunks: only those after this position")
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "wait for the end; exit 8 if the job did not complete")
	return cmd
}

// metricLine is one metric of a job, for -o jsonl.
type metricLine struct {
	Job    cluster.JobID    `json:"job"`
	State  cluster.JobState `json:"state"`
	Metric string           `json:"metric"`
	api.Summary
}

func (a *app) results(ctx context.Context, id string, follow bool) error {
	show := func(j api.Job, raw []byte) error {
		v := view{raw: raw, body: j, items: []any{}, table: func(f form) table { return resultsTable(j, f) }}
		for _, name := range metricNames(j) {
			v.items = append(v.items, metricLine{Job: j.ID, State: j.State, Metric: name, Summary: j.Aggregates[name]})
		}
		if len(j.Skipped) > 0 {
			a.note("job %s is %s: without chunks %s", short(j.ID), j.State, spansText(j.Skipped))
		} else if !j.State.Final() {
			a.note("job %s is %s: %s so far", short(j.ID), j.State, percent(j))
		}
		return a.show(v)
	}
	if follow {
		return a.followTo(ctx, id, "", func(j api.Job) error { return show(j, nil) })
	}
	return a.withClient(ctx, func(ctx context.Context, c *api.Client) error {
		j, raw, err := fetch[api.Job](ctx, c, "/v1/jobs/"+pathEscape(id))
		if err != nil {
			return err
		}
		return show(j, raw)
	})
}

func resultsTable(j api.Job, f form) table {
	if !f.wide() {
		return metricsTable(j)
	}
	t := table{head: []string{
		"METRIC", "N", "MEAN", "SE", "STD", "MIN", "MAX", "CI95_LOW", "CI95_HIGH", "RELATIVE_ERROR", "P50", "P90", "P99", "QUANTILE_ERROR",
	}}
	for _, name := range metricNames(j) {
		m := j.Aggregates[name]
		row := []string{name, strconv.FormatUint(m.N, 10)}
		for _, v := range []*float64{&m.Mean, m.SE, m.Std, &m.Min, &m.Max, m.CI95Low, m.CI95High, m.RelativeError, m.P50, m.P90, m.P99, m.QuantileError} {
			row = append(row, exactNumber(v))
		}
		t.add(row...)
	}
	return t
}

func exactNumber(v *float64) string {
	if v == nil {
		return unknown
	}
	return number(*v)
}

// spansText names chunks: "3, 7-9".
func spansText(spans []cluster.Span) string {
	words := make([]string, len(spans))
	for i, s := range spans {
		words[i] = strconv.Itoa(s.First)
		if s.Last > s.First {
			words[i] += "-" + strconv.Itoa(s.Last)
		}
	}
	if len(spans) == cluster.MaxSpans {
		words = append(words, "...")
	}
	return strings.Join(words, ", ")
}

// chunkHead are the columns of chunks: a row for each metric.
var chunkHead = [...]string{
	"CHUNK", "ATTEMPT", "WORKER", "AT", "SECONDS", "OFFSET", "ITERATIONS", "METRIC", "N", "MEAN", "M2", "MIN", "MAX", "POSITION",
}

func (a *app) chunkResults(ctx context.Context, id string, q api.ChunkQuery) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	defer c.Close()
	headed, seen := false, false
	at, err := c.Chunks(ctx, id, q, api.FollowOptions{Retry: func(cause error) error {
		if _, away := cause.(*api.UnreachableError); away && !seen { //nolint:errorlint // the first dial's own error
			return cause
		}
		seen = true
		a.note("waiting for the daemon: %s", cause)
		return nil
	}, Position: func(p api.StreamPosition) {
		if p.Compacted {
			a.note("older results are kept no more: these begin at %s", p.Cursor)
		}
	}}, func(r api.ChunkResult) error {
		first := !headed
		headed, seen = true, true
		return a.chunkLines(r, first)
	})
	if a.output == "json" && err == nil {
		err = a.eventsEnd(headed)
	}
	if at.String() != "" && (ctx.Err() != nil || !q.Follow) {
		a.note("read up to %s", at)
	}
	switch {
	case q.Follow && ctx.Err() != nil:
		a.code = exitInterrupted
		return nil
	case err != nil || !q.Follow:
		return err
	}
	ctx, cancel := a.limited(ctx)
	defer cancel()
	j, err := c.Job(ctx, id)
	if err != nil {
		return err
	}
	return endOf(j)
}

func (a *app) chunkLines(r api.ChunkResult, first bool) error {
	switch a.output {
	case "json":
		b, err := json.MarshalIndent(r, "  ", "  ")
		if err != nil {
			return fmt.Errorf("encode result: %w", err)
		}
		before := ",\n  "
		if first {
			before = "[\n  "
		}
		_, err = fmt.Fprintf(a.out, "%s%s", before, b)
		return err
	case "jsonl":
		b, err := json.Marshal(r)
		if err != nil {
			return fmt.Errorf("encode result: %w", err)
		}
		_, err = fmt.Fprintln(a.out, string(b))
		return err
	}
	write := func(w io.Writer, t table) { writeTSV(w, t) }
	if a.output == "csv" {
		write = writeCSV
	}
	t := table{}
	if first {
		t.head = chunkHead[:]
	}
	head := []string{
		strconv.Itoa(r.Chunk), strconv.Itoa(r.Attempt), string(r.Worker), stamp(r.At), plainSeconds(r.Seconds),
		strconv.FormatUint(r.Offset, 10), strconv.FormatUint(r.Iterations, 10),
	}
	for _, name := range slices.Sorted(maps.Keys(r.Metrics)) {
		m := r.Metrics[name]
		t.add(append(slices.Clone(head), name, strconv.FormatUint(m.N, 10), fullNumber(m.Mean), fullNumber(m.M2),
			fullNumber(m.Min), fullNumber(m.Max), r.Cursor)...)
	}
	if len(r.Metrics) == 0 {
		t.add(append(head, unknown, "0", unknown, unknown, unknown, unknown, r.Cursor)...)
	}
	write(a.out, t)
	return nil
}

// fullNumber is a number with all its bits.
func fullNumber(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }
