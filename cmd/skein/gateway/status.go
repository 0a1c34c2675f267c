package gateway

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cmd/skein/cli"
	"github.com/skein-project/skein/present"
)

func gatewayStatus(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use: "status", Short: "Show which hosts are gateways, and how many workers are attached there", Args: cli.Exactly(0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.WithClient(cmd.Context(), func(ctx context.Context, c *api.Client) error {
				list, err := c.Gateways(ctx)
				if err != nil {
					return err
				}
				return a.Show(cli.View{Body: list, Items: cli.Items(list.Gateways), Table: func() present.Table { return present.Gateways(list) }})
			})
		},
	}
}
