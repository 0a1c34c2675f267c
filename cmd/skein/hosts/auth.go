package hosts

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/skein-project/skein/access"
	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cmd/skein/cli"
)

func authCommand(a *cli.App) *cobra.Command {
	return cli.Group("auth", "A user's key, and tokens that it signs", authKey(a), authToken(a))
}

func authKey(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use: "key FILE", Short: "Make a key, or show the public half of one",
		Long: "Writes a new Ed25519 key to FILE, readable by you only, unless there is one, and prints\n" +
			"its public half: that is what an operator wants for `skein user add`.",
		Args: cli.Exactly(1, "the file of the key"),
		RunE: func(_ *cobra.Command, args []string) error {
			key, err := cli.ReadKey(args[0])
			if errors.Is(err, fs.ErrNotExist) {
				key, err = makeKey(args[0])
			}
			if err != nil {
				return cli.Failf(cli.ExitFailed, "key %s: %s", args[0], err)
			}
			public, _ := key.Public().(ed25519.PublicKey)
			fmt.Fprintln(a.Out, access.FormatPublicKey(public))
			return nil
		},
	}
}

func makeKey(file string) (ed25519.PrivateKey, error) {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	text, err := access.FormatPrivateKey(key)
	if err != nil {
		return nil, err
	}
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	_, err = f.Write(text)
	return key, errors.Join(err, f.Sync(), f.Close())
}

func authToken(a *cli.App) *cobra.Command {
	var life time.Duration
	var role, user, of string
	cmd := &cobra.Command{
		Use: "token --user NAME", Short: "Print a token for a browser or curl",
		Long: "The token is signed by the key of --key or SKEIN_KEY, and good for 15 minutes at most.\n" +
			"It is a secret: until it ends, whoever has it may do what the role may.",
		Example: "  curl -H \"Authorization: Bearer $(skein --key ann.key auth token --user ann)\" https://h1:7443/v1/jobs",
		Args:    cli.Exactly(0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			key, err := a.Key()
			switch {
			case err != nil:
				return err
			case key == nil:
				return cli.Usagef("no key to sign with").WithHint("give its file before the command: skein --key FILE auth token, or SKEIN_KEY")
			case life < time.Second || life > access.MaxTokenLife:
				return cli.Usagef("--ttl is %s, want 1s to %s", life, access.MaxTokenLife)
			case user == "":
				return cli.Usagef("--user is missing").WithHint("name the user whose key it is")
			}
			r, err := access.ParseRole(role)
			if err != nil {
				return cli.Usagef("--role: %s", err)
			}
			mint := func(clusterID string) error {
				text, err := access.Mint(clusterID, user, r, key, rand.Text(), time.Now(), life)
				if err == nil {
					fmt.Fprintln(a.Out, text)
				}
				return err
			}
			if of != "" {
				return mint(of)
			}
			return a.WithClient(cmd.Context(), func(ctx context.Context, c *api.Client) error {
				v, err := c.Version(ctx)
				if err != nil {
					return err
				}
				return mint(v.Cluster)
			})
		},
	}
	cmd.Flags().DurationVar(&life, "ttl", access.MaxTokenLife, "how long it is good")
	cmd.Flags().StringVar(&role, "role", "viewer", "what it is good for, at most the user's role: viewer, submitter or operator")
	cmd.Flags().StringVar(&user, "user", "", "whose key it is")
	cmd.Flags().StringVar(&of, "cluster", "", "id of the cluster (default: that of --socket)")
	return cmd
}
