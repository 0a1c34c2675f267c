package hosts

import (
	"context"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cmd/skein/cli"
	"github.com/skein-project/skein/offline"
	"github.com/skein-project/skein/present"
)

// leaseCommand shows the lease and its past.
func leaseCommand(a *cli.App, d Options) *cobra.Command {
	cmd := &cobra.Command{
		Use: "lease", Short: "Who schedules, who publishes, and who decides it", Args: cli.CommandsOnly,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.WithClient(cmd.Context(), func(ctx context.Context, c *api.Client) error {
				l, raw, err := cli.Fetch[api.Lease](ctx, c, "/v1/lease")
				if err != nil {
					return err
				}
				return a.Show(cli.View{Raw: raw, Table: func() present.Table { return present.Lease(l) }, Page: func(w io.Writer) {
					cli.WriteFields(w, present.LeasePage(l))
				}})
			})
		},
	}
	cmd.AddCommand(leaseVoters(a), leaseHistory(a), leaseStepDown(a), leaseRecover(a, d))
	return cmd
}

func leaseHistory(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use: "history", Short: "Past terms and why they ended", Args: cli.Exactly(0, ""),
		Long: "ENDED is when a term's authority ended, at the latest: as its holder says, or when\n" +
			"the next term began, which waits for that. EVIDENCE is until when the log knows that\n" +
			"its holder held it, and GAP how long, at most, nobody held before it: one that has\n" +
			"nothing to do writes little. LATE is how much later its holder wrote of the end,\n" +
			"since it was stopped or cut off: what it wrote in between is void.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.WithClient(cmd.Context(), func(ctx context.Context, c *api.Client) error {
				h, err := c.LeaseHistory(ctx)
				for err == nil && h.Next != 0 {
					var more api.LeaseHistory
					if more, err = c.LeaseHistoryPage(ctx, api.Page{After: strconv.FormatUint(uint64(h.Next), 10)}); err == nil {
						h.Terms, h.Next = append(h.Terms, more.Terms...), more.Next
					}
				}
				if err != nil {
					return err
				}
				return a.Show(cli.View{Body: h, Items: cli.Items(h.Terms), Table: func() present.Table { return present.Terms(h) }})
			})
		},
	}
}

func leaseStepDown(a *cli.App) *cobra.Command {
	var to, reason string
	cmd := &cobra.Command{
		Use: "step-down", Short: "Have the holder hand the lease over", Args: cli.Exactly(0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return departs(a, cmd.Context(), func(ctx context.Context, c *api.Client) error {
				l, err := c.StepDown(ctx, api.StepDownRequest{To: cluster.NodeID(to), Reason: reason})
				if err != nil {
					return err
				}
				switch a.Output {
				case "json", "jsonl":
					return a.Show(cli.View{Body: l})
				}
				a.Note("%s", handedOver(l))
				return nil
			})
		},
	}
	cmd.Flags().StringVar(&to, "to", "", "the next holder (default: the best host)")
	cmd.Flags().StringVar(&reason, "reason", "", "why, for the history")
	return cmd
}

// handedOver says what becomes of a lease whose holder was told to step down.
func handedOver(l api.Lease) string {
	term := fmt.Sprintf("term %s of %s", present.TermOf(uint64(l.Term)), present.OrDash(l.Holder))
	if len(l.Config.Voters) == 1 && l.Config.Voters[0] == l.Holder {
		return term + " ends, but there is nobody to hand over to: it is the only voter, and takes the lease again under the next term"
	}
	return term + " ends: it hands the lease over"
}

// leaseRecover gives up a lost majority. It works on the state directory.
func leaseRecover(a *cli.App, d Options) *cobra.Command {
	cmd := &cobra.Command{
		Use: "recover", Short: "Continue with this host as the only voter when a majority is lost for good", Args: cli.Exactly(0, ""),
		Long: "For when most voters are gone and nobody can hold the lease. The daemon of this host\n" +
			"must be stopped; choose the surviving host with the most events (`skein status`).\n" +
			"Once started it holds the lease alone, and the other hosts that are alive become\n" +
			"voters again. Hosts that were given up must not run in the meantime: if they come\n" +
			"back they follow, and whatever they did alone since then is void. `skein remove`\n" +
			"those that never will. Before it asks it says when this host last heard each of the\n" +
			"others.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := a.Settings(cmd)
			if err != nil {
				return err
			}
			plan, err := d.PlanRecovery(cfg)
			if err != nil {
				return err
			}
			if err := a.Confirm("make %s the only voter in place of %s. %s", plan.Node, present.Joined(plan.Previous.Voters), givenUp(plan, time.Now())); err != nil {
				return err
			}
			r, err := d.RecoverLease(cfg, fmt.Sprintf("uid:%d", os.Getuid()))
			if err != nil {
				return err
			}
			switch a.Output {
			case "json", "jsonl":
				return a.Show(cli.View{Body: r})
			}
			a.Note("%s is the only voter, epoch %d of term %d; before: %s. Start the daemon now", r.Node, r.Config.Epoch, r.Config.Term, present.Joined(r.Previous.Voters))
			return nil
		},
	}
	cli.AddSettings(cmd.Flags())
	return cmd
}

// givenUp says what this host saw of the voters that it gives up: they may live
// where it does not hear them.
func givenUp(p offline.RecoveryPlan, now time.Time) string {
	var all, silent []string
	for _, node := range p.Previous.Voters {
		if node == p.Node {
			continue
		}
		all = append(all, string(node))
		switch at, known := p.Heard[node]; {
		case !known || at.IsZero():
			silent = append(silent, fmt.Sprintf("%s at all", node))
		default:
			silent = append(silent, fmt.Sprintf("%s for %s", node, present.Age(p.Stopped.Sub(at).Seconds())))
		}
	}
	const without = "they will go on without this one"
	switch who := strings.Join(all, " and "); {
	case len(all) == 0:
		return "Who else votes is not known here: if others live, " + without
	case p.Stopped.IsZero():
		return "When " + who + " were last heard is not known: if they live, " + without
	}
	return fmt.Sprintf("When its daemon stopped %s ago, it had not heard %s: if they live, %s",
		present.When(p.Stopped, now, false), strings.Join(silent, " and "), without)
}
