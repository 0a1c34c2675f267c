package main

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/skein-project/skein/api"
)

func (a *app) statusCommand() *cobra.Command {
	var watch bool
	var interval time.Duration
	cmd := &cobra.Command{
		Use:   "status",
		Short: "This host and its cluster on one screen",
		Long:  "Exits 6 if the daemon answers and something is wrong; the first line says what.",
		Args:  exactly(0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !watch {
				return a.statusOnce(cmd.Context())
			}
			if interval < 100*time.Millisecond {
				return usagef("--interval is %s, want at least 100ms", interval)
			}
			return a.statusWatch(cmd.Context(), interval)
		},
	}
	cmd.Flags().BoolVar(&watch, "watch", false, "show it again and again until Ctrl-C")
	cmd.Flags().DurationVar(&interval, "interval", time.Second, "pause of --watch")
	return cmd
}

func (a *app) statusOnce(ctx context.Context) error {
	return a.withClient(ctx, func(ctx context.Context, c *api.Client) error {
		s, raw, err := fetch[api.Status](ctx, c, "/v1/status")
		if err != nil {
			return err
		}
		a.code = exitOK
		if s.State != api.StateOK {
			a.code = exitDegraded
		}
		return a.show(statusView(s, raw))
	})
}

// statusWatch repeats the page; a daemon that restarts is waited for.
func (a *app) statusWatch(ctx context.Context, interval time.Duration) error {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		if a.outWidth > 0 && (a.output == "table" || a.output == "wide") {
			fmt.Fprint(a.out, "\x1b[H\x1b[2J")
		}
		if err := a.statusOnce(ctx); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			if !api.Temporary(err) {
				return err
			}
			fmt.Fprintln(a.err, "skein: "+err.Error())
		}
		select {
		case <-ctx.Done():
			a.code = exitOK
			return nil
		case <-tick.C:
		}
	}
}

func statusView(s api.Status, raw []byte) view {
	return view{
		raw: raw,
		page: func(w io.Writer) {
			for i, l := range statusLines(s) {
				if i > 0 {
					fmt.Fprintf(w, "  %-9s %s\n", l[0], l[1])
					continue
				}
				fmt.Fprintln(w, l[1])
			}
		},
		table: func(form) table {
			t := table{head: []string{"KEY", "VALUE"}}
			for _, f := range statusFields(s) {
				t.add(f[0], f[1])
			}
			return t
		},
	}
}

// statusLines is the page; the first line answers: is it fine, what am I.
func statusLines(s api.Status) [][2]string {
	first := fmt.Sprintf("* %s %s   cluster %s   term %s   %s", s.Node, orDash(s.Role), orDash(s.Cluster), termOf(uint64(s.Term)), s.State)
	if len(s.Reasons) > 0 {
		first += ": " + strings.Join(s.Reasons, ", ")
	}
	holder := "nobody known"
	if s.Lease.Holder != "" {
		holder = fmt.Sprintf("%s, term %s", s.Lease.Holder, termOf(uint64(s.Lease.Term)))
		if s.Lease.TenureSeconds != nil {
			holder += " for " + ageOf(s.Lease.TenureSeconds)
		}
		if s.Lease.RenewedSeconds != nil {
			holder += ", renewed " + ageOf(s.Lease.RenewedSeconds) + " ago"
		}
		if s.Lease.ExpiresSeconds != nil {
			holder += ", expires in " + ageOf(s.Lease.ExpiresSeconds)
		}
	}
	publisher := "nobody known"
	if s.Lease.Publisher != "" {
		publisher = string(s.Lease.Publisher)
		if s.Lease.PublishWhy != "" {
			publisher += ", " + publishWhy(s.Lease)
		}
	}
	lease := fmt.Sprintf("mode %s, %s, profile %s", orDash(s.Lease.Mode), plural(s.Lease.Voters, "voter"), orDash(s.Lease.Profile))
	if len(s.Lease.Abstaining) > 0 {
		lease += ", abstaining " + joined(s.Lease.Abstaining)
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
	mesh := fmt.Sprintf("%s %s, %s", deviceOf(s.Mesh), orDash(s.Mesh.Address), plural(s.Mesh.PeerCount, "peer"))
	if s.Mesh.PeerCount > 0 {
		mesh += ", oldest handshake " + ageOf(s.Mesh.OldestHandshakeSeconds)
	}
	return [][2]string{
		{"", first},
		{"holder", holder},
		{"publisher", publisher},
		{"members", strings.Join(members, ", ")},
		{"lease", lease},
		{"mesh", mesh},
		{"log", fmt.Sprintf("%s in %s, %s, state %s", plural(int(s.Log.Events), "event"), plural(s.Log.Sources, "source"), bytesOf(s.Log.SizeBytes), s.Log.StateHash.String()[:12]) + snapshotText(s)},
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
	return fmt.Sprintf(", snapshot of %s signed by %s", plural(int(snap.Events), "event"), joined(snap.Signers))
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
		{"cluster", orDash(s.Cluster)},
		{"version", orDash(s.Version)},
		{"state", string(s.State)},
		{"reasons", orDash(strings.Join(s.Reasons, ", "))},
		{"role", orDash(s.Role)},
		{"term", termOf(uint64(s.Term))},
		{"holder", orDash(s.Lease.Holder)},
		{"publisher", orDash(s.Lease.Publisher)},
		{"publishing", yesNo(s.Lease.Publishing)},
		{"publish_why", orDash(s.Lease.PublishWhy)},
		{"mode", orDash(s.Lease.Mode)},
		{"profile", orDash(s.Lease.Profile)},
		{"voters", strconv.Itoa(s.Lease.Voters)},
		{"abstaining", joined(s.Lease.Abstaining)},
		{"blocked", orDash(s.Lease.Blocked)},
		{"local_health", strconv.Itoa(s.LocalHealth)},
		{"members", strconv.Itoa(s.Members.Total)},
		{"alive", strconv.Itoa(s.Members.Alive)},
		{"mesh_backend", orDash(s.Mesh.Backend)},
		{"mesh_interface", orDash(s.Mesh.Interface)},
		{"mesh_address", orDash(s.Mesh.Address)},
		{"events", strconv.FormatUint(s.Log.Events, 10)},
		{"state_hash", s.Log.StateHash.String()},
		{"slots", strconv.Itoa(s.Worker.Slots)},
		{"running_chunks", strconv.Itoa(s.Worker.Running)},
		{"running_jobs", strconv.Itoa(s.Jobs.Running)},
		{"observed_at", stamp(s.ObservedAt)},
	}
}

// termOf shows a term, or - for none.
func termOf(t uint64) string {
	if t == 0 {
		return unknown
	}
	return strconv.FormatUint(t, 10)
}

func workerLine(w api.WorkerSummary) string {
	line := fmt.Sprintf("%d of %s busy, %d queued", w.Running, plural(w.Slots, "slot"), w.Queued)
	if w.Draining {
		line += ", draining: nothing new begins"
	}
	return line
}
