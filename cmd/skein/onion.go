package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
)

// maxKeyFile bounds a key file that is read.
const maxKeyFile = 4096

func (a *app) onionCommand() *cobra.Command {
	return group("onion", "Onion addresses that every host serves",
		a.onionStatus(), a.onionInit(), a.onionImport(), a.onionExport(), a.onionGrant(), a.onionClients(),
		a.onionVerify(), a.onionDrain(), a.onionRotate(), a.onionRemove())
}

func (a *app) onionStatus() *cobra.Command {
	return &cobra.Command{
		Use: "status", Short: "Addresses, who publishes them, and what each host adds", Args: exactly(0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withClient(cmd.Context(), func(ctx context.Context, c *api.Client) error {
				o, raw, err := fetch[api.Onion](ctx, c, "/v1/onion")
				if err != nil {
					return err
				}
				if err := a.show(view{raw: raw, body: o, items: items(o.Addresses), table: func(f form) table { return addressTable(o, f) }}); err != nil {
					return err
				}
				if a.output == "json" || a.output == "jsonl" {
					return nil
				}
				for _, h := range o.Hosts {
					a.note("%s", hostLine(h))
				}
				a.note("tor %s", torLine(o.Tor))
				for _, p := range o.Problems {
					a.note("problem: %s", p)
				}
				return nil
			})
		},
	}
}

func addressTable(o api.Onion, f form) table {
	t := table{head: []string{"ADDRESS", "KEY", "PUBLISHING", "PUBLISHED", "POINTS", "KEEPERS", "CLIENTS"}}
	for _, x := range o.Addresses {
		published, points := unknown, []string{}
		if x.PublishedAt != nil {
			published = when(*x.PublishedAt, o.ObservedAt, f.wide())
		}
		for n, c := range x.Points {
			points = append(points, string(n)+":"+strconv.Itoa(c))
		}
		slices.Sort(points)
		publishing := yesNo(x.Publishing)
		switch {
		case x.Fenced:
			publishing = "fenced"
		case x.Solo:
			publishing = "by tor"
		}
		clients := "all"
		if len(x.Clients) > 0 {
			clients = joined(x.Clients)
		}
		t.add(x.Address, yesNo(x.Key), publishing, published, joined(points), joined(x.Keepers), clients)
	}
	return t
}

func hostLine(h api.OnionHost) string {
	words := []string{string(h.Node), string(h.Health), fmt.Sprintf("weight %d, %s", h.Weight, plural(h.Points, "point"))}
	switch {
	case h.Address == "":
		words = append(words, "serves nothing")
	case h.Weight == 0:
		words = append(words, "drained")
	case !h.Serving:
		words = append(words, "left out")
	}
	if !h.Healthy {
		words = append(words, "its target fails")
	}
	if h.Reason != "" {
		words = append(words, "refused: "+h.Reason)
	}
	return strings.Join(words, ", ")
}

func torLine(t api.OnionTor) string {
	if !t.Enabled {
		return "is off: set tor.enabled"
	}
	line := fmt.Sprintf("%s %s, %d %%, %s", t.Version, t.State, t.Bootstrap, plural(t.Restarts, "restart"))
	if t.WrongMaster > 0 {
		line += fmt.Sprintf(", %d introductions for an address that this host does not serve", t.WrongMaster)
	}
	if t.Reason != "" {
		line += ": " + t.Reason
	}
	return strings.TrimSpace(line)
}

// changed says what became of an address.
func (a *app) changed(body any, format string, args ...any) error {
	if a.output == "json" || a.output == "jsonl" {
		return a.show(view{body: body})
	}
	a.note(format, args...)
	return nil
}

func (a *app) onionInit() *cobra.Command {
	return &cobra.Command{
		Use: "init", Short: "Make a new onion address that every host serves", Args: exactly(0, ""),
		Long: "The key is made on this host and stays there. Every host with onion.target serves the\n" +
			"address from now on, those that join later as well. Give the key to the hosts that\n" +
			"shall publish when this one is gone: `skein onion grant ADDRESS NODE`.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withClient(cmd.Context(), func(ctx context.Context, c *api.Client) error {
				o, err := c.AddOnion(ctx, api.OnionRequest{})
				if err != nil {
					return err
				}
				if a.output != "json" && a.output != "jsonl" {
					fmt.Fprintln(a.out, o.Address)
				}
				return a.changed(o, "only this host has its key: `skein onion grant %s NODE`", o.Address)
			})
		},
	}
}

func (a *app) onionImport() *cobra.Command {
	return &cobra.Command{
		Use: "import FILE", Short: "Serve the address of an existing key", Args: exactly(1, "FILE"),
		Long: "FILE is tor's hs_ed25519_secret_key, or - for standard input. Stop the tor that served\n" +
			"it before: two that publish one address take it from each other.",
		RunE: func(cmd *cobra.Command, args []string) error {
			text, err := readKeyFile(args[0])
			if err != nil {
				return err
			}
			return a.withClient(cmd.Context(), func(ctx context.Context, c *api.Client) error {
				o, err := c.AddOnion(ctx, api.OnionRequest{KeyFile: text})
				if err != nil {
					return err
				}
				if a.output != "json" && a.output != "jsonl" {
					fmt.Fprintln(a.out, o.Address)
				}
				return a.changed(o, "imported; only this host has its key: `skein onion grant %s NODE`", o.Address)
			})
		},
	}
}

func readKeyFile(name string) ([]byte, error) {
	in := os.Stdin
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return nil, usagef("key file: %s", err)
		}
		defer f.Close()
		in = f
	}
	text, err := io.ReadAll(io.LimitReader(in, maxKeyFile+1))
	if err != nil {
		return nil, usagef("key file: %s", err)
	}
	if len(text) == 0 || len(text) > maxKeyFile {
		return nil, usagef("key file: %d bytes or more are not a key of tor", len(text))
	}
	return text, nil
}

func (a *app) onionExport() *cobra.Command {
	return &cobra.Command{
		Use: "export ADDRESS DIR", Short: "Write the key of an address to a new directory", Args: exactly(2, "ADDRESS and DIR"),
		Long: "DIR gets the files of a HiddenServiceDir of tor, mode 0600. Whoever has them can\n" +
			"take the address over.",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withClient(cmd.Context(), func(ctx context.Context, c *api.Client) error {
				k, err := c.ExportOnion(ctx, args[0])
				if err != nil {
					return err
				}
				if err := os.Mkdir(args[1], 0o700); err != nil {
					return failf(exitFailed, "export: %s", err)
				}
				for name, text := range map[string][]byte{"hs_ed25519_secret_key": k.KeyFile, "hostname": []byte(k.Address + "\n")} {
					if err := os.WriteFile(filepath.Join(args[1], name), text, 0o600); err != nil {
						return failf(exitFailed, "export: %s", err)
					}
				}
				a.note("the key of %s is in %s", k.Address, args[1])
				return nil
			})
		},
	}
}

func (a *app) onionGrant() *cobra.Command {
	return &cobra.Command{
		Use: "grant ADDRESS NODE", Short: "Give a host the key of an address, so that it can publish", Args: exactly(2, "ADDRESS and NODE"),
		Long: "The key travels sealed to the identity of the host. It cannot be taken back: who has\n" +
			"seen it may use it for ever.",
		RunE: func(cmd *cobra.Command, args []string) error {
			node, err := cluster.ParseNodeID(args[1])
			if err != nil {
				return usagef("%s", err)
			}
			return a.withClient(cmd.Context(), func(ctx context.Context, c *api.Client) error {
				g, err := c.GrantOnion(ctx, args[0], node)
				if err != nil {
					return err
				}
				return a.changed(g, "%s has the key of %s", g.Node, g.Address)
			})
		},
	}
}

func (a *app) onionClients() *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use: "clients ADDRESS [NAME=KEY...]", Short: "Say who may find an address; nobody opens it to all",
		Long: "KEY is a client's public key, as in tor's .auth files: descriptor:x25519:<52 characters>.\n" +
			"All clients are named each time. With --file one NAME=KEY in each line.",
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			list := args[1:]
			if file != "" {
				text, err := os.ReadFile(file)
				if err != nil {
					return usagef("--file: %s", err)
				}
				list = append(list, strings.Fields(string(text))...)
			}
			req := api.OnionClientsRequest{Clients: map[string]string{}}
			for _, x := range list {
				name, key, ok := strings.Cut(x, "=")
				if !ok {
					return usagef("client %q is not NAME=KEY", x)
				}
				req.Clients[name] = key
			}
			return a.withClient(cmd.Context(), func(ctx context.Context, c *api.Client) error {
				o, err := c.SetOnionClients(ctx, args[0], req)
				if err != nil {
					return err
				}
				return a.changed(o, "%s may find %s", plural(len(req.Clients), "client"), o.Address)
			})
		},
	}
	cmd.Flags().StringVar(&file, "file", "", "file of clients, one in each line")
	return cmd
}

func (a *app) onionVerify() *cobra.Command {
	return &cobra.Command{
		Use: "verify ADDRESS", Short: "Ask every directory for the descriptor that clients find", Args: exactly(1, "ADDRESS"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withClient(cmd.Context(), func(ctx context.Context, c *api.Client) error {
				v, err := c.VerifyOnion(ctx, args[0])
				if err != nil {
					return err
				}
				if err := a.show(view{body: v, items: items(v.Dirs), table: func(form) table {
					t := table{head: []string{"DIRECTORY", "REVISION", "POINTS", "REASON"}}
					for _, d := range v.Dirs {
						points := strconv.Itoa(d.Points)
						if d.Revision == "" || d.Points < 0 {
							points = unknown
						}
						t.add(d.Dir, orDash(d.Revision), points, orDash(d.Reason))
					}
					return t
				}}); err != nil {
					return err
				}
				if 2*v.Found < len(v.Dirs) || v.Found == 0 {
					return failf(exitFailed, "%d of %d directories have the newest descriptor", v.Found, len(v.Dirs)).
						hint("`skein onion status` says who publishes, `skein events --kind publish_failed` why not")
				}
				return nil
			})
		},
	}
}

func (a *app) onionDrain() *cobra.Command {
	var undo bool
	cmd := &cobra.Command{
		Use: "drain [NODE]", Short: "Take a host out of the descriptors, while its tor still serves",
		Long: "Clients come to the others from the next descriptor on, and those with the one\n" +
			"before are still served. It holds over restarts, until --undo. Without NODE it is\n" +
			"this host. A daemon that stops leaves the descriptors by itself.",
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			req := api.OnionDrainRequest{Undo: undo}
			if len(args) > 0 {
				node, err := cluster.ParseNodeID(args[0])
				if err != nil {
					return usagef("%s", err)
				}
				req.Node = node
			}
			return a.withClient(cmd.Context(), func(ctx context.Context, c *api.Client) error {
				d, err := c.DrainOnion(ctx, req)
				if err != nil {
					return err
				}
				if d.Drained {
					return a.changed(d, "%s leaves the descriptors", d.Node)
				}
				return a.changed(d, "%s is in the descriptors again", d.Node)
			})
		},
	}
	cmd.Flags().BoolVar(&undo, "undo", false, "back into the descriptors")
	return cmd
}

func (a *app) onionRotate() *cobra.Command {
	return &cobra.Command{
		Use: "rotate", Short: "Give this host another onion key of its own", Args: exactly(0, ""),
		Long: "The addresses stay. The introduction points of this host are new after some seconds;\n" +
			"those before serve for three hours more, and end with the connections that are still open over them.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withClient(cmd.Context(), func(ctx context.Context, c *api.Client) error {
				r, err := c.RotateOnion(ctx)
				if err != nil {
					return err
				}
				return a.changed(r, "%s is replaced", r.From)
			})
		},
	}
}

func (a *app) onionRemove() *cobra.Command {
	return &cobra.Command{
		Use: "remove ADDRESS", Short: "Serve an address no more; its key stays", Args: exactly(1, "ADDRESS"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := a.confirm("Nobody will find " + args[0] + " any more."); err != nil {
				return err
			}
			return a.withClient(cmd.Context(), func(ctx context.Context, c *api.Client) error {
				o, err := c.RemoveOnion(ctx, args[0])
				if err != nil {
					return err
				}
				return a.changed(o, "%s is served no more", o.Address)
			})
		},
	}
}
