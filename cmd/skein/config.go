package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/config"
)

func (a *app) configCommand() *cobra.Command {
	return group("config", "Check and show the configuration", a.configCheck(), a.configShow())
}

func (a *app) configCheck() *cobra.Command {
	var set settings
	cmd := &cobra.Command{
		Use: "check", Short: "Check the configuration: file, environment, flags", Args: exactly(0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if _, err := set.load(a, cmd); err != nil {
				return err
			}
			a.note("the configuration is good")
			return nil
		},
	}
	set.flags(cmd.Flags())
	return cmd
}

func (a *app) configShow() *cobra.Command {
	var set settings
	var running bool
	cmd := &cobra.Command{
		Use:   "show",
		Short: "Show every key with its value and where that comes from",
		Args:  exactly(0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if running {
				return a.configRunning(cmd.Context())
			}
			cfg, err := set.load(a, cmd)
			if err != nil {
				return err
			}
			list := cfg.Show()
			entries := make([]api.ConfigEntry, len(list))
			for i, e := range list {
				entries[i] = api.ConfigEntry{Key: e.Key, Value: e.Value, Origin: string(e.Origin)}
			}
			return a.show(view{
				body: struct {
					Entries []api.ConfigEntry `json:"entries"`
				}{entries},
				items: items(entries),
				table: func(bool) table { return entriesTable(list) },
			})
		},
	}
	set.flags(cmd.Flags())
	cmd.Flags().BoolVar(&running, "running", false, "what the running daemon uses, instead of what it would read now")
	return cmd
}

func (a *app) configRunning(ctx context.Context) error {
	return a.withClient(ctx, func(ctx context.Context, c *api.Client) error {
		cfg, raw, err := fetch[api.Config](ctx, c, "/v1/config")
		if err != nil {
			return err
		}
		list := make([]config.Entry, len(cfg.Entries))
		for i, e := range cfg.Entries {
			list[i] = config.Entry{Key: e.Key, Value: e.Value, Origin: config.Origin(e.Origin)}
		}
		return a.show(view{raw: raw, items: items(cfg.Entries), table: func(bool) table { return entriesTable(list) }})
	})
}
