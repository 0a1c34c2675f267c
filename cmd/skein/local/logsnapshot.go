package local

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cmd/skein/cli"
	"github.com/skein-project/skein/present"
)

func logSnapshots(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use: "snapshots", Short: "The snapshots of the log on this host", Args: cli.Exactly(0, ""),
		Long: "A snapshot is the state that the events up to a position lead to, signed by a\n" +
			"majority of the voters. The log opens from it, and segments below the last snapshot\n" +
			"but one may be dropped (eventlog.retain_bytes).",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.WithClient(cmd.Context(), func(ctx context.Context, c *api.Client) error {
				s, raw, err := cli.Fetch[api.LogSnapshots](ctx, c, "/v1/log/snapshots")
				if err != nil {
					return err
				}
				if err := a.Show(cli.View{Raw: raw, Items: cli.Items(s.Snapshots), Table: func() present.Table { return present.Snapshots(s) }}); err != nil {
					return err
				}
				a.Note("%s since, %d dropped; %s could be dropped", present.Plural(int(s.EventsSince), "event"), s.DroppedEvents, present.BytesOf(s.ReclaimableBytes))
				if bad := s.Mismatch + s.Trouble; bad != "" {
					a.Note("trouble: %s", bad)
				}
				return nil
			})
		},
	}
}

func logSnapshot(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use: "snapshot", Short: "Take a snapshot of the log now", Args: cli.Exactly(0, ""),
		Long: "The holder folds the log up to this moment; the voters do the same and sign if they\n" +
			"get the same state. Ends when a majority has signed; all hosts then make the\n" +
			"snapshot.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.WithClient(cmd.Context(), func(ctx context.Context, c *api.Client) error {
				s, err := c.TakeSnapshot(ctx)
				if err != nil {
					return err
				}
				switch a.Output {
				case "json", "jsonl":
					return a.Show(cli.View{Body: s})
				}
				a.Note("snapshot %s of %s, signed by %s", s.ID.String()[:12], present.Plural(int(s.Events), "event"), present.Joined(s.Signers))
				return nil
			})
		},
	}
}
