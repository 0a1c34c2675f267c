package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
)

func (a *app) workerCommand() *cobra.Command {
	return group("worker", "What runs chunks on a host", a.workerDrain())
}

func (a *app) workerDrain() *cobra.Command {
	var undo bool
	cmd := &cobra.Command{
		Use: "drain [NODE]", Short: "Let a host finish its chunks and begin none",
		Long: "For work on a host: what runs there is finished, what waits goes elsewhere, and\n" +
			"nothing new begins, over restarts too, until --undo. The host stays a member, votes\n" +
			"and may hold the lease. Without NODE it is this host.",
		Example: "  skein worker drain n3\n  skein worker drain --undo n3",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usagef("%s takes one host, got %d arguments", cmd.CommandPath(), len(args)).hint("see `%s --help`", cmd.CommandPath())
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			req := api.DrainRequest{Undo: undo}
			if len(args) > 0 {
				node, err := cluster.ParseNodeID(args[0])
				if err != nil {
					return usagef("%s", err)
				}
				req.Node = node
			}
			return a.withClient(cmd.Context(), func(ctx context.Context, c *api.Client) error {
				d, err := c.Drain(ctx, req)
				if err != nil {
					return err
				}
				switch {
				case a.output == "json" || a.output == "jsonl":
					return a.show(view{body: d})
				case undo:
					a.note("%s takes chunks again", d.Node)
				default:
					a.note("%s drains: %s still run", d.Node, plural(d.Worker.Running, "chunk"))
				}
				return nil
			})
		},
	}
	cmd.Flags().BoolVar(&undo, "undo", false, "take chunks again")
	return cmd
}
