package hosts

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/skein-project/skein/access"
	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cmd/skein/cli"
	"github.com/skein-project/skein/present"
)

func authCommand(a *cli.App) *cobra.Command {
	return cli.Group("auth", "A user's key, tokens that it signs, and who you are", authKey(a), authToken(a), authWhoami(a))
}

func authKey(a *cli.App) *cobra.Command {
	var user string
	cmd := &cobra.Command{
		Use: "key [FILE]", Short: "Make a key, or show the public half of one",
		Long: "Writes a new Ed25519 key to FILE, readable by you only, unless there is one, and prints\n" +
			"its public half: that is what an operator wants for `skein user add`. Without FILE it is\n" +
			"NAME.key in ~/.config/skein, where other commands find it: the only key there signs what\n" +
			"goes to hosts at https addresses, and tokens. Of several, SKEIN_USER says whose.",
		Args: cli.AtMostOne("file"),
		RunE: func(_ *cobra.Command, args []string) error {
			file := ""
			if len(args) == 1 {
				file = args[0]
			} else {
				name := cmp.Or(user, a.Getenv("SKEIN_USER"), a.Getenv("USER"))
				if err := cli.UserNamed(name); err != nil {
					return err
				}
				var err error
				if file, err = a.KeyFile(name); err != nil {
					return err
				}
				a.Note("the key of user %s is in %s", name, file)
			}
			key, err := cli.ReadKey(file)
			if errors.Is(err, fs.ErrNotExist) {
				if key, err = makeKey(file, len(args) == 0); err == nil && len(args) == 1 {
					a.Note("%s is new: it has the private key, readable by you only", file)
				}
			}
			if err != nil {
				return cli.Failf(cli.ExitFailed, "key %s: %s", file, err)
			}
			public, _ := key.Public().(ed25519.PublicKey)
			fmt.Fprintln(a.Out, access.FormatPublicKey(public))
			return nil
		},
	}
	cmd.Flags().StringVar(&user, "user", "", "whose key it is (default: SKEIN_USER, or the name you are logged in by)")
	return cmd
}

// makeKey writes a new key; ours says that the directory may be made too.
func makeKey(file string, ours bool) (ed25519.PrivateKey, error) {
	if ours {
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			return nil, err
		}
	}
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
		Use: "token", Short: "Print a token for a browser or curl",
		Long: "The token is signed by the key of --key or SKEIN_KEY, else by the one that `skein auth\n" +
			"key` made, and good for 15 minutes at most. The user is the one whom the key's file is\n" +
			"named after, ann of ann.key, unless --user or SKEIN_USER names another. The cluster is\n" +
			"that of --socket or SKEIN_SOCKET. It is a secret: until it ends, whoever has it may do\n" +
			"what the role may.",
		Example: "  curl -H \"Authorization: Bearer $(skein auth token)\" https://h1:7443/v1/jobs",
		Args:    cli.Exactly(0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if life < time.Second || life > access.MaxTokenLife {
				return cli.Usagef("--ttl is %s, want 1s to %s", life, access.MaxTokenLife)
			}
			key, name, err := a.Signer(user)
			if err == nil {
				err = cli.UserNamed(name)
			}
			if err != nil {
				return err
			}
			r, err := access.ParseRole(role)
			if err != nil {
				return cli.Usagef("--role: %s", err)
			}
			mint := func(clusterID string) error {
				text, err := access.Mint(clusterID, name, r, key, rand.Text(), time.Now(), life)
				if err == nil {
					fmt.Fprintln(a.Out, text)
				}
				return err
			}
			if of != "" {
				return mint(of)
			}
			c, err := a.Dial(nil) // who has no key yet that is known may ask
			if err != nil {
				return err
			}
			defer c.Close()
			ctx, cancel := a.Limited(cmd.Context())
			defer cancel()
			v, err := c.Version(ctx)
			if away, ok := errors.AsType[*api.UnreachableError](err); ok {
				return cli.Failf(cli.ExitUnreachable, "for which cluster: %s", away).
					WithHint("name a host in SKEIN_SOCKET, as https://h1:7443, with its SKEIN_PIN; or the id of the cluster: --cluster")
			}
			if err != nil {
				return err
			}
			return mint(v.Cluster)
		},
	}
	cmd.Flags().DurationVar(&life, "ttl", access.MaxTokenLife, "how long it is good")
	cmd.Flags().StringVar(&role, "role", "viewer", "what it is good for, at most the user's role: viewer, submitter or operator")
	cmd.Flags().StringVar(&user, "user", "", "whose key it is (default: SKEIN_USER, or as its file is called)")
	cmd.Flags().StringVar(&of, "cluster", "", "id of the cluster (default: that of --socket)")
	return cmd
}

func authWhoami(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use: "whoami", Short: "As whom a host takes you, and what you may", Args: cli.Exactly(0, ""),
		Long: "Asks the host of --socket, with the key of --key if there is one, as every other command\n" +
			"does. A right reaches all that there is, what is yours, or nothing.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.WithClient(cmd.Context(), func(ctx context.Context, c *api.Client) error {
				w, raw, err := cli.Fetch[api.Whoami](ctx, c, "/v1/whoami")
				if err != nil {
					return err
				}
				return a.Show(cli.View{
					Raw: raw, Body: w, Table: func() present.Table { return present.Whoami(w) },
					Page: func(out io.Writer) { cli.WriteFields(out, present.WhoamiPage(w)) },
				})
			})
		},
	}
}
