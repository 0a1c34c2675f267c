package main

import (
	"context"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/skein-project/skein/api"
)

func (a *app) logSnapshots() *cobra.Command {
	return &cobra.Command{
		Use: "snapshots", Short: "The snapshots of the log on this host", Args: exactly(0, ""),
		Long: "A snapshot is what the events up to a position mean, signed by a majority of the\n" +
			"voters. The log opens from it, and segments below the last but one may be dropped\n" +
			"(eventlog.retain_bytes).",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withClient(cmd.Context(), func(ctx context.Context, c *api.Client) error {
				s, raw, err := fetch[api.LogSnapshots](ctx, c, "/v1/log/snapshots")
				if err != nil {
					return err
				}
				if err := a.show(view{raw: raw, items: items(s.Snapshots), table: func(f form) table {
					t := table{head: []string{"ID", "EVENTS", "LAST", "SIZE", "TERM", "SIGNERS", "STATE"}}
					for _, one := range s.Snapshots {
						t.add(one.ID.String()[:12], strconv.FormatUint(one.Events, 10), when(one.LastAt, s.ObservedAt, f.wide()),
							bytesOf(one.SizeBytes), termOf(uint64(one.Term)), joined(one.Signers), one.StateHash.String()[:12])
					}
					return t
				}}); err != nil {
					return err
				}
				a.note("%s since, %d dropped; %s could be dropped", plural(int(s.EventsSince), "event"), s.DroppedEvents, bytesOf(s.ReclaimableBytes))
				if bad := s.Mismatch + s.Trouble; bad != "" {
					a.note("trouble: %s", bad)
				}
				return nil
			})
		},
	}
}

func (a *app) logSnapshot() *cobra.Command {
	return &cobra.Command{
		Use: "snapshot", Short: "Take a snapshot of the log now", Args: exactly(0, ""),
		Long: "The holder folds the log up to this moment, the voters do the same and sign if they\n" +
			"get the same. Ends when a majority has signed; all hosts then make the snapshot.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withClient(cmd.Context(), func(ctx context.Context, c *api.Client) error {
				s, err := c.TakeSnapshot(ctx)
				if err != nil {
					return err
				}
				switch a.output {
				case "json", "jsonl":
					return a.show(view{body: s})
				}
				a.note("snapshot %s of %s, signed by %s", s.ID.String()[:12], plural(int(s.Events), "event"), joined(s.Signers))
				return nil
			})
		},
	}
}
