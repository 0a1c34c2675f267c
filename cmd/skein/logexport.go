package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/daemon"
)

func (a *app) logExport() *cobra.Command {
	var since, kinds, node, out string
	cmd := &cobra.Command{
		Use: "export", Short: "Write the event log as lines of JSON that others can verify", Args: exactly(0, ""),
		Long: "Reads the state directory, also while a daemon uses it. The first line has the signed\n" +
			"heads and the keys, each other one an event with its exact bytes, in the order of\n" +
			"clocks, and the last one says that the export is whole and from which position the\n" +
			"next one goes on. With --kind each event can be verified by itself only, since those\nbetween are missing.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := a.settings(cmd)
			if err != nil {
				return err
			}
			var o daemon.ExportOptions
			if since != "" {
				if o.Since, o.From, err = parseSince(since, time.Now()); err != nil {
					return err
				}
			}
			if o.Kinds, err = api.ParseKinds(kinds); err != nil {
				return err
			}
			if node != "" {
				if o.Node, err = cluster.ParseNodeID(node); err != nil {
					return usagef("--node: %s", err)
				}
			}
			return a.writeExport(cmd.Context(), cfg.StateDir, o, out)
		},
	}
	addSettings(cmd.Flags())
	f := cmd.Flags()
	f.StringVar(&since, "since", "", "only later events: a position, an age like 10m, or a time like 2026-01-02T15:04:05Z")
	f.StringVar(&kinds, "kind", "", "only of these kinds, like 'lease_*,term_start'")
	f.StringVar(&node, "node", "", "only those that this host wrote")
	f.StringVar(&out, "out", "", "file to write, which must not exist (default: stdout)")
	return cmd
}

// writeExport writes to a new file, or to stdout.
func (a *app) writeExport(ctx context.Context, stateDir string, o daemon.ExportOptions, out string) (err error) {
	w := a.out
	if out != "" {
		f, err1 := os.OpenFile(out, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if err1 != nil {
			return failf(exitFailed, "--out: %s", err1).hint("name a file that does not exist yet")
		}
		defer func() { err = errors.Join(err, f.Close()) }()
		w = syncedFile{f}
	}
	end, err := a.export(ctx, stateDir, o, w)
	if err == nil {
		if s, ok := w.(syncedFile); ok {
			err = s.f.Sync()
		}
	}
	if err != nil {
		if ctx.Err() != nil {
			a.note("broken off after %s; go on with --since %s", plural(int(end.Events), "event"), end.Cursor)
		}
		return err
	}
	a.note("%s up to %s", plural(int(end.Events), "event"), end.Cursor)
	return nil
}

// syncedFile is a file that is synced when all is written.
type syncedFile struct{ f *os.File }

func (s syncedFile) Write(p []byte) (int, error) { return s.f.Write(p) }

func (a *app) logReplay() *cobra.Command {
	var at string
	var o daemon.ReplayOptions
	cmd := &cobra.Command{
		Use: "replay", Short: "What the log says of the cluster as of a time or position", Args: exactly(0, ""),
		Long: "Folds the log in the state directory, also while a daemon uses it, up to --at. A time\n" +
			"takes in all events whose clock is not above it; a number is an event's \"hlc\", for the\n" +
			"moment right after that event. The state is the one that a host with all these events\n" +
			"had then, and rightly acted upon. --hindsight shows what counts of it today: without\n" +
			"what a term that began later made void.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := a.settings(cmd)
			if err != nil {
				return err
			}
			if err := parseAt(at, time.Now(), &o); err != nil {
				return err
			}
			r, err := a.replay(cmd.Context(), cfg.StateDir, o)
			if err != nil {
				return err
			}
			return a.show(a.replayView(r))
		},
	}
	addSettings(cmd.Flags())
	cmd.Flags().StringVar(&at, "at", "", "a position, an age like 10m, a time like 2026-01-02T15:04:05Z, or an event's hlc (default: the end)")
	cmd.Flags().BoolVar(&o.Hindsight, "hindsight", false, "leave out what later terms made void")
	return cmd
}

// parseAt reads where a replay ends.
func parseAt(s string, now time.Time, o *daemon.ReplayOptions) error {
	if s == "" {
		return nil
	}
	if n, err := strconv.ParseUint(s, 10, 64); err == nil && n > 0 {
		o.Clock = cluster.HLC(n)
		return nil
	}
	var err error
	o.Time, o.Position, err = parseSince(s, now)
	if e, ok := errors.AsType[*cliError](err); ok {
		e.msg = strings.Replace(e.msg, "--since", "--at", 1)
	}
	return err
}

func (a *app) replayView(r api.LogReplay) view {
	return view{
		body: r, table: func(form) table { return replayFields(r) },
		page: func(w io.Writer) {
			what := "as of the beginning"
			if r.LastAt != nil {
				what = "as of " + stamp(*r.LastAt)
			}
			if r.Hindsight {
				what += ", with hindsight"
			}
			fmt.Fprintf(w, "%s: %s, %d void, state %s\n", what, plural(int(r.Events), "event"), r.Void, r.StateHash.String()[:12])
			fmt.Fprintf(w, "  position  %s\n", orDash(r.Position))
			fmt.Fprintf(w, "  lease     %s\n", leaseThen(r.Lease))
			fmt.Fprintf(w, "  voters    %s, mode %s, epoch %s of term %s\n", joined(r.Config.Voters), orDash(r.Config.Mode),
				termOf(r.Config.Epoch), termOf(uint64(r.Config.Term)))
			for _, t := range []table{replayMembers(r), replayJobs(r), replayActions(r)} {
				if len(t.rows) > 0 {
					fmt.Fprintln(w)
					a.writeTable(t)
				}
			}
		},
	}
}

func leaseThen(l api.ReplayLease) string {
	if l.Term == 0 {
		return "no term has begun"
	}
	text := fmt.Sprintf("term %s of %s, since %s", termOf(uint64(l.Term)), orDash(l.Holder), stampOf(l.StartedAt))
	if l.EndedAt != nil {
		text += fmt.Sprintf(", ended %s: %s", stampOf(l.EndedAt), orDash(l.Reason))
	}
	return text
}

func replayMembers(r api.LogReplay) table {
	t := table{head: []string{"NODE", "STATUS", "ADDR", "HEALTH", "VERSION", "JOINED", "STARTED", "ENDED", "BY"}}
	for _, m := range r.Members {
		t.add(string(m.Node), m.Status, orDash(m.Addr), orDash(m.Health), orDash(m.Version), stampOf(m.JoinedAt),
			stampOf(m.StartedAt), stampOf(m.EndedAt), orDash(m.EndedBy))
	}
	return t
}

func replayJobs(r api.LogReplay) table {
	t := table{head: []string{"JOB", "NAME", "STATE", "CHUNKS", "OWNER", "SUBMITTED", "FINISHED"}}
	for _, j := range r.Jobs {
		t.add(string(j.ID), orDash(j.Name), string(j.State), fmt.Sprintf("%d/%d", j.Chunks.Accepted, j.Chunks.Total),
			orDash(j.Owner), stampOf(j.SubmittedAt), stampOf(j.FinishedAt))
	}
	return t
}

func replayActions(r api.LogReplay) table {
	t := table{head: []string{"TIME", "NODE", "ACTION", "ACTOR", "SUBJECT", "REASON"}}
	for _, x := range r.Actions {
		t.add(stamp(x.At), string(x.Node), string(x.Kind), orDash(x.Actor), orDash(x.Subject), orDash(x.Reason))
	}
	return t
}

// replayFields is the page for scripts.
func replayFields(r api.LogReplay) table {
	t := table{head: []string{"KEY", "VALUE"}}
	t.add("position", r.Position)
	t.add("last_at", stampOf(r.LastAt))
	t.add("last_hlc", strconv.FormatUint(uint64(r.LastHLC), 10))
	t.add("events", strconv.FormatUint(r.Events, 10))
	t.add("void", strconv.FormatUint(r.Void, 10))
	t.add("state_hash", r.StateHash.String())
	t.add("term", termOf(uint64(r.Lease.Term)))
	t.add("holder", orDash(r.Lease.Holder))
	t.add("started_at", stampOf(r.Lease.StartedAt))
	t.add("ended_at", stampOf(r.Lease.EndedAt))
	t.add("voters", joined(r.Config.Voters))
	t.add("mode", orDash(r.Config.Mode))
	for _, m := range r.Members {
		t.add("member."+string(m.Node), m.Status)
	}
	for _, j := range r.Jobs {
		t.add("job."+string(j.ID), string(j.State))
	}
	return t
}
