package main

import (
	"fmt"
	"io"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/skein-project/skein/api"
)

func (a *app) logCommand() *cobra.Command {
	return group("log", "Work on the event log of this host", a.logVerify())
}

func (a *app) logVerify() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Check every record, hash and signature of the log",
		Long:  "Reads the log in the state directory, also while a daemon uses it. Exits 1 and\nnames segment, offset and record if anything is wrong.",
		Args:  exactly(0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := a.settings(cmd)
			if err != nil {
				return err
			}
			r, err := a.verify(cmd.Context(), cfg.StateDir)
			if err != nil {
				return err
			}
			if r.Sources == nil {
				r.Sources = []api.LogSource{}
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
	return cmd
}

func verifyView(r api.LogVerify) view {
	return view{
		body: r, items: items(r.Sources),
		table: func(form) table {
			t := table{head: []string{"NODE", "INC", "SEQ", "HASH"}}
			for _, s := range r.Sources {
				t.add(string(s.Source.Node), strconv.FormatUint(s.Source.Inc, 10), strconv.FormatUint(s.Seq, 10), s.Hash.String())
			}
			return t
		},
		page: func(w io.Writer) {
			if !r.OK {
				fmt.Fprintf(w, "DAMAGED after %s\n", plural(int(r.Events), "good event"))
				return
			}
			fmt.Fprintf(w, "good: %s in %s and %s, %s, state %s\n", plural(int(r.Events), "event"),
				plural(len(r.Sources), "source"), plural(r.Segments, "segment"), bytesOf(r.SizeBytes), r.StateHash.String()[:12])
			if r.TornBytes > 0 {
				fmt.Fprintf(w, "  %d bytes at the end were never acknowledged\n", r.TornBytes)
			}
			for _, s := range r.Sources {
				fmt.Fprintf(w, "  %-12s up to %d, %s\n", s.Source, s.Seq, s.Hash.String()[:12])
			}
		},
	}
}
