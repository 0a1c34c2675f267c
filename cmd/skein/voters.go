package main

import (
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
)

// leaseVoters shows and changes who grants the lease.
func (a *app) leaseVoters() *cobra.Command {
	cmd := &cobra.Command{
		Use: "voters", Short: "Who grants the lease, and who shall", Args: commandsOnly,
		Long: "The holder brings about what is wanted, one voter at a time, each change agreed to\n" +
			"by a majority of the old and of the new voters. Ask any host; on one that does not\n" +
			"hold the lease a change is forwarded, which only sponsors may.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withClient(cmd.Context(), func(ctx context.Context, c *api.Client) error {
				v, raw, err := fetch[api.Voters](ctx, c, "/v1/lease/voters")
				if err != nil {
					return err
				}
				return a.show(a.votersView(v, raw))
			})
		},
	}
	cmd.AddCommand(a.votersSet(), a.votersAuto(), a.votersAdd(), a.votersRemove(), a.votersMode())
	return cmd
}

func (a *app) votersSet() *cobra.Command {
	var mode string
	cmd := &cobra.Command{
		Use: "set NODE...", Short: "Say who votes; the holder replaces none of them by itself", Args: some("the names of the voters"),
		RunE: func(cmd *cobra.Command, args []string) error {
			req := api.VotersRequest{Mode: cluster.Mode(mode)}
			for _, arg := range args {
				req.Voters = append(req.Voters, cluster.NodeID(arg))
			}
			return a.setVoters(cmd.Context(), req)
		},
	}
	votersModeFlag(cmd, &mode)
	return cmd
}

func (a *app) votersAuto() *cobra.Command {
	var mode string
	cmd := &cobra.Command{
		Use: "auto", Short: "Let the holder choose who votes, as it does from the beginning", Args: exactly(0, ""),
		Long: "Up to 7 hosts all of them vote; of more, lease.max_voters or 5, the best by\nnode.priority, spread over the zones.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.setVoters(cmd.Context(), api.VotersRequest{Auto: true, Mode: cluster.Mode(mode)})
		},
	}
	votersModeFlag(cmd, &mode)
	return cmd
}

func (a *app) votersAdd() *cobra.Command {
	return &cobra.Command{
		Use: "add NODE", Short: "Let one more host vote", Args: exactly(1, "the name of a host"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.setVoters(cmd.Context(), api.VotersRequest{Add: cluster.NodeID(args[0])})
		},
	}
}

func (a *app) votersRemove() *cobra.Command {
	return &cobra.Command{
		Use: "remove NODE", Short: "Let a host vote no more; it stays a member", Args: exactly(1, "the name of a voter"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.setVoters(cmd.Context(), api.VotersRequest{Remove: cluster.NodeID(args[0])})
		},
	}
}

func (a *app) votersMode() *cobra.Command {
	return &cobra.Command{
		Use: "mode MODE", Short: "Change how the voters decide: auto, quorum or available", Args: exactly(1, "a mode"),
		Long: "auto: two voters go on alone, three or more need a majority. quorum: a majority\n" +
			"always, so that two voters stop when either is lost. available: every part of a cut\n" +
			"goes on and schedules; what was done twice counts once when they meet.",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.setVoters(cmd.Context(), api.VotersRequest{Mode: cluster.Mode(args[0])})
		},
	}
}

func votersModeFlag(cmd *cobra.Command, mode *string) {
	cmd.Flags().StringVar(mode, "mode", "", "how they decide: auto, quorum or available (default: as it is)")
}

// setVoters asks on a terminal, and then the holder.
func (a *app) setVoters(ctx context.Context, req api.VotersRequest) error {
	if err := req.Check(); err != nil {
		return usagef("%s", err).hint("see `skein lease voters --help`")
	}
	return a.departs(ctx, func(ctx context.Context, c *api.Client) error {
		now, err := c.Voters(ctx)
		if err != nil {
			return err
		}
		if now.Holder == "" {
			a.note("nobody holds the lease: waiting for a holder, which alone can change the voters")
		}
		if req.Add == "" {
			if err := knownVoters(now, req); err != nil {
				return err
			}
			if err := a.confirm(votersQuestion(now, req)); err != nil {
				return err
			}
		}
		v, err := c.SetVoters(ctx, req)
		if err != nil {
			return err
		}
		switch a.output {
		case "json", "jsonl":
			return a.show(view{body: v})
		}
		wanted := votersWanted(v)
		if v.TargetAuto {
			wanted = "chosen by the holder" // as soon as it looks
		}
		a.note("wanted: %s; `skein lease voters` shows how far it is", wanted)
		return nil
	})
}

// knownVoters refuses names of no member, before anybody is asked.
func knownVoters(now api.Voters, req api.VotersRequest) error {
	for _, id := range append(req.Voters, req.Remove) {
		if id != "" && !slices.ContainsFunc(now.Voters, func(v api.Voter) bool { return v.Node == id }) {
			return failf(exitNotFound, "no member %s", id).hint("see `skein members`")
		}
	}
	return nil
}

// votersQuestion says what is about to change.
func votersQuestion(now api.Voters, req api.VotersRequest) string {
	what := "stay"
	switch {
	case req.Auto:
		what = "are chosen by the holder"
	case req.Remove != "":
		what = fmt.Sprintf("go on without %s", req.Remove)
	case len(req.Voters) > 0:
		what = "become " + joined(req.Voters)
	}
	if req.Mode != "" {
		what += fmt.Sprintf(", mode %s", req.Mode)
	}
	return fmt.Sprintf("The voters, now %s in mode %s, %s.", joined(now.Config.Voters), orDash(now.Config.Mode), what)
}

func votersWanted(v api.Voters) string {
	by := "an operator"
	if v.TargetAuto {
		by = "the holder"
	}
	return fmt.Sprintf("%s (chosen by %s)", joined(v.Target), by)
}

func (a *app) votersView(v api.Voters, raw []byte) view {
	rows := func(f form) table { return votersTable(v, f) }
	return view{raw: raw, items: items(v.Voters), table: rows, page: func(w io.Writer) {
		pending := ""
		if v.Pending != nil && *v.Pending {
			pending = ", not agreed upon yet"
		}
		fmt.Fprintf(w, "mode %s, epoch %s of term %s%s\n", orDash(v.Config.Mode), termOf(v.Config.Epoch), termOf(uint64(v.Config.Term)), pending)
		fmt.Fprintf(w, "wanted: %s\n", votersWanted(v))
		if v.Holder == "" {
			fmt.Fprintln(w, "nobody holds the lease: nothing changes until somebody does")
		}
		a.writeTable(rows(formTable))
	}}
}

func votersTable(v api.Voters, f form) table {
	t := table{head: []string{"NODE", "ZONE", "STATE", "VOTER", "WANTED", "EPOCH", "ABSTAINING"}}
	if f.wide() {
		t.head = append(t.head, "PRIORITY", "WITNESS")
	}
	for _, x := range v.Voters {
		row := []string{
			string(x.Node), orDash(x.Zone), orDash(x.State), yesNo(x.Voter), yesNo(x.Target), lag(x.Epoch), orDash(x.Abstaining),
		}
		if f.wide() {
			row = append(row, lag(new(uint64(x.Priority))), yesNo(x.Witness))
		}
		t.add(row...)
	}
	return t
}

// some wants at least one argument.
func some(names string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return usagef("%s wants %s", cmd.CommandPath(), names).hint("see `%s --help`", cmd.CommandPath())
		}
		return nil
	}
}
