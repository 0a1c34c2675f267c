package workers

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cmd/skein/cli"
	"github.com/skein-project/skein/present"
)

// Workers lists who runs chunks.
func Workers(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use: "workers", Short: "Who runs chunks: health, rate, backlog and time to drain", Args: cli.Exactly(0, ""),
		Long: "As the holder sees them. Three signals decide what a worker gets: whether it is\n" +
			"alive, whether it is ready, and how it progresses (idle, normal, slow, degraded,\n" +
			"stuck). VERDICT is what follows: route; investigate, it comes after the others;\n" +
			"drain, it gets no more; or evict, its work runs elsewhere. DRAIN is the time until\n" +
			"its BACKLOG is done. ACCEPTS is whose jobs the host runs (worker.accept).",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.WithClient(cmd.Context(), func(ctx context.Context, c *api.Client) error {
				w, raw, err := cli.Fetch[api.Workers](ctx, c, "/v1/workers")
				if err != nil {
					return err
				}
				if w.Omitted > 0 {
					a.Note("%s more are not listed; skein_workers counts all", present.Plural(w.Omitted, "worker"))
				}
				return a.Show(cli.View{Raw: raw, Body: w, Items: cli.Items(w.Workers), Table: func() present.Table { return present.Workers(w) }})
			})
		},
	}
}
