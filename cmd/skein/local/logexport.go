package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cmd/skein/cli"
	"github.com/skein-project/skein/offline"
	"github.com/skein-project/skein/present"
)

func logExport(a *cli.App, d Options) *cobra.Command {
	var since, kinds, node, out string
	cmd := &cobra.Command{
		Use: "export", Short: "Write the event log as lines of JSON that others can verify", Args: cli.Exactly(0, ""),
		Long: "Reads the state directory, even while a daemon uses it. The first line has the signed\n" +
			"heads and the keys, each further line an event with its exact bytes, in the order of\n" +
			"clocks, and the last one says that the export is complete and from which position the\n" +
			"next one continues. With --kind each event can only be verified by itself, since\n" +
			"those in between are missing.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := a.Settings(cmd)
			if err != nil {
				return err
			}
			var o offline.ExportOptions
			if since != "" {
				if o.Since, o.From, err = cli.ParseSince("--since", since, time.Now()); err != nil {
					return err
				}
			}
			if o.Kinds, err = api.ParseKinds(kinds); err != nil {
				return err
			}
			if node != "" {
				if o.Node, err = cluster.ParseNodeID(node); err != nil {
					return cli.Usagef("--node: %s", err)
				}
			}
			return writeExport(a, cmd.Context(), d, cfg.StateDir, o, out)
		},
	}
	cli.AddSettings(cmd.Flags())
	f := cmd.Flags()
	f.StringVar(&since, "since", "", "only later events: a position, an age like 10m, or a time like 2026-01-02T15:04:05Z")
	f.StringVar(&kinds, "kind", "", "only of these kinds, like 'lease_*,term_start'")
	f.StringVar(&node, "node", "", "only those that this host wrote")
	f.StringVar(&out, "out", "", "file to write, which must not exist (default: stdout)")
	return cmd
}

// writeExport writes to a new file, or to stdout.
func writeExport(a *cli.App, ctx context.Context, d Options, stateDir string, o offline.ExportOptions, out string) (err error) {
	w := a.Out
	if out != "" {
		f, err1 := os.OpenFile(out, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if err1 != nil {
			return cli.Failf(cli.ExitFailed, "--out: %s", err1).WithHint("name a file that does not exist yet")
		}
		defer func() { err = errors.Join(err, f.Close()) }()
		w = syncedFile{f}
	}
	end, err := d.Export(ctx, stateDir, o, w)
	if err == nil {
		if s, ok := w.(syncedFile); ok {
			err = s.f.Sync()
		}
	}
	if err != nil {
		if ctx.Err() != nil {
			a.Note("broken off after %s; go on with --since %s", present.Plural(int(end.Events), "event"), end.Cursor)
		}
		return err
	}
	a.Note("%s up to %s", present.Plural(int(end.Events), "event"), end.Cursor)
	return nil
}

// syncedFile is a file that is synced when all is written.
type syncedFile struct{ f *os.File }

func (s syncedFile) Write(p []byte) (int, error) { return s.f.Write(p) }

func logReplay(a *cli.App, d Options) *cobra.Command {
	var at string
	var o offline.ReplayOptions
	cmd := &cobra.Command{
		Use: "replay", Short: "The state of the cluster as of a time or position, from the log", Args: cli.Exactly(0, ""),
		Long: "Folds the log in the state directory up to --at, even while a daemon uses it. A time\n" +
			"includes all events whose clock is not later; a number is an event's \"hlc\" and\n" +
			"means the moment right after that event. The state is the one that a host with all\n" +
			"these events had then, and rightly acted upon. --hindsight shows what counts of it\n" +
			"today: without what a term that started later made void.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := a.Settings(cmd)
			if err != nil {
				return err
			}
			if err := parseAt(at, time.Now(), &o); err != nil {
				return err
			}
			if o.Time.After(time.Now()) {
				a.Note("%s is yet to come: this is the end of the log", present.Stamp(o.Time))
			}
			r, err := d.Replay(cmd.Context(), cfg.StateDir, o)
			if err != nil {
				return err
			}
			return a.Show(replayView(a, r))
		},
	}
	cli.AddSettings(cmd.Flags())
	cmd.Flags().StringVar(&at, "at", "", "a position, an age like 10m, a time like 2026-01-02T15:04:05Z, or an event's hlc (default: the end)")
	cmd.Flags().BoolVar(&o.Hindsight, "hindsight", false, "leave out what later terms made void")
	return cmd
}

// parseAt reads where a replay ends.
func parseAt(s string, now time.Time, o *offline.ReplayOptions) error {
	if s == "" {
		return nil
	}
	if n, err := strconv.ParseUint(s, 10, 64); err == nil && n > 0 {
		o.Clock = cluster.HLC(n)
		return nil
	}
	var err error
	o.Time, o.Position, err = cli.ParseSince("--at", s, now)
	return err
}

func replayView(a *cli.App, r api.LogReplay) cli.View {
	return cli.View{
		Body: r, Table: func() present.Table { return replayFields(r) },
		Page: func(w io.Writer) {
			what := "as of the beginning"
			if r.LastAt != nil {
				what = "as of " + present.Stamp(*r.LastAt)
			}
			if r.Hindsight {
				what += ", with hindsight"
			}
			fmt.Fprintf(w, "%s: %s, %d void, state %s\n", what, present.Plural(int(r.Events), "event"), r.Void, r.StateHash.String()[:12])
			fmt.Fprintf(w, "  position  %s\n", present.OrDash(r.Position))
			fmt.Fprintf(w, "  lease     %s\n", leaseThen(r.Lease))
			fmt.Fprintf(w, "  voters    %s, mode %s, epoch %s of term %s\n", present.Joined(r.Config.Voters), present.OrDash(r.Config.Mode),
				present.TermOf(r.Config.Epoch), present.TermOf(uint64(r.Config.Term)))
			for _, t := range []present.Table{replayMembers(r), replayJobs(r), replayActions(r)} {
				if len(t.Rows) > 0 {
					fmt.Fprintln(w)
					a.WriteTable(t)
				}
			}
		},
	}
}

func leaseThen(l api.ReplayLease) string {
	if l.Term == 0 {
		return "no term has begun"
	}
	text := fmt.Sprintf("term %s of %s, since %s", present.TermOf(uint64(l.Term)), present.OrDash(l.Holder), present.StampOf(l.StartedAt))
	if l.EndedAt != nil {
		text += fmt.Sprintf(", ended %s: %s", present.StampOf(l.EndedAt), present.OrDash(l.Reason))
	}
	return text
}

func replayMembers(r api.LogReplay) present.Table {
	t := present.NewTable("NODE", "STATUS", "ADDR", "HEALTH", "VERSION", "JOINED", "STARTED", "ENDED", "BY").
		Leaving("STARTED", "BY", "VERSION", "JOINED", "ENDED", "ADDR")
	for _, m := range r.Members {
		t.Add(string(m.Node), m.Status, present.OrDash(m.Addr), present.OrDash(m.Health), present.OrDash(m.Version), present.StampOf(m.JoinedAt),
			present.StampOf(m.StartedAt), present.StampOf(m.EndedAt), present.OrDash(m.EndedBy))
	}
	return t
}

func replayJobs(r api.LogReplay) present.Table {
	t := present.NewTable("JOB", "NAME", "STATE", "CHUNKS", "OWNER", "SUBMITTED", "FINISHED").
		Leaving("FINISHED", "OWNER", "SUBMITTED")
	for _, j := range r.Jobs {
		t.Add(string(j.ID), present.OrDash(j.Name), string(j.State), fmt.Sprintf("%d/%d", j.Chunks.Accepted, j.Chunks.Total),
			present.OrDash(j.Owner), present.StampOf(j.SubmittedAt), present.StampOf(j.FinishedAt))
	}
	return t
}

func replayActions(r api.LogReplay) present.Table {
	t := present.NewTable("TIME", "NODE", "ACTION", "ACTOR", "SUBJECT", "REASON").Leaving("NODE")
	for _, x := range r.Actions {
		t.Add(present.Stamp(x.At), string(x.Node), string(x.Kind), present.OrDash(x.Actor), present.OrDash(x.Subject), present.OrDash(x.Reason))
	}
	return t
}

// replayFields is the page for scripts.
func replayFields(r api.LogReplay) present.Table {
	t := present.NewTable("KEY", "VALUE")
	t.Add("position", r.Position)
	t.Add("last_at", present.StampOf(r.LastAt))
	t.Add("last_hlc", strconv.FormatUint(uint64(r.LastHLC), 10))
	t.Add("events", strconv.FormatUint(r.Events, 10))
	t.Add("void", strconv.FormatUint(r.Void, 10))
	t.Add("state_hash", r.StateHash.String())
	t.Add("term", present.TermOf(uint64(r.Lease.Term)))
	t.Add("holder", present.OrDash(r.Lease.Holder))
	t.Add("started_at", present.StampOf(r.Lease.StartedAt))
	t.Add("ended_at", present.StampOf(r.Lease.EndedAt))
	t.Add("voters", present.Joined(r.Config.Voters))
	t.Add("mode", present.OrDash(r.Config.Mode))
	for _, m := range r.Members {
		t.Add("member."+string(m.Node), m.Status)
	}
	for _, j := range r.Jobs {
		t.Add("job."+string(j.ID), string(j.State))
	}
	return t
}
