package workers

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cmd/skein/cli"
	"github.com/skein-project/skein/present"
)

// Overload shows how loaded a host is, and what it refuses.
func Overload(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use: "overload", Short: "How loaded this host is, by what, and what it refuses", Args: cli.Exactly(0, ""),
		Long: "The signals that its level comes from, each with the value from which it means\n" +
			"overload, and the kinds of requests (lanes): what is refused now, from which level on, how\n" +
			"many run at once at most, and how many were refused since the daemon started, BY LEVEL\n" +
			"because the host was overloaded, BY PLACES because all places were taken. OTHERS are hosts that are above\n" +
			"normal, SILENT those that did not answer lately and are left alone for a while. An\n" +
			"overloaded host answers this. See docs/overload.md.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.WithClient(cmd.Context(), func(ctx context.Context, c *api.Client) error {
				o, raw, err := cli.Fetch[api.Overload](ctx, c, "/v1/overload")
				if err != nil {
					return err
				}
				return a.Show(cli.View{
					Raw: raw, Table: func() present.Table { return present.OverloadLanes(o) }, Page: func(w io.Writer) {
						cli.WriteFields(w, present.OverloadPage(o))
						fmt.Fprintln(w)
						a.WriteTable(present.OverloadSignals(o))
						fmt.Fprintln(w)
						a.WriteTable(present.OverloadLanes(o))
					},
				})
			})
		},
	}
}
