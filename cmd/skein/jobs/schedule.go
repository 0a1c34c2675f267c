package jobs

import (
	"context"
	"crypto/rand"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster/flow"
	"github.com/skein-project/skein/cmd/skein/cli"
	"github.com/skein-project/skein/present"
)

func scheduleCommand(a *cli.App) *cobra.Command {
	return cli.Group("schedule", "Workflows that run by themselves: set, pause, run, remove",
		scheduleSet(a), scheduleList(a), scheduleStatus(a), scheduleChange(a, "pause", "Begin no more runs until it is resumed"),
		scheduleChange(a, "resume", "Begin runs again, from the next time on"), scheduleRemove(a), scheduleRun(a))
}

const oneSchedule = "the name of a schedule, its id or the beginning of it"

// scheduleFlags are the flags of schedule set.
type scheduleFlags struct {
	req        api.ScheduleRequest
	name       string
	missed     string
	overlap    string
	missedTime time.Duration
	params     []string
}

func scheduleSet(a *cli.App) *cobra.Command {
	var f scheduleFlags
	cmd := &cobra.Command{
		Use: "set FILE", Short: "Run a workflow at given times", Args: cli.Exactly(1, "a workflow file"),
		Long: "Uploads what the jobs of its steps need and has the holder begin a run at each time that\n" +
			"--cron names, in the time zone of --zone. A schedule of the same name becomes this one.\n" +
			"A line with a fixed hour is due once on each of its days, also where the clocks change;\n" +
			"one whose hour is * or has a step goes by elapsed time. See docs/workflows.md.",
		Example: "  skein schedule set nightly.toml --cron \"30 2 * * *\" --zone Europe/Berlin",
		RunE:    func(cmd *cobra.Command, args []string) error { return f.set(a, cmd.Context(), args[0]) },
	}
	x := cmd.Flags()
	x.StringVar(&f.name, "name", "", "what it is called (default: the name in the file)")
	x.StringVar(&f.req.Cron, "cron", "", "minute, hour, day of the month, month, day of the week; or @daily and the like")
	x.StringVar(&f.req.Zone, "zone", "", "time zone of these times, as Europe/Berlin (default UTC)")
	x.StringVar(&f.missed, "missed", string(flow.MissedLast), "missed times that get a run: skip (none), last or all")
	x.DurationVar(&f.missedTime, "missed-for", flow.DefaultMissed*time.Second, "how long ago such a time may be")
	x.StringVar(&f.overlap, "overlap", "", "a run while the one before goes on: skip, queue_one, queue, replace or allow (default: that of the file, or skip)")
	x.StringArrayVar(&f.params, "param", nil, "the value of a parameter: NAME=VALUE")
	x.BoolVar(&f.req.Paused, "paused", false, "begin no run until it is resumed")
	x.BoolVar(&f.req.CheckOnly, "dry-run", false, "check the workflow and the times, show the next ones, and change nothing")
	return cmd
}

func (f scheduleFlags) set(a *cli.App, ctx context.Context, path string) error {
	req := f.req
	if req.Cron == "" {
		return cli.Usagef("--cron is missing").WithHint(`--cron "30 2 * * *" is every day at half past two`)
	}
	if err := cli.OneOf("--missed", f.missed, "skip", "last", "all"); err != nil {
		return err
	}
	if f.overlap != "" {
		if err := cli.OneOf("--overlap", f.overlap, "skip", "queue_one", "queue", "replace", "allow"); err != nil {
			return err
		}
	}
	req.Missed, req.Overlap, req.MissedSeconds = flow.Missed(f.missed), flow.Overlap(f.overlap), new(int64(f.missedTime/time.Second))
	t, err := readWorkflow(path)
	if err != nil {
		return err
	}
	if req.Params, err = paramValues(f.params, t.def); err != nil {
		return err
	}
	name := f.name
	if name == "" {
		name = t.def.Name
	}
	if err := flow.CheckScheduleName(name); err != nil {
		return cli.Usagef("%s", err).WithHint("--name says what the schedule is called")
	}
	c, err := a.Client()
	if err != nil {
		return err
	}
	defer c.Close()
	if err := t.upload(a, ctx, c); err != nil {
		return err
	}
	req.Definition = t.def
	w := &waiting{a: a}
	within, cancel := context.WithTimeout(ctx, patience(a)+max(a.Timeout, 35*time.Second)) // it may wait for a majority
	defer cancel()
	out, err := c.SetSchedule(w.patiently(within), name, req)
	if err != nil {
		return t.refused(err)
	}
	if req.CheckOnly {
		a.Note("nothing was changed: the workflow and its times make sense")
	}
	return showSchedule(a, out, nil)
}

func scheduleList(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use: "ls", Aliases: []string{"list"}, Short: "List the schedules: when each is due, and what came of it last", Args: cli.Exactly(0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.WithClient(cmd.Context(), func(ctx context.Context, c *api.Client) error {
				list, raw, err := cli.Fetch[api.Schedules](ctx, c, "/v1/schedules")
				if err != nil {
					return err
				}
				return a.Show(cli.View{Raw: raw, Body: list, Items: cli.Items(list.Schedules), Table: func() present.Table { return present.Schedules(list) }})
			})
		},
	}
}

func scheduleStatus(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use: "status SCHEDULE", Aliases: []string{"show"}, Short: "One schedule: its next times, and what came of the last ones", Args: cli.Exactly(1, oneSchedule),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.WithClient(cmd.Context(), func(ctx context.Context, c *api.Client) error {
				s, raw, err := cli.Fetch[api.Schedule](ctx, c, "/v1/schedules/"+pathEscape(args[0]))
				if err != nil {
					return err
				}
				return showSchedule(a, s, raw)
			})
		},
	}
}

func scheduleChange(a *cli.App, what, short string) *cobra.Command {
	return &cobra.Command{
		Use: what + " SCHEDULE", Short: short, Args: cli.Exactly(1, oneSchedule),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.WithClient(cmd.Context(), func(ctx context.Context, c *api.Client) error {
				s, err := c.ChangeSchedule(ctx, args[0], what)
				if err != nil {
					return err
				}
				return showSchedule(a, s, nil)
			})
		},
	}
}

func scheduleRemove(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use: "rm SCHEDULE", Aliases: []string{"remove"}, Short: "End a schedule; its runs go on", Args: cli.Exactly(1, oneSchedule),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.WithClient(cmd.Context(), func(ctx context.Context, c *api.Client) error {
				if err := c.RemoveSchedule(ctx, args[0]); err != nil {
					return err
				}
				a.Note("schedule %s is removed", args[0])
				return nil
			})
		},
	}
}

func scheduleRun(a *cli.App) *cobra.Command {
	var key string
	var follow bool
	cmd := &cobra.Command{
		Use: "run SCHEDULE", Short: "Begin a run of it now, besides those at its times", Args: cli.Exactly(1, oneSchedule),
		RunE: func(cmd *cobra.Command, args []string) error {
			if key == "" {
				key = "cli-" + rand.Text()
			}
			var out api.WorkflowSubmitted
			err := a.WithClient(cmd.Context(), func(ctx context.Context, c *api.Client) (err error) {
				out, err = c.RunSchedule(ctx, args[0], key)
				return err
			})
			switch {
			case err != nil:
				return err
			case follow:
				return followRun(a, cmd.Context(), string(out.Run))
			case a.Output == "json" || a.Output == "jsonl":
				return a.Show(cli.View{Body: out})
			}
			fmt.Fprintln(a.Out, out.Run)
			return nil
		},
	}
	cmd.Flags().StringVar(&key, "key", "", "idempotency key: the same key again is the same run (default: a new one)")
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "show how the steps get on and wait for the end")
	return cmd
}

// showSchedule writes a schedule in the form that -o asks for.
func showSchedule(a *cli.App, s api.Schedule, raw []byte) error {
	if a.Output != "table" && a.Output != "wide" {
		return a.Show(cli.View{Raw: raw, Body: s, Table: func() present.Table { return present.ScheduleTimes(s) }})
	}
	state := ""
	if s.Paused {
		state = "   paused"
	}
	fmt.Fprintf(a.Out, "schedule %s %s%s\n", s.ID, present.Plain(s.Name), state)
	field := func(name, format string, args ...any) {
		fmt.Fprintf(a.Out, "  %-9s %s\n", name, present.Plain(fmt.Sprintf(format, args...)))
	}
	field("cron", "%s in %s", s.Cron, s.Zone)
	field("missed", "%s, for %s", s.Missed, time.Duration(s.MissedSeconds)*time.Second)
	field("overlap", "%s", s.Overlap)
	field("owner", "%s, set by %s", s.Owner, present.OrDash(s.SetBy))
	field("open runs", "%d", s.OpenRuns)
	zone, err := time.LoadLocation(s.Zone)
	if err != nil {
		zone = time.UTC
	}
	for i, at := range s.Next {
		name := ""
		if i == 0 {
			name = "next"
		}
		field(name, "%s", at.In(zone).Format("Mon 2006-01-02 15:04 MST"))
	}
	if len(s.Last) > 0 {
		fmt.Fprintln(a.Out)
		a.WriteTable(present.ScheduleTimes(s))
	}
	return nil
}
