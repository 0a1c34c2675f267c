package workers

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cmd/skein/cli"
	"github.com/skein-project/skein/present"
)

// Worker changes what a host runs.
func Worker(a *cli.App) *cobra.Command {
	return cli.Group("worker", "What runs chunks on a host", workerDrain(a))
}

func workerDrain(a *cli.App) *cobra.Command {
	var undo bool
	cmd := &cobra.Command{
		Use: "drain [NODE]", Short: "Let a host finish its chunks and start no more",
		Long: "For maintenance: what runs on the host finishes, what waits there goes elsewhere, and\n" +
			"nothing new starts, across restarts too, until --undo. The host stays a member, votes\n" +
			"and may hold the lease. Without NODE, this host.",
		Example: "  skein worker drain n3\n  skein worker drain --undo n3",
		Args:    cli.AtMostOne("host"),
		RunE: func(cmd *cobra.Command, args []string) error {
			node, err := cli.Node(args)
			if err != nil {
				return err
			}
			req := api.DrainRequest{Node: node, Undo: undo}
			return a.WithClient(cmd.Context(), func(ctx context.Context, c *api.Client) error {
				d, err := c.Drain(ctx, req)
				if err != nil {
					return err
				}
				switch {
				case a.Output == "json" || a.Output == "jsonl":
					return a.Show(cli.View{Body: d})
				case undo:
					a.Note("%s takes chunks again", d.Node)
				default:
					a.Note("%s drains: %s still run", d.Node, present.Plural(d.Worker.Running, "chunk"))
				}
				return nil
			})
		},
	}
	cmd.Flags().BoolVar(&undo, "undo", false, "take chunks again")
	return cmd
}
