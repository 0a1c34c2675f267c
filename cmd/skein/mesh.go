package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
)

func (a *app) meshCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "mesh [NODE]", Short: "The WireGuard mesh: peers, paths, handshakes",
		Long: "Without NODE the device and its peers; with NODE, or a prefix that fits one peer\nonly, all that is known of the way to it.",
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
				v := view{raw: raw, page: func(w io.Writer) { a.meshPage(w, m) }}
				if len(args) == 1 {
					p, err := findPeer(m.Peers, args[0])
					if err != nil {
						return err
					}
					m.Peers = []api.MeshPeer{p}
					v = view{body: m, page: func(w io.Writer) { writeFields(w, string(p.Node), peerFields(m, p)) }}
				}
				v.items = items(m.Peers)
				v.table = func(f form) table { return meshTable(m, f) }
				return a.show(v)
			})
		},
	}
	cmd.AddCommand(a.meshRotate())
	return cmd
}

// findPeer finds the peer of that name, or the only one whose name begins so.
func findPeer(peers []api.MeshPeer, text string) (api.MeshPeer, error) {
	var found []api.MeshPeer
	for _, p := range peers {
		if string(p.Node) == text {
			return p, nil
		}
		if strings.HasPrefix(string(p.Node), text) {
			found = append(found, p)
		}
	}
	switch len(found) {
	case 0:
		return api.MeshPeer{}, failf(exitNotFound, "no peer %s in the mesh", text).hint("see `skein members`")
	case 1:
		return found[0], nil
	}
	names := make([]cluster.NodeID, len(found))
	for i, p := range found {
		names[i] = p.Node
	}
	return api.MeshPeer{}, usagef("%s fits several peers: %s", text, joined(names)).hint("give more of the name")
}

// meshPage is the device in one line, and its peers.
func (a *app) meshPage(w io.Writer, m api.Mesh) {
	parts := []string{deviceOf(m.MeshSummary), orDash(m.Address), "mtu " + meshMTU(m)}
	if m.PublicEndpoint != "" {
		parts = append(parts, "seen at "+m.PublicEndpoint)
	}
	if m.NAT {
		parts = append(parts, "behind NAT")
	}
	if m.NextAt != nil {
		parts = append(parts, "new key "+expiry(*m.NextAt, m.ObservedAt, false))
	}
	fmt.Fprintln(w, strings.Join(parts, "  "))
	a.writeTable(meshTable(m, formTable))
}

// deviceOf names the device and how it is made.
func deviceOf(m api.MeshSummary) string {
	if m.Interface == "" {
		return orDash(m.Backend)
	}
	return m.Interface + " (" + m.Backend + ")"
}

func meshMTU(m api.Mesh) string {
	mtu := termOf(uint64(max(0, m.MTU)))
	if m.MTUAuto {
		mtu += " auto"
	}
	return mtu
}

func meshTable(m api.Mesh, f form) table {
	t := table{head: []string{"NODE", "ADDR", "STATE", "PATH", "ENDPOINT", "HANDSHAKE", "RECEIVED", "SENT", "RTT"}}
	if f.wide() {
		t.head = append(t.head, "MTU", "KEEPALIVE", "ADDR6", "KEY", "NEXT_KEY", "CANDIDATES")
	}
	for _, p := range m.Peers {
		row := []string{
			string(p.Node), orDash(p.Addr), orDash(p.State), orDash(p.Path), orDash(p.Endpoint), f.age(p.HandshakeSeconds),
			f.bytes(p.ReceivedBytes), f.bytes(p.SentBytes), f.age(p.RTTSeconds),
		}
		if f.wide() {
			row = append(row, mtuOf(p.MTU), f.keepalive(p.KeepaliveSeconds), orDash(p.Addr6), orDash(p.PublicKey),
				orDash(p.NextPublicKey), joined(p.Candidates))
		}
		t.rows = append(t.rows, row)
	}
	return t
}

func mtuOf(mtu *int) string {
	if mtu == nil {
		return unknown
	}
	return strconv.Itoa(*mtu)
}

func (f form) keepalive(seconds float64) string {
	if seconds <= 0 {
		return "off"
	}
	return f.age(&seconds)
}

// pathOf says how messages reach a peer.
func pathOf(p api.MeshPeer) string {
	if p.Path == "onion" {
		return "onion, the mesh has not carried messages for " + ageOf(p.PathSeconds)
	}
	return orDash(p.Path)
}

// peerFields is all that is known of the way to one peer.
func peerFields(m api.Mesh, p api.MeshPeer) [][2]string {
	fields := [][2]string{
		{"state", orDash(p.State)},
		{"address", orDash(p.Addr) + ", " + orDash(p.Addr6)},
		{"path", pathOf(p)},
		{"endpoint", orDash(p.Endpoint)},
		{"tried", orDash(strings.Join(p.Candidates, ", "))},
		{"handshake", ageOf(p.HandshakeSeconds)},
		{"rtt", ageOf(p.RTTSeconds)},
		{"received", bytesOf(p.ReceivedBytes)},
		{"sent", bytesOf(p.SentBytes)},
		{"mtu", mtuOf(p.MTU) + " to this peer, " + meshMTU(m) + " on the device"},
		{"keepalive", formTable.keepalive(p.KeepaliveSeconds)},
		{"key", orDash(p.PublicKey)},
	}
	if p.Onion != "" {
		fields = append(fields, [2]string{"onion", p.Onion})
	}
	if p.NextPublicKey != "" {
		fields = append(fields, [2]string{"next key", p.NextPublicKey})
	}
	return fields
}

// writeFields writes names and values under a title.
func writeFields(w io.Writer, title string, fields [][2]string) {
	fmt.Fprintln(w, title)
	width := 0
	for _, f := range fields {
		width = max(width, len(f[0]))
	}
	for _, f := range fields {
		fmt.Fprintf(w, "  %-*s  %s\n", width, f[0], f[1])
	}
}

func (a *app) meshRotate() *cobra.Command {
	return &cobra.Command{
		Use: "rotate", Short: "Change the WireGuard key of this host without losing packets", Args: exactly(0, ""),
		Long: "Announces a new key and the moment of its use to all peers. Asked again before\nthat moment it shows the change that is under way.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withClient(cmd.Context(), func(ctx context.Context, c *api.Client) error {
				r, err := c.RotateKey(ctx)
				if err != nil {
					return err
				}
				if slices.Contains([]string{"json", "jsonl", "tsv"}, a.output) {
					return a.show(view{body: r, table: func(form) table {
						t := table{head: []string{"NODE", "AT"}}
						t.add(string(r.Node), stamp(r.At))
						return t
					}})
				}
				a.note("%s changes its key %s, at %s at the latest", r.Node, expiry(r.At, r.ObservedAt, false), stamp(r.At))
				return nil
			})
		},
	}
}
