package hosts

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cmd/skein/cli"
	"github.com/skein-project/skein/present"
	"github.com/skein-project/skein/tui"
)

func statusCommand(a *cli.App) *cobra.Command {
	var watch bool
	var interval time.Duration
	cmd := &cobra.Command{
		Use:   "status",
		Short: "This host and its cluster on one screen",
		Long:  "Exits 6 if the daemon answers and something is wrong; the first line says what.",
		Args:  cli.Exactly(0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !watch {
				return statusOnce(a, cmd.Context())
			}
			if interval < 100*time.Millisecond {
				return cli.Usagef("--interval is %s, want at least 100ms", interval)
			}
			if _, _, ok := a.Screen(); ok && a.Output == "table" {
				return live(a, cmd.Context(), tui.Options{Page: true}, api.WatchQuery{Topics: []string{"status"}})
			}
			return statusWatch(a, cmd.Context(), interval)
		},
	}
	cmd.Flags().BoolVar(&watch, "watch", false, "keep showing it until Ctrl-C: on a terminal as it changes, elsewhere one after another")
	cmd.Flags().DurationVar(&interval, "interval", time.Second, "time between updates of --watch, where it prints them below each other")
	return cmd
}

func statusOnce(a *cli.App, ctx context.Context) error {
	return a.WithClient(ctx, func(ctx context.Context, c *api.Client) error {
		s, raw, err := cli.Fetch[api.Status](ctx, c, "/v1/status")
		if err != nil {
			return err
		}
		a.Code = cli.ExitOK
		if s.State != api.StateOK {
			a.Code = cli.ExitDegraded
		}
		return a.Show(statusView(s, raw))
	})
}

// statusWatch prints the result again and again; a daemon that restarts is waited for.
func statusWatch(a *cli.App, ctx context.Context, interval time.Duration) error {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		if err := statusOnce(a, ctx); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			if !api.Temporary(err) {
				return err
			}
			fmt.Fprintln(a.Err, "skein: "+err.Error())
		}
		select {
		case <-ctx.Done():
			a.Code = cli.ExitOK
			return nil
		case <-tick.C:
		}
	}
}

func statusView(s api.Status, raw []byte) cli.View {
	return cli.View{
		Raw: raw,
		Page: func(w io.Writer) {
			fmt.Fprintln(w, "* "+present.Plain(present.Headline(s)))
			cli.WriteFields(w, present.Status(s))
		},
		Table: func() present.Table {
			t := present.NewTable("KEY", "VALUE")
			for _, f := range statusFields(s) {
				t.Add(f[0], f[1])
			}
			return t
		},
	}
}

// statusFields is the page for scripts.
func statusFields(s api.Status) [][2]string {
	return [][2]string{
		{"node", string(s.Node)},
		{"cluster", present.OrDash(s.Cluster)},
		{"version", present.OrDash(s.Version)},
		{"state", string(s.State)},
		{"reasons", present.OrDash(strings.Join(s.Reasons, ", "))},
		{"role", present.OrDash(s.Role)},
		{"term", present.TermOf(uint64(s.Term))},
		{"holder", present.OrDash(s.Lease.Holder)},
		{"publisher", present.OrDash(s.Lease.Publisher)},
		{"publishing", present.YesNo(s.Lease.Publishing)},
		{"publish_why", present.OrDash(s.Lease.PublishWhy)},
		{"publish_state", present.OrDash(s.Publish.State)},
		{"published_at", present.StampOf(s.Publish.PublishedAt)},
		{"publish_failing_since", present.StampOf(s.Publish.FailingSince)},
		{"mode", present.OrDash(s.Lease.Mode)},
		{"profile", present.OrDash(s.Lease.Profile)},
		{"voters", strconv.Itoa(s.Lease.Voters)},
		{"abstaining", present.Joined(s.Lease.Abstaining)},
		{"blocked", present.OrDash(s.Lease.Blocked)},
		{"local_health", strconv.Itoa(s.LocalHealth)},
		{"load", present.OrDash(s.Pressure.Level)},
		{"load_signal", present.OrDash(s.Pressure.Signal)},
		{"members", strconv.Itoa(s.Members.Total)},
		{"alive", strconv.Itoa(s.Members.Alive)},
		{"mesh_backend", present.OrDash(s.Mesh.Backend)},
		{"mesh_interface", present.OrDash(s.Mesh.Interface)},
		{"mesh_address", present.OrDash(s.Mesh.Address)},
		{"events", strconv.FormatUint(s.Log.Events, 10)},
		{"state_hash", s.Log.StateHash.String()},
		{"slots", strconv.Itoa(s.Worker.Slots)},
		{"running_chunks", strconv.Itoa(s.Worker.Running)},
		{"running_jobs", strconv.Itoa(s.Jobs.Running)},
		{"observed_at", present.Stamp(s.ObservedAt)},
	}
}
