package main

import (
	"fmt"
	"io"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
)

func (a *app) logCommand() *cobra.Command {
	return group("log", "Verify, repair, export and replay the event log", a.logVerify(), a.logRepair(), a.logExport(), a.logReplay(),
		a.logHeads(), a.logSnapshots(), a.logSnapshot())
}

func (a *app) logVerify() *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Check every record, hash and signature of the log",
		Long: "Reads the log in the state directory, also while a daemon uses it. Exits 1 and\n" +
			"names segment, offset, record, source and sequence if anything is wrong. With\n" +
			"--all-hosts the daemon of each member checks its own log, and hosts that hold the\n" +
			"same events must have the same state; exits 6 if a host cannot be asked.",
		Args: exactly(0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if all {
				return a.verifyAll(cmd.Context())
			}
			cfg, err := a.settings(cmd)
			if err != nil {
				return err
			}
			r, err := a.verify(cmd.Context(), cfg.StateDir)
			if err != nil {
				return err
			}
			if err := a.show(verifyView(r)); err != nil {
				return err
			}
			if !r.OK {
				return failf(exitFailed, "the event log in %s is damaged: %s", cfg.StateDir, r.Problem).
					hint("%s", r.Hint)
			}
			return nil
		},
	}
	addSettings(cmd.Flags())
	cmd.Flags().BoolVar(&all, "all-hosts", false, "ask the daemons of all members instead")
	return cmd
}

func verifyView(r api.LogVerify) view {
	return view{
		body: r, items: items(r.Sources),
		table: func(form) table { return sourcesTable(r.Sources) },
		page: func(w io.Writer) {
			if !r.OK {
				fmt.Fprintf(w, "DAMAGED after %s\n", plural(int(r.Events), "good event"))
				if r.BadSource != nil {
					fmt.Fprintf(w, "  first bad: %s at seq %d\n", r.BadSource, r.BadSeq)
				}
				return
			}
			fmt.Fprintf(w, "good: %s in %s and %s, %s, state %s\n", plural(int(r.Events), "event"),
				plural(len(r.Sources), "source"), plural(r.Segments, "segment"), bytesOf(r.SizeBytes), r.StateHash.String()[:12])
			if r.TornBytes > 0 {
				fmt.Fprintf(w, "  %d bytes at the end were never acknowledged\n", r.TornBytes)
			}
			if r.Snapshots+int(r.DroppedEvents) > 0 {
				fmt.Fprintf(w, "  %s replayed and right, the newest signed by %s; %s only in a snapshot\n", plural(r.Snapshots, "snapshot"),
					plural(r.Signers, "voter"), plural(int(r.DroppedEvents), "event"))
			}
			for _, s := range r.Forked {
				fmt.Fprintf(w, "  %s is proven to have two histories: see `skein doctor`\n", s)
			}
			if r.Unsigned > 0 {
				fmt.Fprintf(w, "  %s of hosts whose key is not known here\n", plural(int(r.Unsigned), "signature"))
			}
			for _, s := range r.Sources {
				fmt.Fprintf(w, "  %-12s up to %d, %s\n", s.Source, s.Seq, s.Hash.String()[:12])
			}
		},
	}
}

func sourcesTable(list []api.LogSource) table {
	t := table{head: []string{"NODE", "INC", "SEQ", "HASH"}}
	for _, s := range list {
		t.add(string(s.Source.Node), strconv.FormatUint(s.Source.Inc, 10), strconv.FormatUint(s.Seq, 10), s.Hash.String())
	}
	return t
}

func (a *app) logHeads() *cobra.Command {
	var position bool
	cmd := &cobra.Command{
		Use: "heads", Short: "How far each chain of the log reaches", Args: exactly(0, ""),
		Long: "Reads the state directory, also while a daemon uses it. --position writes the one\n" +
			"text that `skein events --since`, `skein log export --since` and `skein log replay\n--at` take; it means the same on every host.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := a.settings(cmd)
			if err != nil {
				return err
			}
			heads, err := a.heads(cfg.StateDir)
			if err != nil {
				return err
			}
			at := cluster.Cursor{}
			list := []api.LogSource{}
			for _, h := range heads {
				at.Advance(h.Source, h.Seq)
				list = append(list, api.LogSource{Source: h.Source, Seq: h.Seq, Hash: h.Hash})
			}
			if position {
				_, err := fmt.Fprintln(a.out, at)
				return err
			}
			return a.show(view{
				body: struct {
					Position string         `json:"position"`
					Heads    []cluster.Head `json:"heads"`
				}{at.String(), heads},
				items: items(heads), table: func(form) table { return sourcesTable(list) },
			})
		},
	}
	addSettings(cmd.Flags())
	cmd.Flags().BoolVar(&position, "position", false, "only the position")
	return cmd
}
