package local

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cmd/skein/cli"
	"github.com/skein-project/skein/config"
	"github.com/skein-project/skein/internal/certfile"
	"github.com/skein-project/skein/present"
)

func configCommand(a *cli.App) *cobra.Command {
	return cli.Group("config", "Check, show and compare the configuration", configCheck(a), configShow(a), configDiff(a), configInit(a))
}

func configCheck(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use: "check", Short: "Check the configuration: file, environment, flags", Args: cli.Exactly(0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := a.Settings(cmd)
			if err != nil {
				return err
			}
			if err := certificates(cfg); err != nil {
				return err
			}
			switch a.Output {
			case "json", "jsonl":
				return a.Show(cli.View{Body: struct {
					OK bool `json:"ok"`
				}{true}})
			}
			a.Note("the configuration is good")
			return nil
		},
	}
	cli.AddSettings(cmd.Flags())
	return cmd
}

// certificates says what the daemon would say of the certificates that it shows.
func certificates(cfg config.Config) error {
	if err := certificate("api", cfg.API.TLSCert, cfg.API.TLSKey); err != nil || !cfg.Gateway.Listen.IsValid() {
		return err
	}
	return certificate("gateway", cfg.Gateway.TLSCert, cfg.Gateway.TLSKey)
}

func certificate(table, cert, key string) error {
	if cert == "" {
		return nil
	}
	_, err := certfile.Load(cert, key, time.Now())
	wrong, ok := errors.AsType[*certfile.Error](err)
	if !ok {
		return err
	}
	at := table + ".tls_cert"
	if wrong.OfKey {
		at = table + ".tls_key"
	}
	return config.Errors{{Key: at, Msg: wrong.Msg, Hint: wrong.Hint}}
}

func configInit(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use: "init", Short: "Print a configuration file: every key with its default", Args: cli.Exactly(0, ""),
		RunE: func(*cobra.Command, []string) error { return config.WriteExample(a.Out) },
	}
}

func configShow(a *cli.App) *cobra.Command {
	var running bool
	cmd := &cobra.Command{
		Use:   "show",
		Short: "Show every key with its value and where it comes from",
		Args:  cli.Exactly(0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if running {
				return a.WithClient(cmd.Context(), func(ctx context.Context, c *api.Client) error {
					cfg, raw, err := cli.Fetch[api.Config](ctx, c, "/v1/config")
					if err != nil {
						return err
					}
					return a.Show(cli.View{Raw: raw, Items: cli.Items(cfg.Entries), Table: func() present.Table { return present.Config(cfg.Entries) }})
				})
			}
			cfg, err := a.Settings(cmd)
			if err != nil {
				return err
			}
			entries := entriesOf(cfg)
			return a.Show(cli.View{
				Body: struct {
					Entries []api.ConfigEntry `json:"entries"`
				}{entries},
				Items: cli.Items(entries),
				Table: func() present.Table { return present.Config(entries) },
			})
		},
	}
	cli.AddSettings(cmd.Flags())
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

func configDiff(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "diff",
		Short: "What a reload or a restart of the daemon would change",
		Long: "Compares what the running daemon uses with what it would read now. Keys that come\n" +
			"from the environment or from flags show up if those differ here. A change of\n" +
			"node.name never takes effect: a member keeps the name with which it joined.",
		Args: cli.Exactly(0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := a.Settings(cmd)
			if err != nil {
				return err
			}
			return a.WithClient(cmd.Context(), func(ctx context.Context, c *api.Client) error {
				running, err := c.Config(ctx)
				if err != nil {
					return err
				}
				list := differences(running.Entries, entriesOf(cfg))
				if len(list) == 0 {
					a.Note("no difference")
				}
				return a.Show(cli.View{
					Body: struct {
						Changes []difference `json:"changes"`
					}{list},
					Items: cli.Items(list),
					Table: func() present.Table {
						t := present.NewTable("KEY", "RUNNING", "READ", "TAKES")
						for _, d := range list {
							t.Add(d.Key, present.OrDash(d.Running), present.OrDash(d.Read), d.Reload)
						}
						return t
					},
				})
			})
		},
	}
	cli.AddSettings(cmd.Flags())
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
