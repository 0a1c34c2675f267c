package local

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"time"

	"github.com/spf13/cobra"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/cmd/skein/cli"
	"github.com/skein-project/skein/offline"
	"github.com/skein-project/skein/present"
)

func logCommand(a *cli.App, d Options) *cobra.Command {
	return cli.Group("log", "Verify, repair, export and replay the event log", logVerify(a, d), logRepair(a, d), logExport(a, d), logReplay(a, d),
		logHeads(a, d), logSnapshots(a), logSnapshot(a))
}

func logVerify(a *cli.App, d Options) *cobra.Command {
	var all bool
	var settle time.Duration
	cmd := &cobra.Command{
		Use:   "verify [FILE]",
		Short: "Check every record, hash and signature of the log, or of an export",
		Long: "Reads the log in the state directory, even while a daemon uses it. Exits 1 and names\n" +
			"segment, offset, record, source and sequence if anything is wrong. With --all-hosts\n" +
			"the daemon of each member checks its own log, and hosts that hold the same events\n" +
			"must have the same state; what one holds the others must hold within --settle. It\n" +
			"then exits 1 and names the hosts where that is not so, 6 if a host cannot be asked.\n" +
			"FILE is what `skein log export` wrote, or the log.jsonl of a bundle: it is checked\n" +
			"anywhere, against the keys in it and what certifies them.",
		Args: cli.AtMostOne("FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case len(args) > 0 && (all || cmd.Flags().Changed("state-dir") || cmd.Flags().Changed("settle")):
				return cli.Usagef("FILE goes with none of --all-hosts, --settle and --state-dir")
			case len(args) > 0:
				return verifyExport(a, args[0])
			}
			if all {
				return verifyAll(a, cmd.Context(), settle)
			}
			cfg, err := a.Settings(cmd)
			if err != nil {
				return err
			}
			r, err := d.Verify(cmd.Context(), cfg.StateDir)
			if err != nil {
				return err
			}
			if err := a.Show(verifyView(r)); err != nil {
				return err
			}
			if !r.OK {
				return cli.Failf(cli.ExitFailed, "the event log in %s is damaged: %s", cfg.StateDir, r.Problem).
					WithHint("%s", r.Hint)
			}
			return nil
		},
	}
	cli.AddSettings(cmd.Flags())
	cmd.Flags().BoolVar(&all, "all-hosts", false, "ask the daemons of all members instead")
	cmd.Flags().DurationVar(&settle, "settle", settleTime, "with --all-hosts: how long hosts may take to get what others hold")
	return cmd
}

// verifyExport checks a file.
func verifyExport(a *cli.App, file string) error {
	c, err := offline.CheckExport(file)
	if errors.Is(err, fs.ErrNotExist) {
		return cli.Usagef("%s", err).WithHint("give what `skein log export` wrote; without FILE the log of this host is checked")
	}
	if err != nil {
		return err
	}
	if err := a.Show(exportView(c)); err != nil {
		return err
	}
	if !c.OK {
		return cli.Failf(cli.ExitFailed, "%s proves nothing: %s", file, c.Problem)
	}
	return nil
}

func exportView(c api.ExportCheck) cli.View {
	return cli.View{
		Body: c, Items: cli.Items(c.Sources),
		Table: func() present.Table { return present.Sources(c.Sources) },
		Page: func(w io.Writer) {
			if !c.OK {
				fmt.Fprintf(w, "DAMAGED after %s\n", present.Plural(int(c.Events), "good event"))
				return
			}
			what := "every event up to the signed ends of the chains"
			if c.Partial {
				what = "events that were selected, others may be missing"
			}
			fmt.Fprintf(w, "good: %s in %s, %s\n", present.Plural(int(c.Events), "event"), present.Plural(len(c.Sources), "source"), what)
			fmt.Fprintf(w, "  of cluster %s, written by %s at %s\n", present.OrDash(c.ClusterName), present.OrDash(string(c.Host)), present.Stamp(c.ExportedAt))
			if c.From != "" {
				fmt.Fprintf(w, "  begins behind %s\n", c.From)
			}
			fmt.Fprintf(w, "  root key %s; that this is the cluster's must be known from elsewhere\n", c.RootKey)
			for _, n := range c.Uncertified {
				fmt.Fprintf(w, "  nothing in it certifies the key of %s\n", n)
			}
			for _, s := range c.Sources {
				fmt.Fprintf(w, "  %-12s up to %d, %s\n", s.Source, s.Seq, s.Hash.String()[:12])
			}
		},
	}
}

func verifyView(r api.LogVerify) cli.View {
	return cli.View{
		Body: r, Items: cli.Items(r.Sources),
		Table: func() present.Table { return present.Sources(r.Sources) },
		Page: func(w io.Writer) {
			if !r.OK {
				fmt.Fprintf(w, "DAMAGED after %s\n", present.Plural(int(r.Events), "good event"))
				if r.BadSource != nil {
					fmt.Fprintf(w, "  first bad: %s at seq %d\n", r.BadSource, r.BadSeq)
				}
				return
			}
			fmt.Fprintf(w, "good: %s in %s and %s, %s, state %s\n", present.Plural(int(r.Events), "event"),
				present.Plural(len(r.Sources), "source"), present.Plural(r.Segments, "segment"), present.BytesOf(r.SizeBytes), r.StateHash.String()[:12])
			if r.TornBytes > 0 {
				fmt.Fprintf(w, "  %d bytes at the end were never acknowledged\n", r.TornBytes)
			}
			if r.Snapshots+int(r.DroppedEvents) > 0 {
				fmt.Fprintf(w, "  %s replayed and right, the newest signed by %s; %s only in a snapshot\n", present.Plural(r.Snapshots, "snapshot"),
					present.Plural(r.Signers, "voter"), present.Plural(int(r.DroppedEvents), "event"))
			}
			for _, s := range r.Forked {
				fmt.Fprintf(w, "  %s is proven to have two histories: see `skein doctor`\n", s)
			}
			if r.Unsigned > 0 {
				fmt.Fprintf(w, "  %s of hosts whose key is not known here\n", present.Plural(int(r.Unsigned), "signature"))
			}
			for _, s := range r.Sources {
				fmt.Fprintf(w, "  %-12s up to %d, %s\n", s.Source, s.Seq, s.Hash.String()[:12])
			}
		},
	}
}

func logHeads(a *cli.App, d Options) *cobra.Command {
	var position bool
	cmd := &cobra.Command{
		Use: "heads", Short: "How far each chain of the log reaches", Args: cli.Exactly(0, ""),
		Long: "Reads the state directory, even while a daemon uses it. --position prints the text\n" +
			"that `skein events --since`, `skein log export --since` and `skein log replay --at`\n" +
			"take; it means the same on every host.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := a.Settings(cmd)
			if err != nil {
				return err
			}
			heads, err := d.Heads(cfg.StateDir)
			if err != nil {
				return err
			}
			at := event.Cursor{}
			list := []api.LogSource{}
			for _, h := range heads {
				at.Advance(h.Source, h.Seq)
				list = append(list, api.LogSource{Source: h.Source, Seq: h.Seq, Hash: h.Hash})
			}
			if position {
				_, err := fmt.Fprintln(a.Out, at)
				return err
			}
			return a.Show(cli.View{
				Body: struct {
					Position string       `json:"position"`
					Heads    []event.Head `json:"heads"`
				}{at.String(), heads},
				Items: cli.Items(heads), Table: func() present.Table { return present.Sources(list) },
			})
		},
	}
	cli.AddSettings(cmd.Flags())
	cmd.Flags().BoolVar(&position, "position", false, "print only the position")
	return cmd
}
