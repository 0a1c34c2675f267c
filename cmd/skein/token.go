package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/skein-project/skein/api"
)

func (a *app) tokenCommand() *cobra.Command {
	return group("token", "Invite hosts", a.tokenCreate(), a.tokenList(), a.tokenRevoke())
}

// Limits of an invite; the daemon has the last word.
const (
	maxTTL  = 30 * 24 * time.Hour
	maxUses = 64
)

func (a *app) tokenCreate() *cobra.Command {
	var ttl time.Duration
	var uses int
	var via string
	cmd := &cobra.Command{
		Use:   "create",
		Short: "Make an invite and print its token",
		Long:  "Prints the token on stdout. It is a secret: put it into a file that only you\ncan read, carry it to the new host, and there `skein run --join @FILE`.",
		Args:  exactly(0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case ttl < time.Second || ttl > maxTTL:
				return usagef("--ttl is %s, want 1s to %s", ttl, maxTTL).hint("how long the invite is valid, like 90m or 24h")
			case uses < 1 || uses > maxUses:
				return usagef("--uses is %d, want 1 to %d", uses, maxUses).hint("how many hosts may join by it")
			case !api.TokenVia(via).Valid():
				return usagef("--via is %q, want %s or %s", via, api.ViaOnion, api.ViaMaster).hint("how the new host reaches the cluster over tor")
			}
			return a.withClient(cmd.Context(), func(ctx context.Context, c *api.Client) error {
				t, err := c.CreateTokenVia(ctx, ttl, uses, api.TokenVia(via))
				if err != nil {
					return err
				}
				switch a.output {
				case "json", "jsonl":
					return a.show(view{body: t})
				}
				fmt.Fprintln(a.out, t.Secret.Reveal())
				a.note("invite %s for %s, expires %s", t.ID, plural(t.Uses, "host"), stamp(t.ExpiresAt))
				return nil
			})
		},
	}
	cmd.Flags().DurationVar(&ttl, "ttl", time.Hour, "how long it is valid")
	cmd.Flags().IntVar(&uses, "uses", 1, "how many hosts may join by it")
	cmd.Flags().StringVar(&via, "via", "", "name onion addresses only: onion, this host's own, or master, the cluster's, through any host")
	return cmd
}

func (a *app) tokenList() *cobra.Command {
	return &cobra.Command{
		Use: "ls", Aliases: []string{"list"}, Short: "List the invites of this host", Args: exactly(0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withClient(cmd.Context(), func(ctx context.Context, c *api.Client) error {
				list, raw, err := fetch[api.Tokens](ctx, c, "/v1/tokens")
				if err != nil {
					return err
				}
				return a.show(view{raw: raw, items: items(list.Tokens), table: func(f form) table {
					t := table{head: []string{"ID", "STATE", "USES", "EXPIRES", "SPENT"}}
					for _, one := range list.Tokens {
						t.add(one.ID, tokenState(one, list.ObservedAt), fmt.Sprintf("%d/%d", len(one.Spent), one.Uses),
							expiry(one.ExpiresAt, list.ObservedAt, f.wide()), joined(one.Spent))
					}
					return t
				}})
			})
		},
	}
}

func tokenState(t api.Token, now time.Time) string {
	switch {
	case t.Revoked:
		return "revoked"
	case len(t.Spent) >= t.Uses:
		return "spent"
	case !now.Before(t.ExpiresAt):
		return "expired"
	}
	return "open"
}

// expiry shows a time that lies ahead.
func expiry(t, now time.Time, wide bool) string {
	switch {
	case wide:
		return stamp(t)
	case !now.Before(t):
		return age(now.Sub(t).Seconds()) + " ago"
	}
	return "in " + age(t.Sub(now).Seconds())
}

func joined[T ~string](list []T) string {
	parts := make([]string, len(list))
	for i, s := range list {
		parts[i] = string(s)
	}
	return orDash(strings.Join(parts, ","))
}

func (a *app) tokenRevoke() *cobra.Command {
	return &cobra.Command{
		Use: "revoke ID", Short: "End an invite; hosts that joined by it stay", Args: exactly(1, "the id of an invite"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withClient(cmd.Context(), func(ctx context.Context, c *api.Client) error {
				if err := c.RevokeToken(ctx, args[0]); err != nil {
					return err
				}
				a.note("invite %s revoked", args[0])
				return nil
			})
		},
	}
}
