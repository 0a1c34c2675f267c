package gateway

import (
	"context"
	"errors"
	"net/url"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cmd/skein/cli"
	"github.com/skein-project/skein/config"
	"github.com/skein-project/skein/gateway/centrifugo"
)

func centrifugoConfig(a *cli.App) *cobra.Command {
	var out, ask string
	cmd := &cobra.Command{
		Use: "centrifugo-config", Short: "Print what the Centrifugo of gateway.push is to be configured with",
		Long: "Centrifugo v5 starts with what is printed, by `centrifugo --config FILE`; a v6 does not know\n" +
			"its keys. It follows from this host's configuration: [gateway], [redis] and [centrifugo].\n" +
			"So that pages of all gateways may connect, print it again when there is another one.\n" +
			"There are secrets in it: with --out it goes into a new file that only you can read.\n" +
			"Centrifugo asks this host's gateway.internal_listen; with --ask-url a balancer before those\n" +
			"of several gateways.",
		Example: "  skein gateway centrifugo-config --out centrifugo.json",
		Args:    cli.Exactly(0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.Settings(cmd)
			if err != nil {
				return err
			}
			s, err := settings(c, ask)
			if err != nil {
				return err
			}
			return a.WithClient(cmd.Context(), func(ctx context.Context, daemon *api.Client) error {
				v, err := daemon.Version(ctx)
				if err != nil {
					return err
				}
				s.Cluster = v.Cluster
				all, err := daemon.Gateways(ctx)
				if err != nil {
					return err
				}
				for _, g := range all.Gateways { // whose pages connect there as well
					if g.URL != s.Gateway && !slices.Contains(s.Origins, g.URL) {
						s.Origins = append(s.Origins, g.URL)
					}
				}
				text, err := centrifugo.File(s)
				if err != nil {
					return cli.Failf(cli.ExitFailed, "%s", err)
				}
				if out == "" {
					_, err := a.Out.Write(text)
					return err
				}
				f, err := os.OpenFile(out, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
				if err != nil {
					return cli.Failf(cli.ExitFailed, "--out: %s", err).WithHint("name a file that is not there yet")
				}
				_, err = f.Write(text)
				if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
					return cli.Failf(cli.ExitFailed, "--out: %s", err)
				}
				a.Note("%s is for a Centrifugo v5: `centrifugo --config %s`; there are secrets in it", out, out)
				a.Note("pages of %s may connect", strings.Join(append([]string{s.Gateway}, s.Origins...), ", "))
				return nil
			})
		},
	}
	cmd.Flags().StringVar(&out, "out", "", "write it into this new file, mode 0600")
	cmd.Flags().StringVar(&ask, "ask-url", "", "where Centrifugo asks gateways, http://HOST:PORT (default: gateway.internal_listen)")
	return cmd
}

// settings is what follows from a host's configuration.
func settings(c config.Config, ask string) (s centrifugo.Settings, err error) {
	f := c.Centrifugo
	switch {
	case c.Gateway.Push != config.PushCentrifugo:
		return s, cli.Failf(cli.ExitUsage, "gateway.push is %s here, not centrifugo", c.Gateway.Push).WithHint("give the configuration of a gateway with --config; docs/scale-out.md says what stands there")
	case c.Gateway.URL == "":
		return s, cli.Failf(cli.ExitUsage, "this host is no gateway: gateway.listen is empty").WithHint("give the configuration of a gateway with --config")
	case ask == "":
		if addr := c.Gateway.InternalListen; addr.Addr().IsUnspecified() {
			return s, cli.Usagef("nobody can know by which address Centrifugo asks %s", addr).WithHint("say it with --ask-url")
		}
		ask = "http://" + c.Gateway.InternalListen.String()
	}
	if u, err := url.Parse(ask); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.Path != "" || u.RawQuery != "" || u.User != nil {
		return s, cli.Usagef("--ask-url is %.100q, want http://HOST:PORT", ask)
	}
	key, err := centrifugo.ReadSecrets(f.APIKeyFile, 1)
	if err != nil {
		return s, unread("centrifugo.api_key_file", err)
	}
	secret, err := centrifugo.ReadSecrets(f.SecretFile, 2)
	if err != nil {
		return s, unread("centrifugo.secret_file", err)
	}
	s = centrifugo.Settings{
		Gateway: c.Gateway.URL, Proxy: ask, API: f.APIURL, Clients: f.WSURL, Key: key[0], Secret: secret[0], Origins: slices.Clone(c.Gateway.Origins),
		Redis: centrifugo.Redis{Addresses: c.Redis.Addresses, Sentinel: c.Redis.Sentinel, TLSCA: c.Redis.TLSCA, Prefix: c.Redis.Prefix},
	}
	if file := c.Redis.PasswordFile; file != "" {
		text, err := os.ReadFile(file)
		if err != nil {
			return s, unread("redis.password_file", err)
		}
		s.Redis.Password = strings.TrimSpace(string(text))
	}
	return s, nil
}

func unread(key string, err error) error {
	return cli.Failf(cli.ExitFailed, "%s: %s", key, err).WithHint("run this as who may read what the daemon reads")
}
