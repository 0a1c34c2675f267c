package hosts

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cmd/skein/cli"
	"github.com/skein-project/skein/present"
)

func tokenCommand(a *cli.App) *cobra.Command {
	return cli.Group("token", "Invite hosts", tokenCreate(a), tokenList(a), tokenRevoke(a))
}

// Limits of an invite; the daemon has the last word.
const (
	maxTTL  = 30 * 24 * time.Hour
	maxUses = 128
)

func tokenCreate(a *cli.App) *cobra.Command {
	var ttl time.Duration
	var uses int
	var via, owner, out string
	var ephemeral bool
	cmd := &cobra.Command{
		Use:   "create",
		Short: "Create an invite and print its token",
		Long: "Prints the token on stdout, or writes it with --out into a new file that only you can\n" +
			"read. It is a secret: copy the file to the new host, and run `skein run --join @FILE`\n" +
			"there.",
		Example: "  skein token create --ttl 24h --out n4.token",
		Args:    cli.Exactly(0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case ttl < time.Second || ttl > maxTTL:
				return cli.Usagef("--ttl is %s, want 1s to %s", ttl, maxTTL).WithHint("how long the invite is valid, like 90m or 24h")
			case uses < 1 || uses > maxUses:
				return cli.Usagef("--uses is %d, want 1 to %d", uses, maxUses).WithHint("how many hosts may join with it")
			case !api.TokenVia(via).Valid():
				return cli.Usagef("--via is %q, want %s or %s", via, api.ViaOnion, api.ViaMaster).WithHint("how the new host reaches the cluster over tor")
			}
			var file *os.File
			if out != "" {
				var err error // before the invite is made: it would be for nobody
				if file, err = os.OpenFile(out, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600); err != nil {
					return cli.Failf(cli.ExitFailed, "--out: %s", err).WithHint("name a file that is not there yet")
				}
				defer file.Close()
			}
			err := a.WithClient(cmd.Context(), func(ctx context.Context, c *api.Client) error {
				t, err := c.Invite(ctx, api.TokenRequest{TTLSeconds: ttl.Seconds(), Uses: uses, Via: api.TokenVia(via), Owner: owner, Ephemeral: ephemeral})
				if err != nil {
					return err
				}
				if file != nil {
					return keepToken(a, file, t)
				}
				switch a.Output {
				case "json", "jsonl":
					return a.Show(cli.View{Body: t})
				}
				fmt.Fprintln(a.Out, t.Secret.Reveal())
				a.Note("invite %s for %s, expires %s", t.ID, present.Plural(t.Uses, "host"), present.Stamp(t.ExpiresAt))
				return nil
			})
			if err != nil && file != nil {
				err = errors.Join(err, os.Remove(out)) // nothing worth keeping is in it
			}
			return err
		},
	}
	cmd.Flags().StringVar(&out, "out", "", "write the token into this new file, mode 0600")
	cmd.Flags().DurationVar(&ttl, "ttl", time.Hour, "how long it is valid")
	cmd.Flags().IntVar(&uses, "uses", 1, "how many hosts may join with it")
	cmd.Flags().StringVar(&owner, "owner", "", "whose the hosts are that join with it, as of host owner: user:ann")
	cmd.Flags().BoolVar(&ephemeral, "ephemeral", false, "for hosts that come and go: they leave when they stop, and are removed an hour after their death")
	cmd.Flags().StringVar(&via, "via", "", "name only onion addresses: onion (this host's own) or master (the cluster's, through any host)")
	return cmd
}

// keepToken writes a token into its file, down to the disk.
func keepToken(a *cli.App, file *os.File, t api.TokenCreated) error {
	_, err := fmt.Fprintln(file, t.Secret.Reveal())
	if err = errors.Join(err, file.Sync(), file.Close()); err != nil {
		return cli.Failf(cli.ExitFailed, "--out: %s", err)
	}
	a.Note("invite %s for %s, expires %s: its token is in %s", t.ID, present.Plural(t.Uses, "host"), present.Stamp(t.ExpiresAt), file.Name())
	return nil
}

func tokenList(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use: "ls", Aliases: []string{"list"}, Short: "List the invites of this host", Args: cli.Exactly(0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.WithClient(cmd.Context(), func(ctx context.Context, c *api.Client) error {
				list, raw, err := cli.Fetch[api.Tokens](ctx, c, "/v1/tokens")
				if err != nil {
					return err
				}
				return a.Show(cli.View{Raw: raw, Items: cli.Items(list.Tokens), Table: func() present.Table { return present.Tokens(list) }})
			})
		},
	}
}

func tokenRevoke(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use: "revoke ID", Short: "Revoke an invite; hosts that joined with it stay", Args: cli.Exactly(1, "the id of an invite"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.WithClient(cmd.Context(), func(ctx context.Context, c *api.Client) error {
				if err := c.RevokeToken(ctx, args[0]); err != nil {
					return err
				}
				a.Note("invite %s revoked", args[0])
				return nil
			})
		},
	}
}
