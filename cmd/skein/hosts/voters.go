package hosts

import (
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cmd/skein/cli"
	"github.com/skein-project/skein/present"
)

// leaseVoters shows and changes who grants the lease.
func leaseVoters(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use: "voters", Short: "Who grants the lease, and who is meant to", Args: cli.CommandsOnly,
		Long: "The holder makes the wanted changes one voter at a time; a majority of the old and of\n" +
			"the new voters agrees to each. Ask any host: one that does not hold the lease\n" +
			"forwards a change, which only sponsors may.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.WithClient(cmd.Context(), func(ctx context.Context, c *api.Client) error {
				v, raw, err := cli.Fetch[api.Voters](ctx, c, "/v1/lease/voters")
				if err != nil {
					return err
				}
				return a.Show(votersView(a, v, raw))
			})
		},
	}
	cmd.AddCommand(votersSet(a), votersAuto(a), votersAdd(a), votersRemove(a), votersMode(a))
	return cmd
}

func votersSet(a *cli.App) *cobra.Command {
	var mode string
	cmd := &cobra.Command{
		Use: "set NODE...", Short: "Say who votes; the holder then replaces none of them by itself", Args: some("the names of the voters"),
		RunE: func(cmd *cobra.Command, args []string) error {
			req := api.VotersRequest{Mode: cluster.Mode(mode)}
			for _, arg := range args {
				req.Voters = append(req.Voters, cluster.NodeID(arg))
			}
			return setVoters(a, cmd.Context(), req)
		},
	}
	votersModeFlag(cmd, &mode)
	return cmd
}

func votersAuto(a *cli.App) *cobra.Command {
	var mode string
	cmd := &cobra.Command{
		Use: "auto", Short: "Let the holder choose who votes, as it does by default", Args: cli.Exactly(0, ""),
		Long: "Up to 7 hosts, all vote; of more, lease.max_voters or 5: the best by node.priority,\n" +
			"spread over the zones.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return setVoters(a, cmd.Context(), api.VotersRequest{Auto: true, Mode: cluster.Mode(mode)})
		},
	}
	votersModeFlag(cmd, &mode)
	return cmd
}

func votersAdd(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use: "add NODE", Short: "Add a host to the voters", Args: cli.Exactly(1, "the name of a host"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return setVoters(a, cmd.Context(), api.VotersRequest{Add: cluster.NodeID(args[0])})
		},
	}
}

func votersRemove(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use: "remove NODE", Short: "Take a host out of the voters; it stays a member", Args: cli.Exactly(1, "the name of a voter"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return setVoters(a, cmd.Context(), api.VotersRequest{Remove: cluster.NodeID(args[0])})
		},
	}
}

func votersMode(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use: "mode MODE", Short: "Change how the voters decide: auto, quorum or available", Args: cli.Exactly(1, "a mode"),
		Long: "auto: two voters carry on alone, three or more need a majority. quorum: always a\n" +
			"majority, so two voters stop when either is lost. available: every side of a\n" +
			"partition carries on and schedules; what was done twice counts once when they meet.",
		RunE: func(cmd *cobra.Command, args []string) error {
			return setVoters(a, cmd.Context(), api.VotersRequest{Mode: cluster.Mode(args[0])})
		},
	}
}

func votersModeFlag(cmd *cobra.Command, mode *string) {
	cmd.Flags().StringVar(mode, "mode", "", "how they decide: auto, quorum or available (default: unchanged)")
}

// setVoters asks on a terminal, and then the holder.
func setVoters(a *cli.App, ctx context.Context, req api.VotersRequest) error {
	if err := req.Check(); err != nil {
		return cli.Usagef("%s", err).WithHint("see `skein lease voters --help`")
	}
	return departs(a, ctx, func(ctx context.Context, c *api.Client) error {
		now, err := c.Voters(ctx)
		if err != nil {
			return err
		}
		if now.Holder == "" {
			a.Note("nobody holds the lease: waiting for a holder, which alone can change the voters")
		}
		if req.Add == "" {
			if err := knownVoters(now, req); err != nil {
				return err
			}
			if err := a.Confirm("%s", votersQuestion(now, req)); err != nil {
				return err
			}
		}
		v, err := c.SetVoters(ctx, req)
		if err != nil {
			return err
		}
		switch a.Output {
		case "json", "jsonl":
			return a.Show(cli.View{Body: v})
		}
		wanted := votersWanted(v)
		if v.TargetAuto {
			wanted = "chosen by the holder" // as soon as it looks
		}
		a.Note("wanted: %s; `skein lease voters` shows how far it is", wanted)
		return nil
	})
}

// knownVoters refuses names of no member, before anybody is asked.
func knownVoters(now api.Voters, req api.VotersRequest) error {
	for _, id := range append(req.Voters, req.Remove) {
		if id != "" && !slices.ContainsFunc(now.Voters, func(v api.Voter) bool { return v.Node == id }) {
			return cli.Failf(cli.ExitNotFound, "no member %s", id).WithHint("see `skein members`")
		}
	}
	return nil
}

// votersQuestion says what is about to change.
func votersQuestion(now api.Voters, req api.VotersRequest) string {
	what := ""
	switch {
	case req.Auto:
		what = "be chosen by the holder"
	case req.Remove != "":
		what = fmt.Sprintf("go on without %s", req.Remove)
	case len(req.Voters) > 0:
		what = "become " + present.Joined(req.Voters)
	}
	switch {
	case req.Mode == "":
	case what == "":
		what = fmt.Sprintf("decide in mode %s", req.Mode)
	default:
		what += fmt.Sprintf(", in mode %s", req.Mode)
	}
	return fmt.Sprintf("have the voters, now %s in mode %s, %s", present.Joined(now.Config.Voters), present.OrDash(now.Config.Mode), what)
}

func votersWanted(v api.Voters) string {
	by := "an operator"
	if v.TargetAuto {
		by = "the holder"
	}
	return fmt.Sprintf("%s (chosen by %s)", present.Joined(v.Target), by)
}

func votersView(a *cli.App, v api.Voters, raw []byte) cli.View {
	rows := func() present.Table { return present.Voters(v) }
	return cli.View{Raw: raw, Items: cli.Items(v.Voters), Table: rows, Page: func(w io.Writer) {
		pending := ""
		if v.Pending != nil && *v.Pending {
			pending = ", not agreed upon yet"
		}
		fmt.Fprintf(w, "mode %s, epoch %s of term %s%s\n", present.OrDash(v.Config.Mode), present.TermOf(v.Config.Epoch), present.TermOf(uint64(v.Config.Term)), pending)
		fmt.Fprintf(w, "wanted: %s\n", votersWanted(v))
		if v.Holder == "" {
			fmt.Fprintln(w, "nobody holds the lease: nothing changes until somebody does")
		}
		a.WriteTable(rows())
	}}
}

// some wants at least one argument.
func some(names string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return cli.Usagef("%s wants %s", cmd.CommandPath(), names).WithHint("see `%s --help`", cmd.CommandPath())
		}
		return nil
	}
}
