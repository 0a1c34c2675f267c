package hosts

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cmd/skein/cli"
	"github.com/skein-project/skein/present"
)

// departTime is the timeout of leaving and removing: others are asked.
const departTime = 40 * time.Second

// departs runs f with a client and the patience for a change that others take
// part in.
func departs(a *cli.App, ctx context.Context, f func(context.Context, *api.Client) error) error {
	return cli.Patiently(ctx, a, departTime, f)
}

func leaveCommand(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use: "leave", Short: "Take this host out of the cluster for good", Args: cli.Exactly(0, ""),
		Long: "Tells the others and ends the daemon. The host's name and address stay taken for some\n" +
			"weeks: to come back before that is over it needs an empty state directory, another name\n" +
			"and a token. For a pause, just stop the daemon.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return departs(a, cmd.Context(), func(ctx context.Context, c *api.Client) error {
				m, _, err := cli.Fetch[api.Members](ctx, c, "/v1/members")
				if err != nil {
					return err
				}
				if len(m.Members) == 1 {
					a.Note("this is the last host: the cluster ends with it. Its event log, and its root key if that lies here, stay in the\n" +
						"state directory, and no host can join by them any more")
				}
				if err := a.Confirm("take this host out of the cluster for good and end its daemon"); err != nil {
					return err
				}
				left, err := c.Leave(ctx)
				if err != nil {
					return err
				}
				switch a.Output {
				case "json", "jsonl":
					return a.Show(cli.View{Body: left})
				}
				a.Note("%s left; %s told, the daemon ends", left.Node, present.Plural(len(left.Told), "member"))
				if len(m.Members) > 1 {
					a.Note("to come back it needs an empty state directory, a token, and another name")
				}
				return nil
			})
		},
	}
}

func removeCommand(a *cli.App) *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use: "remove NODE", Short: "Take a dead or stolen host out of the cluster for good", Args: cli.Exactly(1, "the name of a host"),
		Long: "Revokes the host's key on every member, including those that are away now, once they\n" +
			"come back. NODE is the whole name. A host that still works should leave by itself:\n" +
			"run `skein leave` there.",
		RunE: func(cmd *cobra.Command, args []string) error {
			node, err := cli.Node(args)
			if err != nil {
				return err
			}
			if p, ok := errors.AsType[*api.Problem](api.RemoveRequest{Reason: reason}.Check()); ok {
				return cli.Usagef("--reason: %s", p.Detail)
			}
			return departs(a, cmd.Context(), func(ctx context.Context, c *api.Client) error {
				what, already, err := whatIsRemoved(ctx, c, node)
				if err != nil {
					return err
				}
				if already == "" {
					if err := a.Confirm("remove %s from the cluster for good", what); err != nil {
						return err
					}
				}
				r, err := c.Remove(ctx, node, reason)
				if err != nil {
					return err
				}
				switch a.Output {
				case "json", "jsonl":
					return a.Show(cli.View{Body: r})
				}
				if r.By == "" {
					a.Note("nothing done: %s %s", r.Member, cmp.Or(already, "is no member any more"))
					return nil
				}
				a.Note("%s removed by %s; to come back it needs an empty state directory, a token, and another name", r.Member, r.By)
				return nil
			})
		},
	}
	cmd.Flags().StringVar(&reason, "reason", "", "why, for the event log; plain ASCII, at most 64 bytes")
	return cmd
}

// whatIsRemoved says which host it is, and of one that was removed before, that it
// was. One that nobody knows is refused here, before anybody is asked.
func whatIsRemoved(ctx context.Context, c *api.Client, node cluster.NodeID) (what, already string, err error) {
	m, _, err := cli.Fetch[api.Members](ctx, c, "/v1/members?all=true")
	if err != nil {
		return "", "", err
	}
	for _, x := range m.Members {
		if x.Node != node {
			continue
		}
		seen := "never heard of"
		switch {
		case x.GoneAt != nil:
			ago := present.When(*x.GoneAt, m.ObservedAt, false) + " ago"
			if seen = "gone " + ago; x.Removed {
				already = "was removed already, " + ago
			}
		case x.SeenSeconds != nil:
			seen = "seen " + present.AgeOf(x.SeenSeconds) + " ago"
		}
		return fmt.Sprintf("%s (%s, %s, %s)", node, present.OrDash(x.Addr), present.OrDash(present.StateOf(x)), seen), already, nil
	}
	return "", "", cli.Failf(cli.ExitNotFound, "no member %s", node).WithHint("see `skein members --all`")
}
