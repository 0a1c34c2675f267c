package main

import (
	"context"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
)

// leaseCommand shows the lease and its past.
func (a *app) leaseCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "lease", Short: "Who schedules, who publishes, and who decides that", Args: commandsOnly,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withClient(cmd.Context(), func(ctx context.Context, c *api.Client) error {
				l, raw, err := fetch[api.Lease](ctx, c, "/v1/lease")
				if err != nil {
					return err
				}
				return a.show(view{raw: raw, table: func(f form) table { return leaseTable(l, f) }})
			})
		},
	}
	cmd.AddCommand(a.leaseVoters(), a.leaseHistory(), a.leaseStepDown(), a.leaseRecover())
	return cmd
}

func leaseTable(l api.Lease, f form) table {
	ready := unknown
	if l.Ready != nil {
		ready = yesNo(*l.Ready)
	}
	t := table{head: []string{
		"HOLDER", "TERM", "PUBLISHER", "MODE", "PROFILE", "TENURE", "RENEWED", "EXPIRES", "READY", "EPOCH", "VOTERS",
	}}
	row := []string{
		orDash(l.Holder), termOf(uint64(l.Term)), orDash(l.Publisher), orDash(l.Mode), orDash(l.Profile), f.age(l.TenureSeconds),
		f.age(l.RenewedSeconds), f.age(l.ExpiresSeconds), ready, termOf(l.Config.Epoch), joined(l.Config.Voters),
	}
	if f.wide() {
		t.head = append(t.head, "PUBLISH_WHY", "ABSTAINING", "BLOCKED", "PROMISED")
		row = append(row, orDash(l.PublishWhy), joined(l.Abstaining), orDash(l.Blocked), termOf(uint64(l.Promised)))
	}
	t.add(row...)
	return t
}

func (a *app) leaseHistory() *cobra.Command {
	return &cobra.Command{
		Use: "history", Short: "Past terms and why they ended", Args: exactly(0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withClient(cmd.Context(), func(ctx context.Context, c *api.Client) error {
				h, raw, err := fetch[api.LeaseHistory](ctx, c, "/v1/lease/history")
				if err != nil {
					return err
				}
				return a.show(view{raw: raw, items: items(h.Terms), table: func(f form) table {
					t := table{head: []string{"TERM", "HOLDER", "STARTED", "ENDED", "CAUSE", "SUCCESSOR", "PREVIOUS", "GRANTS"}}
					for _, r := range h.Terms {
						ended := unknown
						if r.EndedAt != nil {
							ended = when(*r.EndedAt, h.ObservedAt, f.wide())
						}
						t.add(termOf(uint64(r.Term)), orDash(r.Holder), when(r.StartedAt, h.ObservedAt, f.wide()), ended,
							orDash(r.Cause), orDash(r.Successor), orDash(r.Previous), joined(r.Grants))
					}
					return t
				}})
			})
		},
	}
}

func (a *app) leaseStepDown() *cobra.Command {
	var to, reason string
	cmd := &cobra.Command{
		Use: "step-down", Short: "Let the holder hand over", Args: exactly(0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.departs(cmd.Context(), func(ctx context.Context, c *api.Client) error {
				l, err := c.StepDown(ctx, api.StepDownRequest{To: cluster.NodeID(to), Reason: reason})
				if err != nil {
					return err
				}
				switch a.output {
				case "json", "jsonl":
					return a.show(view{body: l})
				}
				a.note("%s hands over", fmt.Sprintf("term %s of %s", termOf(uint64(l.Term)), orDash(l.Holder)))
				return nil
			})
		},
	}
	cmd.Flags().StringVar(&to, "to", "", "who shall be the next holder (default: the best host)")
	cmd.Flags().StringVar(&reason, "reason", "", "why, for the history")
	return cmd
}

// leaseRecover gives up a lost majority. It works on the state directory.
func (a *app) leaseRecover() *cobra.Command {
	cmd := &cobra.Command{
		Use: "recover", Short: "Go on with this host as the only voter, when a majority is lost for good", Args: exactly(0, ""),
		Long: "For the day on which most voters are gone and nobody can hold the lease. The daemon\n" +
			"of this host must be stopped; choose the surviving host with the most events\n" +
			"(`skein status`). After its start it holds the lease alone, and the other hosts that\n" +
			"are alive become voters again. Hosts given up must not run meanwhile: should they\n" +
			"come back they follow, and what they did alone since then is void. `skein remove`\n" +
			"those that never will.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := a.settings(cmd)
			if err != nil {
				return err
			}
			if err := a.confirm("This host becomes the only voter, whoever else votes now."); err != nil {
				return err
			}
			r, err := a.recoverLease(cfg, fmt.Sprintf("uid:%d", os.Getuid()))
			if err != nil {
				return err
			}
			switch a.output {
			case "json", "jsonl":
				return a.show(view{body: r})
			}
			a.note("%s is the only voter, epoch %d of term %d; before: %s. Start the daemon now", r.Node, r.Config.Epoch, r.Config.Term, joined(r.Previous.Voters))
			return nil
		},
	}
	addSettings(cmd.Flags())
	return cmd
}
