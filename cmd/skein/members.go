package main

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
)

func (a *app) membersCommand() *cobra.Command {
	var state, role string
	var all bool
	cmd := &cobra.Command{
		Use: "members", Short: "The hosts of the cluster, as this one sees them", Args: exactly(0, ""),
		Long: "With --all also the hosts that left or were removed, until their names and\naddresses may be given to others.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := oneOf("--state", state, cluster.Joining, cluster.Alive, cluster.Suspect, cluster.Dead, cluster.Left, removed); err != nil {
				return err
			}
			if err := oneOf("--role", role, cluster.RoleHolder, cluster.RoleStandby, cluster.RoleWitness); err != nil {
				return err
			}
			path := "/v1/members"
			if all || state == string(cluster.Left) || state == string(removed) {
				path += "?all=true"
			}
			return a.withClient(cmd.Context(), func(ctx context.Context, c *api.Client) error {
				m, raw, err := fetch[api.Members](ctx, c, path)
				if err != nil {
					return err
				}
				v := view{raw: raw, body: m}
				if state != "" || role != "" {
					m.Members = slices.DeleteFunc(m.Members, func(x api.Member) bool {
						return state != "" && string(stateOf(x)) != state || role != "" && string(x.Role) != role
					})
					v.raw, v.body = nil, m
				}
				v.items = items(m.Members)
				v.table = func(f form) table { return membersTable(m, f) }
				return a.show(v)
			})
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "also who left or was removed")
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

func oneOf[T ~string](flag, value string, words ...T) error {
	if value == "" || slices.Contains(words, T(value)) {
		return nil
	}
	list := make([]string, len(words))
	for i, w := range words {
		list[i] = string(w)
	}
	last := len(list) - 1
	return usagef("%s is %q, want %s or %s", flag, value, strings.Join(list[:last], ", "), list[last])
}

func membersTable(m api.Members, f form) table {
	wide := f.wide()
	t := table{head: []string{"NODE", "ADDR", "STATE", "ROLE", "TERM", "SEEN", "RTT", "PATH", "VERSION"}}
	if wide {
		t.head = append(t.head, "VOTER", "PUBLISHER", "LAG", "PRIORITY", "ZONE", "ADDR6", "ENDPOINTS",
			"SPONSOR", "NAT", "SKEW", "CERT", "GONE", "REASON")
	}
	for _, x := range m.Members {
		name := string(x.Node)
		if x.Self && !wide {
			name += "*"
		}
		row := []string{
			name, orDash(x.Addr), orDash(stateOf(x)), orDash(x.Role), termOf(uint64(x.Term)),
			f.age(x.SeenSeconds), f.age(x.RTTSeconds), orDash(x.Path), orDash(x.Version),
		}
		if wide {
			row = append(row, yesNo(x.Voter), yesNo(x.Publisher), lag(x.LagEvents), strconv.FormatUint(uint64(x.Priority), 10),
				orDash(x.Zone), orDash(x.Addr6), joined(x.Endpoints),
				yesNo(x.Sponsor), yesNo(x.NAT), f.skew(x.SkewSeconds), stampOf(x.CertExpiresAt), stampOf(x.GoneAt), orDash(x.Reason))
		}
		t.rows = append(t.rows, row)
	}
	return t
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// skew shows a difference of clocks with its sign, or - for nil.
func (f form) skew(seconds *float64) string {
	switch {
	case seconds == nil:
		return unknown
	case f == formTSV:
		return plainSeconds(*seconds)
	}
	return strconv.FormatFloat(*seconds, 'f', 3, 64) + "s"
}

// stampOf shows a time exactly, or - for nil.
func stampOf(t *time.Time) string {
	if t == nil {
		return unknown
	}
	return stamp(*t)
}

func lag(n *uint64) string {
	if n == nil {
		return unknown
	}
	return strconv.FormatUint(*n, 10)
}
