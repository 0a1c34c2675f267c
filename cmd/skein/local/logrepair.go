package local

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cmd/skein/cli"
	"github.com/skein-project/skein/present"
)

// logRepair sets aside what is damaged. It works on the state directory.
func logRepair(a *cli.App, d Options) *cobra.Command {
	var peer string
	var acceptLoss bool
	cmd := &cobra.Command{
		Use: "repair", Short: "Set damaged parts of the log aside, to be fetched again from other hosts", Args: cli.Exactly(0, ""),
		Long: "For a log that `skein log verify` finds damaged, so that the daemon does not start.\n" +
			"The daemon must be stopped. The intact beginning of each damaged chain stays; the\n" +
			"rest is moved to damaged/ in the state directory. Once started, the daemon fetches\n" +
			"what is missing, checks it against the signatures of its source, and uses what can\n" +
			"still be read of the damaged files. `skein status` shows the progress; until then\n" +
			"this host does not vote. If its own chain was damaged, it continues as a new\n" +
			"incarnation.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := a.Settings(cmd)
			if err != nil {
				return err
			}
			from := cluster.NodeID("")
			if peer != "" {
				if from, err = cluster.ParseNodeID(peer); err != nil {
					return cli.Usagef("--from-peer: %v", err)
				}
			}
			if acceptLoss = acceptLoss && d.Damaged(cmd.Context(), cfg.StateDir); acceptLoss {
				if err := a.Confirm("give up events that no other host has"); err != nil {
					return err
				}
			}
			r, err := d.Repair(cmd.Context(), cfg.StateDir, from, acceptLoss)
			if err != nil {
				return err
			}
			return a.Show(repairView(r))
		},
	}
	cli.AddSettings(cmd.Flags())
	cmd.Flags().StringVar(&peer, "from-peer", "", "the host to ask first (default: any)")
	cmd.Flags().BoolVar(&acceptLoss, "accept-loss", false, "give up what no other host has")
	return cmd
}

func repairView(r api.LogRepair) cli.View {
	return cli.View{
		Body: r, Items: cli.Items(r.Chains),
		Table: func() present.Table {
			t := present.NewTable("SOURCE", "KEPT", "KNOWN", "ASIDE")
			for _, c := range r.Chains {
				t.Add(c.Source.String(), fmt.Sprint(c.Kept), fmt.Sprint(c.Known), c.Aside)
			}
			for _, f := range r.Files {
				t.Add("", "", "", f.Aside)
			}
			return t
		},
		Page: func(w io.Writer) {
			if len(r.Chains)+len(r.Files) == 0 {
				fmt.Fprintln(w, "nothing is damaged")
				return
			}
			for _, f := range r.Files {
				fmt.Fprintf(w, "%s\n  was: %s\n  is now: %s\n", f.Path, f.Problem, f.Aside)
			}
			for _, c := range r.Chains {
				showChain(w, c)
			}
			fmt.Fprintln(w, "start the daemon now; `skein status` tells when all is there")
		},
	}
}

// showChain says what is kept of a chain and what is fetched.
func showChain(w io.Writer, c api.ChainRepair) {
	if c.State {
		fmt.Fprintf(w, "the state of the log\n  was: %s\n  to be fetched: a snapshot of another host\n", c.Problem)
		return
	}
	fmt.Fprintf(w, "%s\n  was: %s\n  kept up to %d", c.Source, c.Problem, c.Kept)
	if c.Known > c.Kept {
		fmt.Fprintf(w, ", to be fetched up to %d", c.Known)
	}
	fmt.Fprintln(w)
	if c.Aside != "" {
		fmt.Fprintf(w, "  damaged files: %s\n", c.Aside)
	}
	if c.Own {
		fmt.Fprintln(w, "  this host goes on with a new chain, of its next incarnation")
	}
}
