package hosts

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cmd/skein/cli"
	"github.com/skein-project/skein/tui"
)

func topCommand(a *cli.App) *cobra.Command {
	var o tui.Options
	cmd := &cobra.Command{
		Use:   "top",
		Short: "The cluster live on this terminal: hosts, mesh, events, jobs, load tests",
		Long: "Shows what the cluster does as it happens; ? in it says which keys there are. Changes\n" +
			"asked for after a colon are made once the name has been typed again. With\n" +
			"--mouse a click chooses a view or a row, a second one shows all of it.",
		Args: cli.Exactly(0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return live(a, cmd.Context(), o, api.WatchQuery{Topics: tui.Topics, Events: api.EventQuery{Tail: tui.Tail}})
		},
	}
	cmd.Flags().BoolVar(&o.Mouse, "mouse", false, "take clicks and the wheel, which the terminal then does not use to select text")
	return cmd
}

// live shows a watch on the terminal.
func live(a *cli.App, ctx context.Context, o tui.Options, q api.WatchQuery) error {
	in, out, ok := a.Screen()
	if !ok {
		return cli.Usagef("this needs a terminal that moves its cursor").WithHint("`skein status --watch` prints line by line, `skein watch` is for programs")
	}
	c, err := a.Client()
	if err != nil {
		return err
	}
	defer c.Close()
	o.Color, o.ASCII = a.Colored(), !a.UTF8()
	o.Act = func(action tui.Action) (string, error) {
		ctx, cancel := a.Limited(ctx)
		defer cancel()
		return act(ctx, c, action)
	}
	return tui.Run(ctx, in, out, a.Env, o, func(ctx context.Context, heard func(api.WatchMessage) error, lost func(error)) error {
		seen := false
		return c.Watch(ctx, q, api.FollowOptions{Retry: func(cause error) error {
			if !seen {
				return cause
			}
			lost(cause)
			return nil
		}}, func(m api.WatchMessage) error {
			seen = true
			return heard(m)
		})
	})
}

// act makes a change that was confirmed, and says what came of it.
func act(ctx context.Context, c *api.Client, a tui.Action) (string, error) {
	switch a.Verb {
	case tui.StepDown:
		_, err := c.StepDown(ctx, api.StepDownRequest{Reason: "skein top"})
		return a.Name + " was asked to hand the lease over", err
	case tui.Drain, tui.Undrain:
		d, err := c.Drain(ctx, api.DrainRequest{Node: cluster.NodeID(a.Target), Undo: a.Verb == tui.Undrain})
		if a.Verb == tui.Undrain {
			return fmt.Sprintf("%s begins chunks again", d.Node), err
		}
		return fmt.Sprintf("%s begins no more chunks, %d run", d.Node, d.Worker.Running), err
	case tui.StopLoad:
		r, err := c.StopLoad(ctx, a.Target, api.LoadStopRequest{Reason: "skein top"})
		return strings.TrimSpace(fmt.Sprintf("load test %s is to end; %s", a.Name, r.State)), err
	case tui.Stop:
		j, err := c.StopJob(ctx, a.Target, "skein top")
		return strings.TrimSpace(fmt.Sprintf("job %s is %s", a.Name, j.State)), err
	}
	return "", fmt.Errorf("no change is called %q", a.Verb)
}
