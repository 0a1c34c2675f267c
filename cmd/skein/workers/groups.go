package workers

import (
	"context"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cmd/skein/cli"
	"github.com/skein-project/skein/present"
)

// Groups says who belongs to which.
func Groups(a *cli.App) *cobra.Command {
	return cli.Group("group", "Groups of users that permissions of jobs may name", groupList(a), groupSet(a))
}

func groupList(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use: "ls", Aliases: []string{"list"}, Short: "List the groups", Args: cli.Exactly(0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.WithClient(cmd.Context(), func(ctx context.Context, c *api.Client) error {
				g, raw, err := cli.Fetch[api.Groups](ctx, c, "/v1/groups")
				if err != nil {
					return err
				}
				return a.Show(cli.View{Raw: raw, Body: g, Items: cli.Items(g.Groups), Table: func() present.Table { return present.Groups(g) }})
			})
		},
	}
}

func groupSet(a *cli.App) *cobra.Command {
	var file string
	var force bool
	cmd := &cobra.Command{
		Use: "set NAME [MEMBER...]", Short: "Say who belongs to a group; naming nobody ends it",
		Long: "Members are names of users such as uid:1000, or node:n4 for the worker of host n4; with\n" +
			"--file, one per line. Every call names all members. Once the command returns, it\n" +
			"applies to chunks assigned from then on. With --force and without members they are those of\n" +
			"jobs.groups_file or jobs.groups_url of this host, which waits where more than half of\n" +
			"the members would leave: `skein doctor` names such groups.",
		Args: cli.AtLeastOne("the name of a group"),
		RunE: func(cmd *cobra.Command, args []string) error {
			members := args[1:]
			if file != "" {
				text, err := os.ReadFile(file)
				if err != nil {
					return cli.Usagef("--file: %s", err)
				}
				members = append(members, strings.Fields(string(text))...)
			}
			if force && len(members) > 0 {
				return cli.Usagef("--force takes the members from the configuration: name none")
			}
			return a.WithClient(cmd.Context(), func(ctx context.Context, c *api.Client) error {
				if force {
					var err error
					if members, err = waitingMembers(ctx, c, args[0]); err != nil {
						return err
					}
				}
				g, err := c.SetGroup(ctx, args[0], members)
				if err != nil {
					return err
				}
				if a.Output == "json" || a.Output == "jsonl" {
					return a.Show(cli.View{Body: g})
				}
				if g.Members == 0 {
					a.Note("group %s has ended", g.Name)
					return nil
				}
				a.Note("group %s has %s", g.Name, present.Plural(g.Members, "member"))
				if i := slices.IndexFunc(members, func(m string) bool { return !strings.Contains(m, ":") }); i >= 0 {
					a.Note("warning: %q is no user of skein, which are called uid:1000 and the like; the worker of a host of that name is node:%[1]s", members[i])
				}
				return nil
			})
		},
	}
	cmd.Flags().StringVar(&file, "file", "", "file of members, one per line")
	cmd.Flags().BoolVar(&force, "force", false, "let the group have the members for which it waits")
	return cmd
}

// waitingMembers are those that a group would have by the configuration of the host
// that is asked.
func waitingMembers(ctx context.Context, c *api.Client, name string) ([]string, error) {
	all, err := c.Groups(ctx)
	if err != nil {
		return nil, err
	}
	for _, g := range all.Waiting {
		if g.Name == name {
			return g.Members, nil
		}
	}
	return nil, cli.Failf(cli.ExitNotFound, "group %s does not wait on %s", name, all.Node).
		WithHint("it waits on the host that has jobs.groups_file or jobs.groups_url: `skein doctor` there names it")
}
