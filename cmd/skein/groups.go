package main

import (
	"context"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/skein-project/skein/api"
)

func (a *app) groupsCommand() *cobra.Command {
	return group("group", "Groups of users that permissions of jobs may name", a.groupList(), a.groupSet())
}

func (a *app) groupList() *cobra.Command {
	return &cobra.Command{
		Use: "ls", Aliases: []string{"list"}, Short: "List the groups", Args: exactly(0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withClient(cmd.Context(), func(ctx context.Context, c *api.Client) error {
				g, raw, err := fetch[api.Groups](ctx, c, "/v1/groups")
				if err != nil {
					return err
				}
				return a.show(view{raw: raw, body: g, items: items(g.Groups), table: func(f form) table {
					t := table{head: []string{"GROUP", "MEMBERS", "SET", "BY"}}
					for _, x := range g.Groups {
						members := strconv.Itoa(len(x.Members))
						if f.wide() {
							members = joined(x.Members)
						}
						t.add(x.Name, members, when(x.At, g.ObservedAt, f.wide()), orDash(x.Actor))
					}
					return t
				}})
			})
		},
	}
}

func (a *app) groupSet() *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use: "set NAME [MEMBER...]", Short: "Say who belongs to a group; nobody ends it",
		Long: "Members are names of users such as uid:1000, or with --file one in each line. All\n" +
			"are named each time. It counts from the answer on, for chunks given out later.",
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			members := args[1:]
			if file != "" {
				text, err := os.ReadFile(file)
				if err != nil {
					return usagef("--file: %s", err)
				}
				members = append(members, strings.Fields(string(text))...)
			}
			return a.withClient(cmd.Context(), func(ctx context.Context, c *api.Client) error {
				g, err := c.SetGroup(ctx, args[0], members)
				if err != nil {
					return err
				}
				if a.output == "json" || a.output == "jsonl" {
					return a.show(view{body: g})
				}
				a.note("group %s has %s", g.Name, plural(g.Members, "member"))
				return nil
			})
		},
	}
	cmd.Flags().StringVar(&file, "file", "", "file of members, one in each line")
	return cmd
}
