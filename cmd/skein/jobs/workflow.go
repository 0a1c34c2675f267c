package jobs

import (
	"cmp"
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster/flow"
	"github.com/skein-project/skein/cmd/skein/cli"
	"github.com/skein-project/skein/present"
)

func workflowCommand(a *cli.App) *cobra.Command {
	return cli.Group("workflow", "Graphs of jobs that pass data: submit, watch, stop, retry",
		workflowRun(a), workflowList(a), workflowStatus(a), workflowGraph(a), workflowOutputs(a), workflowStop(a), workflowRetry(a))
}

const oneRun = "the id of a run, the beginning of it, or a name"

func workflowList(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use: "ls", Aliases: []string{"list"}, Short: "List the runs of workflows, newest first", Args: cli.Exactly(0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.WithClient(cmd.Context(), func(ctx context.Context, c *api.Client) error {
				list, raw, err := cli.Fetch[api.Workflows](ctx, c, "/v1/workflows")
				if err != nil {
					return err
				}
				if list.Omitted > 0 {
					a.Note("%s more are not listed", present.Plural(list.Omitted, "run"))
				}
				return a.Show(cli.View{Raw: raw, Body: list, Items: cli.Items(list.Workflows), Table: func() present.Table { return present.Workflows(list) }})
			})
		},
	}
}

func workflowStatus(a *cli.App) *cobra.Command {
	var follow, history bool
	cmd := &cobra.Command{
		Use: "status RUN", Aliases: []string{"show"}, Short: "One run: its steps, and why they wait, were skipped or failed", Args: cli.Exactly(1, oneRun),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case follow && history:
				return cli.Usagef("--follow and --history contradict each other")
			case follow:
				return followRun(a, cmd.Context(), args[0])
			case history:
				return runHistory(a, cmd.Context(), args[0])
			}
			return showWorkflow(a, cmd.Context(), args[0], func(w api.Workflow, raw []byte) error { return showRun(a, w, raw) })
		},
	}
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "watch it to its end; exit 8 if it failed")
	cmd.Flags().BoolVar(&history, "history", false, "all that the log says of it, oldest first")
	return cmd
}

// runHistory shows the events of a run. A log of which old events are forgotten may begin
// in the middle of it.
func runHistory(a *cli.App, ctx context.Context, id string) error {
	return a.WithClient(ctx, func(ctx context.Context, c *api.Client) error {
		w, _, err := cli.Fetch[api.Workflow](ctx, c, "/v1/workflows/"+pathEscape(id))
		if err != nil {
			return err
		}
		list := []api.Event{}
		if err := c.Events(ctx, api.EventQuery{Entity: "run:" + string(w.ID)}, api.FollowOptions{}, func(e api.Event) error {
			list = append(list, e)
			return nil
		}); err != nil {
			return err
		}
		return a.Show(cli.View{Body: list, Items: cli.Items(list), Table: func() present.Table { return present.Events(list, w.ObservedAt) }})
	})
}

// showWorkflow fetches a run and shows it.
func showWorkflow(a *cli.App, ctx context.Context, id string, show func(api.Workflow, []byte) error) error {
	return a.WithClient(ctx, func(ctx context.Context, c *api.Client) error {
		w, raw, err := cli.Fetch[api.Workflow](ctx, c, "/v1/workflows/"+pathEscape(id))
		if err != nil {
			return err
		}
		return show(w, raw)
	})
}

func workflowGraph(a *cli.App) *cobra.Command {
	var form string
	cmd := &cobra.Command{
		Use: "graph RUN", Short: "Draw the steps of a run", Args: cli.Exactly(1, oneRun),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := cli.OneOf("--as", form, "ascii", "mermaid"); err != nil {
				return err
			}
			return showWorkflow(a, cmd.Context(), args[0], func(w api.Workflow, raw []byte) error {
				switch {
				case a.Output == "json" || a.Output == "jsonl":
					return a.Show(cli.View{Raw: raw, Body: w})
				case form == "mermaid":
					fmt.Fprint(a.Out, present.Mermaid(w))
				default:
					fmt.Fprint(a.Out, present.Graph(w))
				}
				return nil
			})
		},
	}
	cmd.Flags().StringVar(&form, "as", "ascii", "ascii, or mermaid for mermaid.js")
	return cmd
}

func workflowOutputs(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use: "outputs RUN", Short: "What came out of the steps of a run", Args: cli.Exactly(1, oneRun),
		RunE: func(cmd *cobra.Command, args []string) error {
			return showWorkflow(a, cmd.Context(), args[0], func(w api.Workflow, raw []byte) error {
				return a.Show(cli.View{Raw: raw, Body: w, Table: func() present.Table { return present.WorkflowOutputs(w) }})
			})
		},
	}
}

func workflowStop(a *cli.App) *cobra.Command {
	var req api.WorkflowStop
	cmd := &cobra.Command{
		Use: "stop RUN", Short: "Stop a run: its jobs end, then its teardown runs", Args: cli.Exactly(1, oneRun),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.WithClient(cmd.Context(), func(ctx context.Context, c *api.Client) error {
				w, err := c.StopWorkflow(ctx, args[0], req)
				if err != nil {
					return err
				}
				return said(a, w)
			})
		},
	}
	cmd.Flags().StringVar(&req.Reason, "reason", "", "why, for the log")
	cmd.Flags().BoolVar(&req.Now, "now", false, "without its teardown")
	return cmd
}

func workflowRetry(a *cli.App) *cobra.Command {
	var req api.WorkflowRetry
	var follow bool
	cmd := &cobra.Command{
		Use: "retry RUN", Short: "Begin again what a run has not completed", Args: cli.Exactly(1, oneRun),
		Long: "The run must have ended. What is completed keeps its outputs and does not run again,\n" +
			"instances of a step that failed in part included. With --from that step begins again\n" +
			"as well, with all that follow it.",
		RunE: func(cmd *cobra.Command, args []string) error {
			var w api.Workflow
			err := a.WithClient(cmd.Context(), func(ctx context.Context, c *api.Client) (err error) {
				w, err = c.RetryWorkflow(ctx, args[0], req)
				return err
			})
			switch {
			case err != nil:
				return err
			case follow:
				return followRun(a, cmd.Context(), string(w.ID))
			}
			return said(a, w)
		},
	}
	cmd.Flags().StringVar(&req.From, "from", "", "a step that begins again, with all that follow it")
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "watch it to its end; exit 8 if it failed")
	return cmd
}

// said says in one line how a run is.
func said(a *cli.App, w api.Workflow) error {
	if a.Output == "json" || a.Output == "jsonl" {
		return a.Show(cli.View{Body: w})
	}
	a.Note("run %s is %s", w.ID, w.State)
	return nil
}

// showRun writes a run in the form that -o asks for.
func showRun(a *cli.App, w api.Workflow, raw []byte) error {
	if a.Output != "table" && a.Output != "wide" {
		return a.Show(cli.View{Raw: raw, Body: w, Table: func() present.Table { return present.WorkflowSteps(w) }})
	}
	wide := a.Output == "wide"
	fmt.Fprintf(a.Out, "run %s %s   %s\n", w.ID, present.Plain(w.Name), w.State)
	field := func(name, format string, args ...any) {
		fmt.Fprintf(a.Out, "  %-11s %s\n", name, present.Plain(fmt.Sprintf(format, args...)))
	}
	if w.Reason != "" {
		field("reason", "%s", w.Reason)
	}
	if place := present.PlaceOf(w); place != "" {
		field("waits", "%s", place)
	}
	if w.StoppedBy != "" {
		field("stopped by", "%s %s", w.StoppedBy, w.StopReason)
	}
	if w.Round > 0 {
		field("retries", "%d", w.Round)
	}
	field("submitted", "%s by %s", present.When(w.SubmittedAt, w.ObservedAt, wide)+ago(wide), present.OrDash(w.Owner))
	field("time", "%s", present.Age(w.ElapsedSeconds))
	fmt.Fprintln(a.Out)
	a.WriteTable(present.WorkflowSteps(w))
	for _, s := range w.Steps {
		for _, in := range s.Instances {
			if in.Disputed {
				field("disputed", "%s[%d]: results or ends of it differ, the first counts; skein job status %s", s.Name, in.Index, present.Short(in.Job))
			}
			if in.State.Ended() && in.State != flow.Completed && in.Job != "" {
				field("failed", "%s[%d]: %s; skein job status %s", s.Name, in.Index, in.Reason, present.Short(cmp.Or(in.Provider, in.Job))) // its provider's failure, if it came to that
			}
		}
	}
	return nil
}

// followRun watches a run to its end, says which steps changed, and shows it.
func followRun(a *cli.App, ctx context.Context, id string) error {
	c, err := a.Client()
	if err != nil {
		return err
	}
	defer c.Close()
	told, seen := make(map[string]string), false
	tell := func(w api.Workflow) error {
		seen = true
		for _, s := range w.Steps {
			if text := present.StepText(s); s.State != flow.Blocked && told[s.Name] != text {
				told[s.Name] = text
				a.Note("%s", text)
			}
		}
		return nil
	}
	note, forget := a.Once()
	w, err := c.FollowWorkflow(ctx, id, api.FollowOptions{Retry: func(cause error) error {
		if !seen {
			return cause
		}
		note("waiting for the daemon: %s", cause)
		return nil
	}}, func(w api.Workflow) error { forget(); return tell(w) })
	switch {
	case ctx.Err() != nil:
		a.Note("detached, the run goes on; see it again with `skein workflow status --follow %s`", id)
		a.Code = cli.ExitInterrupted
		return nil
	case err != nil:
		return err
	}
	if err := tell(w); err != nil {
		return err
	}
	if err := showRun(a, w, nil); err != nil {
		return err
	}
	return endOfRun(w)
}

// endOfRun is how a command ends that waited for a run, as endOf.
func endOfRun(w api.Workflow) error {
	if w.State == flow.Completed {
		return nil
	}
	return missed("run "+present.ShortRun(w.ID), string(w.State), w.Reason, w.State == flow.TimedOut).
		WithHint("begin again what is not completed: `skein workflow retry %s`", present.ShortRun(w.ID))
}
