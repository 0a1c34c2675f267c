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
			return statusWatch(a, cmd.Context(), interval)
		},
	}
	cmd.Flags().BoolVar(&watch, "watch", false, "keep showing it until Ctrl-C")
	cmd.Flags().DurationVar(&interval, "interval", time.Second, "time between updates of --watch")
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

// statusWatch repeats the page; a daemon that restarts is waited for.
func statusWatch(a *cli.App, ctx context.Context, interval time.Duration) error {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		if a.OutWidth > 0 && (a.Output == "table" || a.Output == "wide") {
			fmt.Fprint(a.Out, "\x1b[H\x1b[2J")
		}
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
			for i, l := range statusLines(s) {
				if i > 0 {
					fmt.Fprintf(w, "  %-9s %s\n", l[0], l[1])
					continue
				}
				fmt.Fprintln(w, l[1])
			}
		},
		Table: func(cli.Form) cli.Table {
			t := cli.Table{Head: []string{"KEY", "VALUE"}}
			for _, f := range statusFields(s) {
				t.Add(f[0], f[1])
			}
			return t
		},
	}
}

// statusLines is the page; the first line answers: is it fine, what am I.
func statusLines(s api.Status) [][2]string {
	first := fmt.Sprintf("* %s %s   cluster %s   term %s   %s", s.Node, cli.OrDash(s.Role), cli.OrDash(s.Cluster), cli.TermOf(uint64(s.Term)), s.State)
	if len(s.Reasons) > 0 {
		first += ": " + strings.Join(s.Reasons, ", ")
	}
	holder := "nobody known"
	if s.Lease.Holder != "" {
		holder = fmt.Sprintf("%s, term %s", s.Lease.Holder, cli.TermOf(uint64(s.Lease.Term)))
		if s.Lease.TenureSeconds != nil {
			holder += " for " + cli.AgeOf(s.Lease.TenureSeconds)
		}
		if s.Lease.RenewedSeconds != nil {
			holder += ", renewed " + cli.AgeOf(s.Lease.RenewedSeconds) + " ago"
		}
		if s.Lease.ExpiresSeconds != nil {
			holder += ", expires in " + cli.AgeOf(s.Lease.ExpiresSeconds)
		}
	}
	publisher := "nobody known"
	if s.Lease.Publisher != "" {
		publisher = string(s.Lease.Publisher)
		if s.Lease.PublishWhy != "" {
			publisher += ", " + publishWhy(s.Lease)
		}
	}
	lease := fmt.Sprintf("mode %s, %s, profile %s", cli.OrDash(s.Lease.Mode), cli.Plural(s.Lease.Voters, "voter"), cli.OrDash(s.Lease.Profile))
	if len(s.Lease.Abstaining) > 0 {
		lease += ", abstaining " + cli.Joined(s.Lease.Abstaining)
	}
	m := s.Members
	members := []string{fmt.Sprintf("%d of %d alive", m.Alive, m.Total)}
	for _, p := range []struct {
		n    int
		word string
	}{{m.Joining, "joining"}, {m.Suspect, "suspect"}, {m.Dead, "dead"}} {
		if p.n > 0 {
			members = append(members, fmt.Sprintf("%d %s", p.n, p.word))
		}
	}
	mesh := fmt.Sprintf("%s %s, %s", deviceOf(s.Mesh), cli.OrDash(s.Mesh.Address), cli.Plural(s.Mesh.PeerCount, "peer"))
	if s.Mesh.PeerCount > 0 {
		mesh += ", oldest handshake " + cli.AgeOf(s.Mesh.OldestHandshakeSeconds)
	}
	return [][2]string{
		{"", first},
		{"holder", holder},
		{"publisher", publisher},
		{"members", strings.Join(members, ", ")},
		{"lease", lease},
		{"mesh", mesh},
		{"log", fmt.Sprintf("%s in %s, %s, state %s", cli.Plural(int(s.Log.Events), "event"), cli.Plural(s.Log.Sources, "source"), present.BytesOf(s.Log.SizeBytes), s.Log.StateHash.String()[:12]) + snapshotText(s)},
		{"worker", workerLine(s.Worker)},
		{"jobs", fmt.Sprintf("%d running, %d pending, %d completed, %d failed", s.Jobs.Running, s.Jobs.Pending, s.Jobs.Completed, s.Jobs.Failed+s.Jobs.Partial)},
	}
}

// snapshotText tells of the last snapshot of the log.
func snapshotText(s api.Status) string {
	snap := s.Log.Snapshot
	if snap == nil {
		return ""
	}
	return fmt.Sprintf(", snapshot of %s signed by %s", cli.Plural(int(snap.Events), "event"), cli.Joined(snap.Signers))
}

// publishWhy says in words what gives the publisher its duty.
func publishWhy(l api.LeaseSummary) string {
	if l.PublishWhy == api.PublishLease {
		return "as the holder"
	}
	return l.PublishWhy
}

// statusFields is the page for scripts.
func statusFields(s api.Status) [][2]string {
	return [][2]string{
		{"node", string(s.Node)},
		{"cluster", cli.OrDash(s.Cluster)},
		{"version", cli.OrDash(s.Version)},
		{"state", string(s.State)},
		{"reasons", cli.OrDash(strings.Join(s.Reasons, ", "))},
		{"role", cli.OrDash(s.Role)},
		{"term", cli.TermOf(uint64(s.Term))},
		{"holder", cli.OrDash(s.Lease.Holder)},
		{"publisher", cli.OrDash(s.Lease.Publisher)},
		{"publishing", cli.YesNo(s.Lease.Publishing)},
		{"publish_why", cli.OrDash(s.Lease.PublishWhy)},
		{"mode", cli.OrDash(s.Lease.Mode)},
		{"profile", cli.OrDash(s.Lease.Profile)},
		{"voters", strconv.Itoa(s.Lease.Voters)},
		{"abstaining", cli.Joined(s.Lease.Abstaining)},
		{"blocked", cli.OrDash(s.Lease.Blocked)},
		{"local_health", strconv.Itoa(s.LocalHealth)},
		{"members", strconv.Itoa(s.Members.Total)},
		{"alive", strconv.Itoa(s.Members.Alive)},
		{"mesh_backend", cli.OrDash(s.Mesh.Backend)},
		{"mesh_interface", cli.OrDash(s.Mesh.Interface)},
		{"mesh_address", cli.OrDash(s.Mesh.Address)},
		{"events", strconv.FormatUint(s.Log.Events, 10)},
		{"state_hash", s.Log.StateHash.String()},
		{"slots", strconv.Itoa(s.Worker.Slots)},
		{"running_chunks", strconv.Itoa(s.Worker.Running)},
		{"running_jobs", strconv.Itoa(s.Jobs.Running)},
		{"observed_at", cli.Stamp(s.ObservedAt)},
	}
}

func workerLine(w api.WorkerSummary) string {
	line := fmt.Sprintf("%d of %s busy, %d queued", w.Running, cli.Plural(w.Slots, "slot"), w.Queued)
	if w.Draining {
		line += ", draining: nothing new begins"
	}
	return line
}
