package hosts

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/skein-project/skein/access"
	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cmd/skein/cli"
	"github.com/skein-project/skein/present"
)

func usersCommand(a *cli.App) *cobra.Command {
	return cli.Group("user", "Users, who prove each request by a key", userAdd(a), userList(a), userDisable(a, true), userDisable(a, false))
}

func userAdd(a *cli.App) *cobra.Command {
	var role string
	var keys []string
	var uids []uint
	cmd := &cobra.Command{
		Use: "add NAME --role ROLE [--key FILE|-]...", Short: "Make a user, or say anew who a user is",
		Long: "The role is viewer (sees everything, changes nothing), submitter (its own jobs) or\n" +
			"operator (everything). The user makes a key with `skein auth key`; give its public half\n" +
			"with --key, as a file or - for standard input. Every call says all that holds of the user.\n" +
			"Prints where this host takes requests of users, and the pins of its certificates.",
		Example: "  skein user add ann --role submitter --key ann.pub",
		Args:    cli.Exactly(1, "the name of a user"),
		RunE: func(cmd *cobra.Command, args []string) error {
			req := api.UserRequest{Role: role}
			if _, err := access.ParseRole(role); err != nil {
				return cli.Usagef("--role: %s", err)
			}
			if err := cluster.CheckUserName(args[0]); err != nil {
				return cli.Usagef("%s", err)
			}
			for _, uid := range uids {
				req.UIDs = append(req.UIDs, uint64(uid))
			}
			for _, name := range keys {
				text, err := readUserKey(a, name)
				if err != nil {
					return err
				}
				req.Keys = append(req.Keys, text)
			}
			return a.WithClient(cmd.Context(), func(ctx context.Context, c *api.Client) error {
				return setUser(a, ctx, c, args[0], req)
			})
		},
	}
	cmd.Flags().StringVar(&role, "role", "", "viewer, submitter or operator")
	cmd.Flags().StringArrayVar(&keys, "key", nil, "file of a public key, or - for standard input; up to 8")
	cmd.Flags().UintSliceVar(&uids, "uid", nil, "who they are on the socket of a host; up to 16")
	return cmd
}

// readUserKey reads a public key.
func readUserKey(a *cli.App, name string) (string, error) {
	const limit = 4096
	var text []byte
	var err error
	if name == "-" {
		text, err = io.ReadAll(io.LimitReader(a.In, limit))
	} else {
		text, err = os.ReadFile(name)
	}
	if err != nil {
		return "", cli.Usagef("--key: %s", err)
	}
	if _, err := access.ParsePublicKey(text); err != nil {
		return "", cli.Usagef("--key %s: %s", name, err).WithHint("`skein auth key FILE` makes a key and prints the public half")
	}
	return string(text), nil
}

func setUser(a *cli.App, ctx context.Context, c *api.Client, name string, req api.UserRequest) error {
	u, err := c.SetUser(ctx, name, req)
	if err != nil {
		return err
	}
	if a.Output == "json" || a.Output == "jsonl" {
		return a.Show(cli.View{Body: u})
	}
	state := "is " + req.Role
	if req.Disabled {
		state = "is disabled"
	}
	a.Note("user %s %s, with %s", name, state, present.Plural(len(req.Keys), "key"))
	if len(req.Keys)+len(req.UIDs) == 0 && !req.Disabled {
		a.Note("nobody is that user yet: give the public half of a key that the user made with `skein auth key`, --key FILE, or who it is on a host's socket, --uid N")
	}
	for _, e := range u.Endpoints {
		fmt.Fprintln(a.Out, strings.TrimSpace(e.URL+" "+e.Pin))
	}
	if len(u.Endpoints) == 0 && !req.Disabled {
		a.Note("this host takes no requests of users: set api.listen, see `skein config show`")
	}
	return nil
}

func userList(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use: "ls", Aliases: []string{"list"}, Short: "List the users", Args: cli.Exactly(0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.WithClient(cmd.Context(), func(ctx context.Context, c *api.Client) error {
				list, raw, err := cli.Fetch[api.Users](ctx, c, "/v1/users")
				if err != nil {
					return err
				}
				return a.Show(cli.View{Raw: raw, Body: list, Items: cli.Items(list.Users), Table: func() present.Table { return present.Users(list) }})
			})
		},
	}
}

func userDisable(a *cli.App, disable bool) *cobra.Command {
	use, short := "disable NAME", "Refuse a user everything; streams end within a second"
	if !disable {
		use, short = "enable NAME", "Let a user that was disabled in again"
	}
	return &cobra.Command{
		Use: use, Short: short, Args: cli.Exactly(1, "the name of a user"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.WithClient(cmd.Context(), func(ctx context.Context, c *api.Client) error {
				list, err := c.Users(ctx)
				if err != nil {
					return err
				}
				for _, u := range list.Users {
					if u.Name == args[0] {
						return setUser(a, ctx, c, u.Name, api.UserRequest{Role: u.Role, Keys: u.Keys, UIDs: u.UIDs, Disabled: disable})
					}
				}
				return cli.Failf(cli.ExitNotFound, "no user %q", args[0]).WithHint("see `skein user ls`")
			})
		},
	}
}

func hostCommand(a *cli.App) *cobra.Command {
	return cli.Group("host", "Whose hosts are", hostOwner(a))
}

func hostOwner(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use: "owner NODE user:NAME|none", Short: "Say whose a host is",
		Long: "A host that is somebody's runs that user's jobs, unless its worker.accept says more or\n" +
			"less. Only operators say whose a host is, never the host itself.",
		Args: cli.Exactly(2, "a host and its owner"),
		RunE: func(cmd *cobra.Command, args []string) error {
			owner := args[1]
			switch name, isUser := strings.CutPrefix(owner, "user:"); {
			case owner == "none":
				owner = ""
			case !isUser:
				return cli.Usagef("%q is no user", owner).WithHint("name one, like user:ann, or none")
			default:
				if err := cluster.CheckUserName(name); err != nil {
					return cli.Usagef("%s", err)
				}
			}
			return a.WithClient(cmd.Context(), func(ctx context.Context, c *api.Client) error {
				out, err := c.SetOwner(ctx, cluster.NodeID(args[0]), owner)
				if err != nil {
					return err
				}
				if a.Output == "json" || a.Output == "jsonl" {
					return a.Show(cli.View{Body: out})
				}
				if owner == "" {
					a.Note("%s is the host of nobody in particular", args[0])
					return nil
				}
				a.Note("%s is the host of %s", args[0], owner)
				return nil
			})
		},
	}
}
