package hosts

import (
	"context"
	"slices"

	"github.com/spf13/cobra"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cmd/skein/cli"
	"github.com/skein-project/skein/present"
)

func membersCommand(a *cli.App) *cobra.Command {
	var state, role string
	var all bool
	cmd := &cobra.Command{
		Use: "members", Short: "The hosts of the cluster, as this one sees them", Args: cli.Exactly(0, ""),
		Long: "With --all, also the hosts that left or were removed, until their names and addresses\n" +
			"may be given to others.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := cli.OneOf("--state", state, cluster.Joining, cluster.Alive, cluster.Suspect, cluster.Dead, present.Stopped, cluster.Left, present.Removed); err != nil {
				return err
			}
			if err := cli.OneOf("--role", role, cluster.RoleHolder, cluster.RoleStandby, cluster.RoleWitness); err != nil {
				return err
			}
			path := "/v1/members"
			if all || state == string(cluster.Left) || state == string(present.Removed) {
				path += "?all=true"
			}
			return a.WithClient(cmd.Context(), func(ctx context.Context, c *api.Client) error {
				m, raw, err := cli.Fetch[api.Members](ctx, c, path)
				if err != nil {
					return err
				}
				v := cli.View{Raw: raw, Body: m}
				if state != "" || role != "" {
					m.Members = slices.DeleteFunc(m.Members, func(x api.Member) bool {
						return state != "" && string(present.StateOf(x)) != state || role != "" && string(x.Role) != role
					})
					v.Raw, v.Body = nil, m
				}
				v.Items = cli.Items(m.Members)
				v.Table = func() present.Table { return present.Members(m) }
				return a.Show(v)
			})
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "also hosts that left or were removed")
	cmd.Flags().StringVar(&state, "state", "", "only joining, alive, suspect, dead, stopped, left or removed")
	cmd.Flags().StringVar(&role, "role", "", "only holder, standby or witness")
	return cmd
}
