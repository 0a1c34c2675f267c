package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/config"
)

func (a *app) configCommand() *cobra.Command {
	return group("config", "Check, show and compare the configuration", a.configCheck(), a.configShow(), a.configDiff(), a.configInit())
}

func (a *app) configCheck() *cobra.Command {
	cmd := &cobra.Command{
		Use: "check", Short: "Check the configuration: file, environment, flags", Args: exactly(0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if _, err := a.settings(cmd); err != nil {
				return err
			}
			switch a.output {
			case "json", "jsonl":
				return a.show(view{body: struct {
					OK bool `json:"ok"`
				}{true}})
			}
			a.note("the configuration is good")
			return nil
		},
	}
	addSettings(cmd.Flags())
	return cmd
}

func (a *app) configInit() *cobra.Command {
	return &cobra.Command{
		Use: "init", Short: "Print a configuration file: every key with its default", Args: exactly(0, ""),
		RunE: func(*cobra.Command, []string) error { return config.WriteExample(a.out) },
	}
}

func (a *app) configShow() *cobra.Command {
	var running bool
	cmd := &cobra.Command{
		Use:   "show",
		Short: "Show every key with its value and where that comes from",
		Args:  exactly(0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if running {
				return a.withClient(cmd.Context(), func(ctx context.Context, c *api.Client) error {
					cfg, raw, err := fetch[api.Config](ctx, c, "/v1/config")
					if err != nil {
						return err
					}
					return a.show(view{raw: raw, items: items(cfg.Entries), table: func(form) table { return entriesTable(cfg.Entries) }})
				})
			}
			cfg, err := a.settings(cmd)
			if err != nil {
				return err
			}
			entries := entriesOf(cfg)
			return a.show(view{
				body: struct {
					Entries []api.ConfigEntry `json:"entries"`
				}{entries},
				items: items(entries),
				table: func(form) table { return entriesTable(entries) },
			})
		},
	}
	addSettings(cmd.Flags())
	cmd.Flags().BoolVar(&running, "running", false, "what the running daemon uses, instead of what it would read now")
	return cmd
}

func entriesOf(cfg config.Config) []api.ConfigEntry {
	list := cfg.Show()
	entries := make([]api.ConfigEntry, len(list))
	for i, e := range list {
		entries[i] = api.ConfigEntry{Key: e.Key, Value: e.Value, Origin: string(e.Origin), Reload: api.ReloadOf(e.Live)}
	}
	return entries
}

// difference is a key that the running daemon has otherwise.
type difference struct {
	Key     string `json:"key"`
	Running string `json:"running"`
	Read    string `json:"read"`
	Reload  string `json:"reload"`
}

func (a *app) configDiff() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "diff",
		Short: "What a reload or a restart of the daemon would change",
		Long: "Compares what the running daemon uses with what it would read now. Keys that\n" +
			"derive from the environment or from flags show up if those differ here. A change of\nnode.name never takes effect: a member keeps the name with which it joined.",
		Args: exactly(0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := a.settings(cmd)
			if err != nil {
				return err
			}
			return a.withClient(cmd.Context(), func(ctx context.Context, c *api.Client) error {
				running, err := c.Config(ctx)
				if err != nil {
					return err
				}
				list := differences(running.Entries, entriesOf(cfg))
				if len(list) == 0 {
					a.note("no difference")
				}
				return a.show(view{
					body: struct {
						Changes []difference `json:"changes"`
					}{list},
					items: items(list),
					table: func(form) table {
						t := table{head: []string{"KEY", "RUNNING", "READ", "TAKES"}}
						for _, d := range list {
							t.add(d.Key, orDash(d.Running), orDash(d.Read), d.Reload)
						}
						return t
					},
				})
			})
		},
	}
	addSettings(cmd.Flags())
	return cmd
}

// differences lists the keys of both whose values differ, in the order of now.
// takesNever marks a change that has no effect on a member.
const takesNever = "never"

func differences(running, now []api.ConfigEntry) []difference {
	was := map[string]string{}
	for _, e := range running {
		was[e.Key] = e.Value
	}
	list := []difference{}
	for _, e := range now {
		if old, ok := was[e.Key]; ok && old != e.Value {
			if e.Key == config.KeyNodeName {
				e.Reload = takesNever
			}
			list = append(list, difference{Key: e.Key, Running: old, Read: e.Value, Reload: e.Reload})
		}
	}
	return list
}
