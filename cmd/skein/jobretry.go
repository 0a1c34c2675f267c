package main

import (
	"context"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
)

func (a *app) jobRetry() *cobra.Command {
	return &cobra.Command{
		Use: "retry ID", Short: "Try again what a job has no result of", Args: exactly(1, "the id of a job"),
		Long: "Of a job that runs, or that waits for an operator (on_partial = \"wait\"), the chunks\n" +
			"that were given up are tried again, with their whole budget.\n" +
			"\n" +
			"An ended job stays as it is. Each run of chunks that it lacks becomes a job of its\n" +
			"own, with the same iterations, seed and limits, so the results are those that the\n" +
			"first job would have had; retry_of names it. To repeat the command is harmless.",
		RunE: func(cmd *cobra.Command, args []string) error { return a.retry(cmd.Context(), args[0]) },
	}
}

// retried is one job that a retry made, or had made before.
type retried struct {
	Job        cluster.JobID `json:"job"`
	RetryOf    cluster.JobID `json:"retry_of"`
	Chunks     cluster.Span  `json:"chunks"` // of the first job
	Iterations uint64        `json:"iterations"`
	Created    bool          `json:"created"`
}

func (a *app) retry(ctx context.Context, id string) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	defer c.Close()
	asked, cancel := a.limited(ctx)
	j, err := c.Job(asked, id)
	cancel()
	switch {
	case err != nil:
		return err
	case !j.State.Final() && j.Chunks.Failed > 0:
		return a.release(ctx, c, j)
	case !j.State.Final():
		return failf(exitFailed, "job %s is %s and goes on by itself", short(j.ID), j.State).hint("`skein job stop %s` ends it", short(j.ID))
	case len(j.Skipped) == 0:
		return failf(exitFailed, "job %s is %s and lacks no chunk", short(j.ID), j.State)
	case len(j.Skipped) == cluster.MaxSpans:
		a.note("job %s may lack more than these chunks", short(j.ID))
	}
	made := make([]retried, 0, len(j.Skipped))
	for _, span := range j.Skipped {
		spec := retryOf(j, span)
		resp, err := a.submit(ctx, c, api.SubmitRequest{Spec: spec, Wait: api.WaitStable})
		if err != nil {
			return fmt.Errorf("retry chunks %s of job %s: %w", spansText([]cluster.Span{span}), short(j.ID), err)
		}
		made = append(made, retried{Job: resp.Job, RetryOf: j.ID, Chunks: span, Iterations: spec.Iterations, Created: resp.Created})
	}
	return a.show(view{body: made, items: items(made), table: func(f form) table {
		t := table{head: []string{"JOB", "RETRY_OF", "CHUNKS", "ITERATIONS", "NEW"}}
		for _, m := range made {
			job, of := string(m.Job), string(m.RetryOf)
			if !f.wide() {
				job, of = short(m.Job), short(m.RetryOf)
			}
			t.add(job, of, spansText([]cluster.Span{m.Chunks}), strconv.FormatUint(m.Iterations, 10), yesNo(m.Created))
		}
		return t
	}})
}

// release tries again what was given up of a job that is open.
func (a *app) release(ctx context.Context, c *api.Client, j api.Job) error {
	ctx, cancel := a.limited(ctx)
	defer cancel()
	r, err := c.Release(ctx, string(j.ID))
	if err != nil {
		return err
	}
	if a.output == "json" || a.output == "jsonl" {
		return a.show(view{body: r})
	}
	a.note("job %s tries %s again", short(j.ID), plural(r.Chunks, "chunk"))
	return nil
}

// retryOf is the job that computes a span of another one's chunks. Its key
// follows from both, so a retry that is repeated is the same.
func retryOf(j api.Job, span cluster.Span) cluster.JobSpec {
	spec := j.Spec
	first, _ := j.Spec.ChunkRange(span.First)
	last, n := j.Spec.ChunkRange(span.Last)
	spec.Key = fmt.Sprintf("retry %s %d-%d", j.ID, span.First, span.Last)
	spec.RetryOf, spec.FirstIteration, spec.Iterations = j.ID, first, last+n-first
	spec.Chunk, spec.ChunkAuto = min(spec.Chunk, spec.Iterations), false
	spec.EarlyStop = cluster.EarlyStop{} // it judged the whole
	return spec
}
