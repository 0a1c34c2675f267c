package jobs

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cmd/skein/cli"
	"github.com/skein-project/skein/present"
)

func jobExplain(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use: "explain ID", Short: "What keeps each worker from a job", Args: cli.Exactly(1, "the id or the name of a job"),
		Long: "As the holder sees it now. Each worker stands under the first of its reasons: how it\n" +
			"is doing (gone, no_stream, draining, unready, stuck, distrusted), what it is (executor,\n" +
			"memory, zone, permission, not_accepted), what became of the job's chunks there\n" +
			"(excluded, opinion, reserved); one that is busy may run it, and has no room. What keeps the job from all\n" +
			"workers (after, held, backoff, operator) stands before them. RUNS and DONE are the job's\n" +
			"chunks that a worker has, and that count.",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.WithClient(cmd.Context(), func(ctx context.Context, c *api.Client) error {
				e, raw, err := cli.Fetch[api.JobExplanation](ctx, c, "/v1/jobs/"+pathEscape(args[0])+"/explain")
				if err != nil {
					return err
				}
				if e.Omitted > 0 {
					a.Note("%s more are not listed", present.Plural(e.Omitted, "worker"))
				}
				if a.Output == "table" || a.Output == "wide" {
					explanationPage(a, e, a.Output == "wide")
					return nil
				}
				return a.Show(cli.View{Raw: raw, Body: e, Items: cli.Items(e.Workers), Table: func() present.Table { return present.Explained(e) }})
			})
		},
	}
}

func explanationPage(a *cli.App, e api.JobExplanation, wide bool) {
	field := func(name, text string) { fmt.Fprintf(a.Out, "  %-11s %s\n", name, present.Plain(text)) }
	fmt.Fprintf(a.Out, "job %s   %s\n", e.Job, e.State)
	switch {
	case e.Waits == "":
		return
	case e.Since == nil:
		field("workers", e.Waits)
	default:
		field("waits", e.Waits)
		field("since", present.When(*e.Since, e.ObservedAt, wide)+ago(wide))
		field("hint", e.Hint)
	}
	if len(e.Workers) > 0 {
		fmt.Fprintln(a.Out)
		a.WriteTable(present.Explained(e))
	}
}
