package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
)

// departTime is the timeout of leaving and removing: others are asked.
const departTime = 40 * time.Second

// departs runs f with a client and the patience for a change that others take
// part in.
func (a *app) departs(ctx context.Context, f func(context.Context, *api.Client) error) error {
	if !a.timeoutSet {
		a.timeout = departTime
	}
	return a.withClient(ctx, f)
}

func (a *app) leaveCommand() *cobra.Command {
	return &cobra.Command{
		Use: "leave", Short: "Take this host out of the cluster for good", Args: exactly(0, ""),
		Long: "Tells the others and ends the daemon. The host's name, address and state\n" +
			"directory stay used up: to come back it needs an empty state directory, another\nname and a token. " +
			"For a pause just stop the daemon.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := a.confirm("This host leaves the cluster for good, and its daemon ends."); err != nil {
				return err
			}
			return a.departs(cmd.Context(), func(ctx context.Context, c *api.Client) error {
				left, err := c.Leave(ctx)
				if err != nil {
					return err
				}
				switch a.output {
				case "json", "jsonl":
					return a.show(view{body: left})
				}
				a.note("%s left; %s told, the daemon ends", left.Node, plural(len(left.Told), "member"))
				return nil
			})
		},
	}
}

func (a *app) removeCommand() *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use: "remove NODE", Short: "Take a dead or stolen host out of the cluster for good", Args: exactly(1, "the name of a host"),
		Long: "Revokes the host's key on every member, also on those that are away now and come\n" +
			"back. NODE is the whole name. A host that works leaves better by itself, with\n`skein leave` there.",
		RunE: func(cmd *cobra.Command, args []string) error {
			node, err := cluster.ParseNodeID(args[0])
			if err != nil {
				return usagef("%s", err)
			}
			if p, ok := errors.AsType[*api.Problem](api.RemoveRequest{Reason: reason}.Check()); ok {
				return usagef("--reason: %s", p.Detail)
			}
			return a.departs(cmd.Context(), func(ctx context.Context, c *api.Client) error {
				what, err := whatIsRemoved(ctx, c, node)
				if err != nil {
					return err
				}
				if err := a.confirm(what); err != nil {
					return err
				}
				r, err := c.Remove(ctx, node, reason)
				if err != nil {
					return err
				}
				switch a.output {
				case "json", "jsonl":
					return a.show(view{body: r})
				}
				a.note("%s removed by %s", r.Member, orDash(r.By))
				return nil
			})
		},
	}
	cmd.Flags().StringVar(&reason, "reason", "", "why, for the event log; plain ASCII, at most 64 bytes")
	return cmd
}

// whatIsRemoved says in a sentence which host it is.
func whatIsRemoved(ctx context.Context, c *api.Client, node cluster.NodeID) (string, error) {
	m, err := c.Members(ctx)
	if err != nil {
		return "", err
	}
	for _, x := range m.Members {
		if x.Node != node {
			continue
		}
		seen := "never heard of"
		if x.SeenSeconds != nil {
			seen = "seen " + ageOf(x.SeenSeconds) + " ago"
		}
		return fmt.Sprintf("%s (%s, %s, %s) is removed from the cluster for good.", node, orDash(x.Addr), orDash(stateOf(x)), seen), nil
	}
	// The daemon knows better: it may be removed already.
	return fmt.Sprintf("%s is removed from the cluster for good.", node), nil
}

// confirm asks on a terminal whether to go on. Elsewhere nobody could answer:
// there --yes says so beforehand.
func (a *app) confirm(what string) error {
	if a.yes {
		return nil
	}
	if a.errWidth == 0 {
		return usagef("%s", lowerFirst(what)).hint("give --yes to do that without being asked")
	}
	fmt.Fprintf(a.err, "%s Go on? [y/N] ", what)
	line, err := bufio.NewReader(io.LimitReader(a.in, 64)).ReadString('\n')
	if err != nil && line == "" {
		fmt.Fprintln(a.err)
	}
	switch strings.ToLower(strings.TrimSpace(line)) {
	case "y", "yes":
		return nil
	}
	return failf(exitFailed, "nothing done")
}

func lowerFirst(s string) string { return strings.ToLower(s[:1]) + s[1:] }
