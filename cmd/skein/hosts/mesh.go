package hosts

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cmd/skein/cli"
	"github.com/skein-project/skein/present"
)

func meshCommand(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use: "mesh [NODE]", Short: "The WireGuard mesh: peers, paths, handshakes",
		Long: "Without NODE, the device and its peers; with NODE, or a prefix that fits only one\n" +
			"peer, all that is known of the path to it.",
		Args: cli.AtMostOne("node"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.WithClient(cmd.Context(), func(ctx context.Context, c *api.Client) error {
				m, raw, err := cli.Fetch[api.Mesh](ctx, c, "/v1/mesh")
				if err != nil {
					return err
				}
				v := cli.View{Raw: raw, Page: func(w io.Writer) { meshPage(a, w, m) }}
				if len(args) == 1 {
					p, err := findPeer(m.Peers, args[0])
					if err != nil {
						return err
					}
					m.Peers = []api.MeshPeer{p}
					v = cli.View{Body: m, Page: func(w io.Writer) {
						fmt.Fprintln(w, p.Node)
						cli.WriteFields(w, present.Peer(m, p))
					}}
				}
				v.Items = cli.Items(m.Peers)
				v.Table = func() present.Table { return present.Peers(m) }
				return a.Show(v)
			})
		},
	}
	cmd.AddCommand(meshRotate(a))
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
		return api.MeshPeer{}, cli.Failf(cli.ExitNotFound, "no peer %s in the mesh", text).WithHint("see `skein members`")
	case 1:
		return found[0], nil
	}
	names := make([]cluster.NodeID, len(found))
	for i, p := range found {
		names[i] = p.Node
	}
	return api.MeshPeer{}, cli.Usagef("%s fits several peers: %s", text, present.Joined(names)).WithHint("give more of the name")
}

// meshPage is the device in one line, and its peers.
func meshPage(a *cli.App, w io.Writer, m api.Mesh) {
	parts := []string{present.Device(m.MeshSummary), present.OrDash(m.Address), "mtu " + present.MTU(m)}
	if m.PublicEndpoint != "" {
		parts = append(parts, "seen at "+m.PublicEndpoint)
	}
	if m.NAT {
		parts = append(parts, "behind NAT")
	}
	if m.NextAt != nil {
		parts = append(parts, "new key "+present.Ahead(*m.NextAt, m.ObservedAt))
	}
	fmt.Fprintln(w, strings.Join(parts, "  "))
	a.WriteTable(present.Peers(m))
}

func meshRotate(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use: "rotate", Short: "Change the WireGuard key of this host without losing packets", Args: cli.Exactly(0, ""),
		Long: "Announces a new key to all peers, and waits until this host has changed to it, which is\n" +
			"seconds, or minutes while nobody else is known to have it. Exits 1 if the host keeps\n" +
			"its key. Ctrl-C ends only the waiting; run again, it waits for the change in progress.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			var r api.Rotated
			err := a.WithClient(cmd.Context(), func(ctx context.Context, c *api.Client) (err error) {
				r, err = c.RotateKey(ctx)
				return err
			})
			if err != nil {
				return err
			}
			a.Note("%s announces its next key and changes to it once the others know it, %s at the latest", r.Node, present.Ahead(r.At, r.ObservedAt))
			if err := awaitKey(cmd.Context(), a, r); err != nil {
				return err
			}
			if slices.Contains([]string{"json", "jsonl", "tsv"}, a.Output) {
				return a.Show(cli.View{Body: r, Table: func() present.Table {
					t := present.NewTable("NODE", "AT")
					t.Add(string(r.Node), present.Stamp(r.At))
					return t
				}})
			}
			a.Note("%s has changed its key", r.Node)
			return nil
		},
	}
}

// rotateGrace is how much longer than the daemon says a change of key is followed,
// and how long a daemon may show neither the change nor its end: one that was
// restarted takes the change back.
const rotateGrace = 15 * time.Second

// awaitKey follows a change of key to its end.
func awaitKey(ctx context.Context, a *cli.App, r api.Rotated) error {
	again := func(e *cli.Error) error {
		return e.WithHint("run `skein mesh rotate` again when `skein members` shows others alive; the log of the daemon says more")
	}
	seen, note := time.Now(), time.Now()
	end := seen.Add(max(r.Until.Sub(r.ObservedAt), r.At.Sub(r.ObservedAt)) + rotateGrace)
	for {
		var m api.Mesh
		err := a.WithClient(ctx, func(ctx context.Context, c *api.Client) (err error) {
			m, err = c.Mesh(ctx)
			return err
		})
		now := time.Now()
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err == nil && m.PublicKey != r.PublicKey:
			return nil
		case err == nil && m.RotateError != "":
			return again(cli.Failf(cli.ExitFailed, "%s keeps its key: %s", r.Node, m.RotateError))
		case err == nil && m.NextPublicKey == r.NextPublicKey:
			seen = now
		case now.Sub(seen) < rotateGrace: // between two states, or the daemon restarts
		case err != nil:
			return err
		default:
			return again(cli.Failf(cli.ExitFailed, "%s keeps its key: its daemon took the change back", r.Node))
		}
		if now.After(end) {
			return again(cli.Failf(cli.ExitTimeout, "%s has not changed its key, and not given up", r.Node))
		}
		if now.Sub(note) >= rotateGrace {
			note = now
			a.Note("%s still waits for another host to have the next key, until %s", r.Node, present.Stamp(r.Until))
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(cli.PollPause):
		}
	}
}
