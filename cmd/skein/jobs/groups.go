package jobs

import (
	"context"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cmd/skein/cli"
)

func groupsCommand(a *cli.App) *cobra.Command {
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
				return a.Show(cli.View{Raw: raw, Body: g, Items: cli.Items(g.Groups), Table: func(f cli.Form) cli.Table {
					t := cli.Table{Head: []string{"GROUP", "MEMBERS", "SET", "BY"}}
					for _, x := range g.Groups {
						members := strconv.Itoa(len(x.Members))
						if f.Wide() {
							members = cli.Joined(x.Members)
						}
						t.Add(x.Name, members, cli.When(x.At, g.ObservedAt, f.Wide()), cli.OrDash(x.Actor))
					}
					return t
				}})
			})
		},
	}
}

func groupSet(a *cli.App) *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use: "set NAME [MEMBER...]", Short: "Say who belongs to a group; naming nobody ends it",
		Long: "Members are names of users such as uid:1000, or node:n4 for the worker of host n4; with\n" +
			"--file, one per line. Every call names all members. Once the command returns, it\n" +
			"applies to chunks assigned from then on.",
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
			return a.WithClient(cmd.Context(), func(ctx context.Context, c *api.Client) error {
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
				a.Note("group %s has %s", g.Name, cli.Plural(g.Members, "member"))
				if i := slices.IndexFunc(members, func(m string) bool { return !strings.Contains(m, ":") }); i >= 0 {
					a.Note("warning: %q is no user of skein, which are called uid:1000 and the like; the worker of a host of that name is node:%[1]s", members[i])
				}
				return nil
			})
		},
	}
	cmd.Flags().StringVar(&file, "file", "", "file of members, one per line")
	return cmd
}
