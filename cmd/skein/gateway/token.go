package gateway

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/cmd/skein/cli"
	"github.com/skein-project/skein/present"
)

func tokenCreate(a *cli.App) *cobra.Command {
	var req api.AccessRequest
	var ttl time.Duration
	var out string
	cmd := &cobra.Command{
		Use: "create --owner user:NAME --role ROLE...", Short: "Make an access token of a user and print it",
		Long: "Who has the token may do at the gateway what its roles say, as the user: submit (jobs),\n" +
			"watch (what the user may see), work (enrol workers of the user's). It is a secret and is\n" +
			"shown once: the log has only its hash. With --out it goes into a new file that only you\n" +
			"can read.",
		Example: "  skein gateway token create --owner user:ann --role work --out attic.token",
		Args:    cli.Exactly(0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if len(req.Roles) == 0 {
				return cli.Usagef("--role is missing").WithHint("what the token is for: submit, watch or work; more than one is possible")
			}
			for _, role := range req.Roles {
				if !slices.Contains(event.AccessRoles(), role) {
					return cli.Usagef("--role is %.32q, want submit, watch or work", role)
				}
			}
			if ttl < api.MinAccessTTL || ttl > api.MaxAccessTTL {
				return cli.Usagef("--ttl is %s, want %s to %s", ttl, api.MinAccessTTL, api.MaxAccessTTL).WithHint("how long the token is good for, like 24h or 720h")
			}
			req.TTLSeconds = ttl.Seconds()
			var file *os.File
			if out != "" {
				var err error // before the token is made: it would be for nobody
				if file, err = os.OpenFile(out, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600); err != nil {
					return cli.Failf(cli.ExitFailed, "--out: %s", err).WithHint("name a file that is not there yet")
				}
				defer file.Close()
			}
			err := a.WithClient(cmd.Context(), func(ctx context.Context, c *api.Client) error {
				t, err := c.CreateAccess(ctx, req)
				if err != nil {
					return err
				}
				where := ""
				switch {
				case file != nil:
					_, err := fmt.Fprintln(file, t.Secret.Reveal())
					if err = errors.Join(err, file.Sync(), file.Close()); err != nil {
						return cli.Failf(cli.ExitFailed, "--out: %s", err).WithHint("revoke it: `skein gateway token revoke %s`", t.ID)
					}
					where = ": it is in " + file.Name()
				case a.Output == "json", a.Output == "jsonl":
					return a.Show(cli.View{Body: t})
				default:
					fmt.Fprintln(a.Out, t.Secret.Reveal())
				}
				a.Note("access token %s of %s, for %s, expires %s%s", t.ID, t.Owner, present.Joined(t.Roles), present.Stamp(t.ExpiresAt), where)
				return nil
			})
			if err != nil && file != nil {
				err = errors.Join(err, os.Remove(out)) // nothing worth keeping is in it
			}
			return err
		},
	}
	cmd.Flags().StringVar(&req.Owner, "owner", "", "whose it is, like user:ann")
	cmd.Flags().StringSliceVar(&req.Roles, "role", nil, "what it is for: submit, watch or work; up to 3")
	cmd.Flags().DurationVar(&ttl, "ttl", api.UsualAccessTTL, "how long it is good for")
	cmd.Flags().StringVar(&out, "out", "", "write the token into this new file, mode 0600")
	return cmd
}

func tokenList(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use: "ls", Aliases: []string{"list"}, Short: "List the access tokens, without their secrets", Args: cli.Exactly(0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.WithClient(cmd.Context(), func(ctx context.Context, c *api.Client) error {
				list, raw, err := cli.Fetch[api.AccessTokens](ctx, c, "/v1/gateway/tokens")
				if err != nil {
					return err
				}
				return a.Show(cli.View{Raw: raw, Items: cli.Items(list.Tokens), Table: func() present.Table { return present.AccessTokens(list) }})
			})
		},
	}
}

func tokenRevoke(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use: "revoke ID", Short: "End an access token", Args: cli.Exactly(1, "the id of an access token"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.WithClient(cmd.Context(), func(ctx context.Context, c *api.Client) error {
				out, err := c.RevokeAccess(ctx, args[0])
				if err != nil {
					return err
				}
				return show(a, out, func() { a.Note("access token %s is revoked", args[0]) })
			})
		},
	}
}
