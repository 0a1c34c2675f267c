package hosts

import (
	"context"
	"slices"
	"strconv"

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
			if err := cli.OneOf("--state", state, cluster.Joining, cluster.Alive, cluster.Suspect, cluster.Dead, cluster.Left, removed); err != nil {
				return err
			}
			if err := cli.OneOf("--role", role, cluster.RoleHolder, cluster.RoleStandby, cluster.RoleWitness); err != nil {
				return err
			}
			path := "/v1/members"
			if all || state == string(cluster.Left) || state == string(removed) {
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
						return state != "" && string(stateOf(x)) != state || role != "" && string(x.Role) != role
					})
					v.Raw, v.Body = nil, m
				}
				v.Items = cli.Items(m.Members)
				v.Table = func(f cli.Form) cli.Table { return membersTable(m, f) }
				return a.Show(v)
			})
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "also hosts that left or were removed")
	cmd.Flags().StringVar(&state, "state", "", "only joining, alive, suspect, dead, left or removed")
	cmd.Flags().StringVar(&role, "role", "", "only holder, standby or witness")
	return cmd
}

// removed is how tables call a host that others took out of the cluster; the
// API says left, with a mark.
const removed cluster.Health = "removed"

func stateOf(m api.Member) cluster.Health {
	if m.Removed {
		return removed
	}
	return m.State
}

func membersTable(m api.Members, f cli.Form) cli.Table {
	wide := f.Wide()
	t := cli.Table{Head: []string{"NODE", "ADDR", "STATE", "ROLE", "TERM", "SEEN", "RTT", "PATH", "VERSION"}}
	if wide {
		t.Head = append(t.Head, "VOTER", "PUBLISHER", "LAG", "PRIORITY", "ZONE", "ADDR6", "ENDPOINTS",
			"SPONSOR", "NAT", "SKEW", "CERT", "GONE", "REASON")
	}
	for _, x := range m.Members {
		name := string(x.Node)
		if x.Self && !wide {
			name += "*"
		}
		row := []string{
			name, cli.OrDash(x.Addr), cli.OrDash(stateOf(x)), cli.OrDash(x.Role), cli.TermOf(uint64(x.Term)),
			f.Age(x.SeenSeconds), f.Age(x.RTTSeconds), cli.OrDash(x.Path), cli.OrDash(x.Version),
		}
		if wide {
			row = append(row, cli.YesNo(x.Voter), cli.YesNo(x.Publisher), cli.Lag(x.LagEvents), strconv.FormatUint(uint64(x.Priority), 10),
				cli.OrDash(x.Zone), cli.OrDash(x.Addr6), cli.Joined(x.Endpoints),
				cli.YesNo(x.Sponsor), cli.YesNo(x.NAT), skew(f, x.SkewSeconds), cli.StampOf(x.CertExpiresAt), cli.StampOf(x.GoneAt), cli.OrDash(x.Reason))
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// skew shows a difference of clocks with its sign, or - for nil.
func skew(f cli.Form, seconds *float64) string {
	switch {
	case seconds == nil:
		return present.Unknown
	case f == cli.FormTSV:
		return cli.PlainSeconds(*seconds)
	}
	return strconv.FormatFloat(*seconds, 'f', 3, 64) + "s"
}
