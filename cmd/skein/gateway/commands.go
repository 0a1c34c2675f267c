package gateway

import (
	"github.com/spf13/cobra"

	"github.com/skein-project/skein/cmd/skein/cli"
)

// Command is `skein gateway`.
func Command(a *cli.App) *cobra.Command {
	return cli.Group("gateway", "Who is let in from outside the mesh",
		gatewayStatus(a), centrifugoConfig(a),
		cli.Group("worker", "Workers that no host runs", workerAdd(a), workerList(a), workerRevoke(a)),
		cli.Group("token", "Access tokens of users, for the gateway", tokenCreate(a), tokenList(a), tokenRevoke(a)),
	)
}
