package workers

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cmd/skein/cli"
	"github.com/skein-project/skein/present"
)

// Zones shows the zones.
func Zones(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use: "zones", Short: "The zones: health, hosts, room for work", Args: cli.Exactly(0, ""),
		Long: "As the holder judges them, each by the members that name it (node.zone) and were not\n" +
			"drained. unhealthy: no host lives, or no worker is reached; degraded: fewer than half\n" +
			"of the hosts live, or half of the workers are stuck, not ready or overloaded; busy: no\n" +
			"room for 5 s; else healthy. HOSTS is how many live of how many, RTT how far they are\n" +
			"from the host that answers, FROM how it knows: measured, reported (by three hosts and\n" +
			"more) or estimated (by coordinates), FOR how long it has been so. See docs/zones.md.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.WithClient(cmd.Context(), func(ctx context.Context, c *api.Client) error {
				z, raw, err := cli.Fetch[api.Zones](ctx, c, "/v1/zones")
				if err != nil {
					return err
				}
				if z.Holder == "" {
					a.Note("the holder does not answer: this is what %s sees, which knows nothing of workers", z.Node)
				}
				if z.Unzoned > 0 {
					a.Note("%s in no zone: node.zone puts a host into one", are(z.Unzoned))
				}
				if z.Omitted > 0 {
					a.Note("%s more are not listed", present.Plural(z.Omitted, "zone"))
				}
				return a.Show(cli.View{Raw: raw, Body: z, Items: cli.Items(z.Zones), Table: func() present.Table { return present.Zones(z) }})
			})
		},
	}
}

// are says how many hosts are.
func are(n int) string {
	if n == 1 {
		return "1 host is"
	}
	return present.Plural(n, "host") + " are"
}
