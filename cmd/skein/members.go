package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
)

func (a *app) membersCommand() *cobra.Command {
	var state, role string
	cmd := &cobra.Command{
		Use: "members", Short: "The hosts of the cluster, as this one sees them", Args: exactly(0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := oneOf("--state", state, cluster.Joining, cluster.Alive, cluster.Suspect, cluster.Dead, cluster.Left); err != nil {
				return err
			}
			if err := oneOf("--role", role, cluster.RoleHolder, cluster.RoleStandby, cluster.RoleWitness); err != nil {
				return err
			}
			return a.withClient(cmd.Context(), func(ctx context.Context, c *api.Client) error {
				m, raw, err := fetch[api.Members](ctx, c, "/v1/members")
				if err != nil {
					return err
				}
				v := view{raw: raw, body: m}
				if state != "" || role != "" {
					m.Members = slices.DeleteFunc(m.Members, func(x api.Member) bool {
						return state != "" && string(x.State) != state || role != "" && string(x.Role) != role
					})
					v.raw, v.body = nil, m
				}
				v.items = items(m.Members)
				v.table = func(wide bool) table { return membersTable(m, wide) }
				return a.show(v)
			})
		},
	}
	cmd.Flags().StringVar(&state, "state", "", "only joining, alive, suspect, dead or left")
	cmd.Flags().StringVar(&role, "role", "", "only holder, standby or witness")
	return cmd
}

func oneOf[T ~string](flag, value string, words ...T) error {
	if value == "" || slices.Contains(words, T(value)) {
		return nil
	}
	return usagef("%s is %q, want one of %v", flag, value, words)
}

func membersTable(m api.Members, wide bool) table {
	t := table{head: []string{"NODE", "ADDR", "STATE", "ROLE", "TERM", "SEEN", "RTT", "PATH", "VERSION"}}
	if wide {
		t.head = append(t.head, "VOTER", "LAG", "PRIORITY", "ZONE", "ADDR6", "ENDPOINTS")
	}
	for _, x := range m.Members {
		name := string(x.Node)
		if x.Self && !wide {
			name += "*"
		}
		row := []string{
			name, orDash(x.Addr), orDash(x.State), orDash(x.Role), termOf(uint64(x.Term)),
			ageOf(x.SeenSeconds), ageOf(x.RTTSeconds), orDash(x.Path), orDash(x.Version),
		}
		if wide {
			row = append(row, yesNo(x.Voter), lag(x.LagEvents), strconv.FormatUint(uint64(x.Priority), 10),
				orDash(x.Zone), orDash(x.Addr6), joined(x.Endpoints))
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

func lag(n *uint64) string {
	if n == nil {
		return unknown
	}
	return strconv.FormatUint(*n, 10)
}

func (a *app) meshCommand() *cobra.Command {
	return &cobra.Command{
		Use: "mesh [NODE]", Short: "The WireGuard mesh: peers, paths, handshakes",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usagef("%s wants at most one node", cmd.CommandPath())
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withClient(cmd.Context(), func(ctx context.Context, c *api.Client) error {
				m, raw, err := fetch[api.Mesh](ctx, c, "/v1/mesh")
				if err != nil {
					return err
				}
				v := view{raw: raw}
				if len(args) == 1 {
					m.Peers = slices.DeleteFunc(m.Peers, func(p api.MeshPeer) bool { return string(p.Node) != args[0] })
					if len(m.Peers) == 0 {
						return failf(exitNotFound, "no peer %s in the mesh", args[0]).hint("see `skein members`")
					}
					v = view{body: m}
				}
				v.items = items(m.Peers)
				v.table = func(bool) table { return meshTable(m) }
				return a.show(v)
			})
		},
	}
}

func meshTable(m api.Mesh) table {
	t := table{head: []string{"NODE", "ADDR", "PATH", "ENDPOINT", "HANDSHAKE", "RECEIVED", "SENT", "RTT"}}
	for _, p := range m.Peers {
		t.add(string(p.Node), orDash(p.Addr), orDash(p.Path), orDash(p.Endpoint), ageOf(p.HandshakeSeconds),
			bytesOf(p.ReceivedBytes), bytesOf(p.SentBytes), ageOf(p.RTTSeconds))
	}
	return t
}

// leaseCommand shows the lease and its past.
func (a *app) leaseCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "lease", Short: "Who holds the lease", Args: commandsOnly,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withClient(cmd.Context(), func(ctx context.Context, c *api.Client) error {
				l, raw, err := fetch[api.Lease](ctx, c, "/v1/lease")
				if err != nil {
					return err
				}
				return a.show(view{raw: raw, table: func(bool) table { return leaseTable(l) }})
			})
		},
	}
	cmd.AddCommand(a.leaseHistory(), a.leaseStepDown())
	return cmd
}

func leaseTable(l api.Lease) table {
	ready := unknown
	if l.Ready != nil {
		ready = yesNo(*l.Ready)
	}
	t := table{head: []string{"HOLDER", "TERM", "MODE", "PROFILE", "RENEWED", "EXPIRES", "READY", "EPOCH", "VOTERS"}}
	t.add(orDash(l.Holder), termOf(uint64(l.Term)), orDash(l.Mode), orDash(l.Profile),
		ageOf(l.RenewedSeconds), ageOf(l.ExpiresSeconds), ready, termOf(l.Config.Epoch), joined(l.Config.Voters))
	return t
}

func (a *app) leaseHistory() *cobra.Command {
	return &cobra.Command{
		Use: "history", Short: "Past terms and why they ended", Args: exactly(0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withClient(cmd.Context(), func(ctx context.Context, c *api.Client) error {
				h, raw, err := fetch[api.LeaseHistory](ctx, c, "/v1/lease/history")
				if err != nil {
					return err
				}
				return a.show(view{raw: raw, items: items(h.Terms), table: func(wide bool) table {
					t := table{head: []string{"TERM", "HOLDER", "STARTED", "ENDED", "CAUSE", "SUCCESSOR", "PREVIOUS", "GRANTS"}}
					for _, r := range h.Terms {
						ended := unknown
						if r.EndedAt != nil {
							ended = when(*r.EndedAt, h.ObservedAt, wide)
						}
						t.add(termOf(uint64(r.Term)), orDash(r.Holder), when(r.StartedAt, h.ObservedAt, wide), ended,
							orDash(r.Cause), orDash(r.Successor), orDash(r.Previous), joined(r.Grants))
					}
					return t
				}})
			})
		},
	}
}

func (a *app) leaseStepDown() *cobra.Command {
	var to, reason string
	cmd := &cobra.Command{
		Use: "step-down", Short: "Let the holder hand over", Args: exactly(0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withClient(cmd.Context(), func(ctx context.Context, c *api.Client) error {
				l, err := c.StepDown(ctx, api.StepDownRequest{To: cluster.NodeID(to), Reason: reason})
				if err != nil {
					return err
				}
				switch a.output {
				case "json", "jsonl":
					return a.show(view{body: l})
				}
				a.note("%s hands over", fmt.Sprintf("term %s of %s", termOf(uint64(l.Term)), orDash(l.Holder)))
				return nil
			})
		},
	}
	cmd.Flags().StringVar(&to, "to", "", "who shall be the next holder (default: the best host)")
	cmd.Flags().StringVar(&reason, "reason", "", "why, for the history")
	return cmd
}
