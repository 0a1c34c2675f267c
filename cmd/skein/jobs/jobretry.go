package jobs

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/cmd/skein/cli"
	"github.com/skein-project/skein/present"
)

// waitForWorker explains --wait-for-worker.
const waitForWorker = "submit it even if no worker may ever run it, because of its program, zones or permission"

func jobRetry(a *cli.App) *cobra.Command {
	var forWorker bool
	cmd := &cobra.Command{
		Use: "retry ID", Short: "Retry the chunks that a job has no result for", Args: cli.Exactly(1, "the id or the name of a job"),
		Long: "If the job is running, or waits for an operator (on_partial = \"wait\"), the chunks that\n" +
			"were given up are tried again, with their whole budget.\n" +
			"\n" +
			"A job that has ended stays as it is. Each run of missing chunks becomes a job of its\n" +
			"own, with the same iterations, seed and limits, so the results are those that the\n" +
			"first job would have had; retry_of names that job, and the name becomes NAME~CHUNKS. Repeating the command is harmless.",
		RunE: func(cmd *cobra.Command, args []string) error { return retry(a, cmd.Context(), args[0], forWorker) },
	}
	cmd.Flags().BoolVar(&forWorker, "wait-for-worker", false, waitForWorker)
	return cmd
}

// retried is one job that a retry made, or had made before.
type retried struct {
	Job        job.ID   `json:"job"`
	RetryOf    job.ID   `json:"retry_of"`
	Chunks     job.Span `json:"chunks"` // of the first job
	Iterations uint64   `json:"iterations"`
	Created    bool     `json:"created"`
}

func retry(a *cli.App, ctx context.Context, id string, forWorker bool) error {
	c, err := a.Client()
	if err != nil {
		return err
	}
	defer c.Close()
	asked, cancel := a.Limited(ctx)
	j, err := c.Job(asked, id)
	cancel()
	switch {
	case err != nil:
		return err
	case !j.State.Final() && j.Chunks.Failed > 0:
		return release(a, ctx, c, j)
	case !j.State.Final():
		return cli.Failf(cli.ExitFailed, "job %s is %s and goes on by itself", present.Short(j.ID), j.State).WithHint("`skein job stop %s` ends it", present.Short(j.ID))
	case len(j.Skipped) == 0:
		return cli.Failf(cli.ExitFailed, "job %s is %s and lacks no chunk", present.Short(j.ID), j.State)
	case len(j.Skipped) == job.MaxSpans:
		a.Note("job %s may lack more than these chunks", present.Short(j.ID))
	}
	made := make([]retried, 0, len(j.Skipped))
	for _, span := range j.Skipped {
		spec := retryOf(j, span)
		resp, err := submit(a, ctx, c, api.SubmitRequest{Spec: spec, Wait: api.WaitStable, WaitForWorker: forWorker})
		if err != nil {
			return fmt.Errorf("retry chunks %s of job %s: %w", spansText([]job.Span{span}), present.Short(j.ID), err)
		}
		made = append(made, retried{Job: resp.Job, RetryOf: j.ID, Chunks: span, Iterations: spec.Iterations, Created: resp.Created})
	}
	return a.Show(cli.View{Body: made, Items: cli.Items(made), Table: func() present.Table {
		t := present.NewTable("JOB", "RETRY_OF", "CHUNKS", "ITERATIONS", "NEW")
		for _, m := range made {
			made, of := string(m.Job), string(m.RetryOf)
			if a.Output == "table" {
				made, of = present.Short(m.Job), present.Short(m.RetryOf)
			}
			t.Add(made, of, spansText([]job.Span{m.Chunks}), strconv.FormatUint(m.Iterations, 10), present.YesNo(m.Created))
		}
		return t
	}})
}

// release tries again what was given up of a job that is open.
func release(a *cli.App, ctx context.Context, c *api.Client, j api.Job) error {
	ctx, cancel := a.Limited(ctx)
	defer cancel()
	r, err := c.Release(ctx, string(j.ID))
	if err != nil {
		return err
	}
	if a.Output == "json" || a.Output == "jsonl" {
		return a.Show(cli.View{Body: r})
	}
	a.Note("job %s tries %s again", present.Short(j.ID), present.Plural(r.Chunks, "chunk"))
	return nil
}

// retryName is the name of the job that computes a span of one that is called name: a
// job is found by its name only if no other has it.
func retryName(name string, span job.Span) string {
	if name == "" {
		return ""
	}
	more := "~" + spansText([]job.Span{span})
	return strings.ToValidUTF8(name[:min(len(name), job.MaxName-len(more))], "") + more
}

// retryOf is the job that computes a span of another one's chunks. Its key
// follows from both, so a retry that is repeated is the same.
func retryOf(j api.Job, span job.Span) job.Spec {
	spec := j.Spec
	first, _ := j.Spec.ChunkRange(span.First)
	last, n := j.Spec.ChunkRange(span.Last)
	spec.Key = fmt.Sprintf("retry %s %d-%d", j.ID, span.First, span.Last)
	spec.Name = retryName(spec.Name, span)
	spec.RetryOf, spec.FirstIteration, spec.Iterations = j.ID, first, last+n-first
	spec.Chunk, spec.ChunkAuto = min(spec.Chunk, spec.Iterations), false
	spec.EarlyStop = job.EarlyStop{} // it judged the whole
	return spec
}
