package hosts

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/cmd/skein/cli"
	"github.com/skein-project/skein/present"
)

// waitDefault is how long wait waits unless told otherwise.
const waitDefault = time.Minute

// condition reports whether what is waited for is there, and if not, what is.
type condition func(ctx context.Context, c *api.Client) (done bool, have string, err error)

func waitCommand(a *cli.App) *cobra.Command {
	var what string
	var limit time.Duration
	cmd := &cobra.Command{
		Use:   "wait --for holder|ready|members=N|job=ID",
		Short: "Wait for a condition, for scripts",
		Long: "Exits 0 once it holds, 7 if --timeout passes first, 8 if the job ends other than\n" +
			"completed. A daemon that is not there yet is waited for too.",
		Args: cli.Exactly(0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			met, err := parseCondition(what)
			if err != nil {
				return err
			}
			switch {
			case limit <= 0:
				return cli.Usagef("--timeout is %s, want more than 0", limit)
			case a.TimeoutSet && !cmd.Flags().Changed("timeout"): // by the environment
				limit = a.Timeout
			}
			return wait(a, cmd.Context(), what, limit, met)
		},
	}
	cmd.Flags().StringVar(&what, "for", "", "holder, ready, members=N or job=ID")
	cmd.Flags().DurationVar(&limit, "timeout", waitDefault, "how long to wait for it")
	return cmd
}

func parseCondition(what string) (condition, error) {
	name, arg, has := strings.Cut(what, "=")
	switch {
	case what == "holder":
		return haveHolder, nil
	case what == "ready":
		return haveReady, nil
	case name == "members" && has:
		n, err := strconv.Atoi(arg)
		if err != nil || n < 1 {
			return nil, cli.Usagef("--for members=%s: want a number from 1", arg)
		}
		return haveMembers(n), nil
	case name == "job" && arg != "":
		return haveJob(arg), nil
	}
	return nil, cli.Usagef("--for is %q", what).WithHint("wait for holder, ready, members=N or job=ID")
}

func wait(a *cli.App, ctx context.Context, what string, limit time.Duration, met condition) error {
	c, err := a.Client()
	if err != nil {
		return err
	}
	defer c.Close()
	waiting, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	have := "nothing"
	var lost error // the daemon did not answer last
	for {
		done, now, err := met(waiting, c)
		switch {
		case err == nil && done:
			switch a.Output {
			case "json", "jsonl":
				return a.Show(cli.View{Body: struct {
					For string `json:"for"`
					Met bool   `json:"met"`
				}{what, true}})
			}
			return nil
		case err == nil:
			have, lost = now, nil
		case waiting.Err() == nil && !api.Temporary(err):
			return err
		case waiting.Err() == nil:
			have, lost = err.Error(), err
		}
		timer := time.NewTimer(cli.PollPause)
		select {
		case <-waiting.Done():
			timer.Stop()
			if errors.Is(context.Cause(ctx), context.Canceled) {
				return context.Canceled
			}
			hint := "give it more time with --timeout, or look with `skein status`"
			if _, ok := errors.AsType[*api.UnreachableError](lost); ok { // time alone may not help
				_, _, hint = a.Classify(ctx, lost)
			}
			return cli.Failf(cli.ExitTimeout, "not %s within %s: %s", what, limit, have).WithHint("%s", hint)
		case <-timer.C:
		}
	}
}

func haveHolder(ctx context.Context, c *api.Client) (bool, string, error) {
	l, err := c.Lease(ctx)
	return l.Holder != "", "no holder known", err
}

func haveReady(ctx context.Context, c *api.Client) (bool, string, error) {
	h, err := c.Ready(ctx)
	return h.OK, h.Reason, err
}

func haveMembers(n int) condition {
	return func(ctx context.Context, c *api.Client) (bool, string, error) {
		m, err := c.Members(ctx)
		alive := 0
		for _, x := range m.Members {
			if x.Self || x.State == cluster.Alive {
				alive++
			}
		}
		return alive >= n, present.Plural(alive, "member") + " alive", err
	}
}

func haveJob(id string) condition {
	return func(ctx context.Context, c *api.Client) (bool, string, error) {
		j, err := c.Job(ctx, id)
		if err != nil {
			return false, "", err
		}
		if j.State.Final() && j.State != job.Completed {
			return false, "", cli.Failf(cli.ExitGoal, "job %s is %s", present.Short(j.ID), j.State).WithHint("why: `skein job status %s`", present.Short(j.ID))
		}
		return j.State == job.Completed, "the job is " + string(j.State) + ", " + present.Percent(j), nil
	}
}
