package onion

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cmd/skein/cli"
	"github.com/skein-project/skein/present"
)

// maxKeyFile bounds a key file that is read.
const maxKeyFile = 4096

// verifyTime is above what the daemon gives each directory.
const verifyTime = 20 * time.Second

// Command is `skein onion`.
func Command(a *cli.App) *cobra.Command {
	return cli.Group("onion", "Onion addresses that every host serves",
		status(a), create(a), importKey(a), exportKey(a), grant(a), clients(a),
		verify(a), publish(a), drain(a), rotate(a), remove(a))
}

func status(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use: "status", Short: "The addresses, who publishes them, and what each host contributes", Args: cli.Exactly(0, ""),
		Long: "Introduction points are counted three times: asked for is what a host's tor is to\n" +
			"keep, standing are those that have a circuit now, sometimes a few more, and POINTS are\n" +
			"those in the newest descriptor, which clients find; only the publisher knows these.\n" +
			"Where onion.operators names somebody, the address of this host's page is said, too.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.WithClient(cmd.Context(), func(ctx context.Context, c *api.Client) error {
				o, raw, err := cli.Fetch[api.Onion](ctx, c, "/v1/onion")
				if err != nil {
					return err
				}
				if err := a.Show(cli.View{Raw: raw, Body: o, Items: cli.Items(o.Addresses), Table: func() present.Table { return present.Addresses(o) }}); err != nil {
					return err
				}
				if a.Output == "json" || a.Output == "jsonl" {
					return nil
				}
				for _, h := range o.Hosts {
					a.Note("%s", present.OnionHost(h))
				}
				if o.Check != "" {
					a.Note("a target of this host is healthy if it %s", o.Check)
				}
				a.Note("tor %s", present.Tor(o.Tor))
				if text := present.Operators(o); text != "" {
					a.Note("this host's page is found by %s", text)
				}
				for _, p := range o.Problems {
					a.Note("problem: %s", p)
				}
				return nil
			})
		},
	}
}

// changed says what became of an address.
func changed(a *cli.App, body any, format string, args ...any) error {
	if a.Output == "json" || a.Output == "jsonl" {
		return a.Show(cli.View{Body: body})
	}
	a.Note(format, args...)
	return nil
}

func create(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use: "init", Short: "Create an onion address that every host serves", Args: cli.Exactly(0, ""),
		Long: "The key is created on this host and stays there. Every host with onion.target serves\n" +
			"the address from now on, including hosts that join later. Give the key to the hosts\n" +
			"that are to publish when this one is gone: `skein onion grant ADDRESS NODE`.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.WithClient(cmd.Context(), func(ctx context.Context, c *api.Client) error {
				o, err := c.AddOnion(ctx, api.OnionRequest{})
				if err != nil {
					return err
				}
				if a.Output != "json" && a.Output != "jsonl" {
					fmt.Fprintln(a.Out, o.Address)
				}
				return changed(a, o, "only this host has its key: `skein onion grant %s NODE`", o.Address)
			})
		},
	}
}

func importKey(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use: "import FILE", Short: "Serve the address of an existing key", Args: cli.Exactly(1, "FILE"),
		Long: "FILE is tor's hs_ed25519_secret_key, a directory that has one, or - for standard\n" +
			"input. First stop the tor that served the address, or clients go on finding its\n" +
			"descriptors.",
		RunE: func(cmd *cobra.Command, args []string) error {
			name, text, err := readKeyFile(a, args[0])
			if err != nil {
				return err
			}
			return a.WithClient(cmd.Context(), func(ctx context.Context, c *api.Client) error {
				o, err := c.AddOnion(ctx, api.OnionRequest{KeyFile: text})
				if err != nil {
					return fmt.Errorf("%s: %w", name, err)
				}
				if a.Output != "json" && a.Output != "jsonl" {
					fmt.Fprintln(a.Out, o.Address)
				}
				switch others, known := otherKeepers(ctx, c, o); {
				case len(others) > 0:
					return changed(a, o, "imported; %s also %s its key", present.Joined(others), map[bool]string{true: "has", false: "have"}[len(others) == 1])
				case !known:
					return changed(a, o, "imported; `skein onion status` says which hosts have its key")
				}
				return changed(a, o, "imported; no other host that is alive has its key: `skein onion grant %s NODE`", o.Address)
			})
		},
	}
}

// Others show within a gossip of the address being set that they have its key.
const (
	keepersTime = 3 * time.Second
	keepersPoll = 250 * time.Millisecond
)

// otherKeepers are the hosts that have the key of an address beside the one that
// took it now; not known if the daemon does not say.
func otherKeepers(ctx context.Context, c *api.Client, changed api.OnionChanged) (others []cluster.NodeID, known bool) {
	ctx, cancel := context.WithTimeout(ctx, keepersTime)
	defer cancel()
	for {
		o, err := c.Onion(ctx)
		if err != nil {
			return nil, known && ctx.Err() != nil
		}
		known = true
		for _, x := range o.Addresses {
			others := slices.DeleteFunc(slices.Clone(x.Keepers), func(n cluster.NodeID) bool { return n == o.Node })
			if x.Address == changed.Address && len(others) > 0 {
				return others, true
			}
		}
		if !slices.ContainsFunc(o.Hosts, func(h api.OnionHost) bool { return h.Node != o.Node && h.Health == cluster.Alive }) {
			return nil, true // nobody else could
		}
		select {
		case <-ctx.Done():
			return nil, true
		case <-time.After(keepersPoll):
		}
	}
}

// secretKeyFile is how tor names the key of a service in its directory.
const secretKeyFile = "hs_ed25519_secret_key"

// readKeyFile reads a key, of which it returns the name for people.
func readKeyFile(a *cli.App, name string) (string, []byte, error) {
	if name == "-" {
		text, err := readKey("standard input", os.Stdin)
		return "standard input", text, err
	}
	if info, err := os.Stat(name); err == nil && info.IsDir() {
		name = filepath.Join(name, secretKeyFile)
	}
	f, err := os.Open(name)
	if err != nil {
		return name, nil, cli.NoFile("key file: %s", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return name, nil, cli.Usagef("key file: %s", err)
	}
	if info.Mode().Perm()&0o077 != 0 && info.Mode().IsRegular() {
		a.Note("warning: others may read %s, mode %04o: whoever did can take over the address; chmod 600 it", name, info.Mode().Perm())
	}
	text, err := readKey(name, f)
	return name, text, err
}

func readKey(name string, in io.Reader) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(in, maxKeyFile+1))
	if err != nil {
		return nil, cli.Usagef("key file: %s", err)
	}
	if len(text) == 0 || len(text) > maxKeyFile {
		return nil, cli.Usagef("key file: %s has %d bytes or more, which is not a key of tor", name, len(text))
	}
	return text, nil
}

func exportKey(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use: "export ADDRESS DIR", Short: "Write the key of an address to a new directory", Args: cli.Exactly(2, "ADDRESS and DIR"),
		Long: "DIR gets the files of a tor HiddenServiceDir, mode 0600. Whoever has them can take\n" +
			"over the address.",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.WithClient(cmd.Context(), func(ctx context.Context, c *api.Client) error {
				k, err := c.ExportOnion(ctx, args[0])
				if err != nil {
					return err
				}
				if err := os.Mkdir(args[1], 0o700); err != nil {
					return cli.Failf(cli.ExitFailed, "export: %s", err)
				}
				for name, text := range map[string][]byte{secretKeyFile: k.KeyFile, "hostname": []byte(k.Address + "\n")} {
					if err := os.WriteFile(filepath.Join(args[1], name), text, 0o600); err != nil {
						return cli.Failf(cli.ExitFailed, "export: %s", err)
					}
				}
				a.Note("the key of %s is in %s", k.Address, args[1])
				return nil
			})
		},
	}
}

func grant(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use: "grant ADDRESS NODE", Short: "Give a host the key of an address, so that it can publish", Args: cli.Exactly(2, "ADDRESS and NODE"),
		Long: "The key is sent sealed to the identity of the host. It cannot be taken back: whoever\n" +
			"has seen it can use it for ever.",
		RunE: func(cmd *cobra.Command, args []string) error {
			node, err := cli.Node(args[1:])
			if err != nil {
				return err
			}
			return a.WithClient(cmd.Context(), func(ctx context.Context, c *api.Client) error {
				g, err := c.GrantOnion(ctx, args[0], node)
				if err != nil {
					return err
				}
				return changed(a, g, "%s has the key of %s", g.Node, g.Address)
			})
		},
	}
}

func clients(a *cli.App) *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use: "clients ADDRESS [NAME=KEY...]", Short: "Say which clients may find an address; naming none opens it to all",
		Long: "KEY is a client's public key, as in tor's .auth files: descriptor:x25519:<52\n" +
			"characters>. Every call names all clients. With --file, one NAME=KEY per line.",
		Args: cli.AtLeastOne("an address"),
		RunE: func(cmd *cobra.Command, args []string) error {
			list := args[1:]
			if file != "" {
				text, err := os.ReadFile(file)
				if err != nil {
					return cli.Usagef("--file: %s", err)
				}
				list = append(list, strings.Fields(string(text))...)
			}
			req := api.OnionClientsRequest{Clients: map[string]string{}}
			for _, x := range list {
				name, key, ok := strings.Cut(x, "=")
				if !ok {
					return cli.Usagef("client %q is not NAME=KEY", x)
				}
				req.Clients[name] = key
			}
			return a.WithClient(cmd.Context(), func(ctx context.Context, c *api.Client) error {
				o, err := c.SetOnionClients(ctx, args[0], req)
				if err != nil {
					return err
				}
				return changed(a, o, "%s may find %s", present.Plural(len(req.Clients), "client"), o.Address)
			})
		},
	}
	cmd.Flags().StringVar(&file, "file", "", "file of clients, one per line")
	return cmd
}

func verify(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use: "verify [ADDRESS]", Short: "Ask every directory for the descriptor that clients find", Args: cli.AtMostOne("address"),
		Long: "Without ADDRESS, that of the cluster, if it serves only one. A directory has 15 s to\n" +
			"answer, so this may take as long.",
		RunE: func(cmd *cobra.Command, args []string) error {
			return cli.Patiently(cmd.Context(), a, verifyTime, func(ctx context.Context, c *api.Client) error {
				address, err := oneAddress(ctx, c, args)
				if err != nil {
					return err
				}
				v, err := c.VerifyOnion(ctx, address)
				if err != nil {
					return err
				}
				if err := a.Show(cli.View{Body: v, Items: cli.Items(v.Dirs), Table: func() present.Table { return present.Directories(v) }}); err != nil {
					return err
				}
				if 2*v.Found < len(v.Dirs) || v.Found == 0 {
					return cli.Failf(cli.ExitFailed, "%d of %d directories have the newest descriptor", v.Found, len(v.Dirs)).
						WithHint("`skein onion status` says who publishes, `skein events --kind publish_failed` why not")
				}
				return nil
			})
		},
	}
}

func publish(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use: "publish [ADDRESS]", Short: "Have new descriptors of an address made and posted now", Args: cli.AtMostOne("address"),
		Long: "The host that publishes the address does it, whichever is asked, under its term.\n" +
			"Descriptors are otherwise made when something changes, and every hour; however often\n" +
			"it is asked, no more than one in 5 s on average. Without ADDRESS, that of the cluster,\n" +
			"if it serves only one.",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.WithClient(cmd.Context(), func(ctx context.Context, c *api.Client) error {
				address, err := oneAddress(ctx, c, args)
				if err != nil {
					return err
				}
				p, err := c.PublishOnion(ctx, address)
				if err != nil {
					return err
				}
				return changed(a, p, "%s publishes %s anew, under term %d; `skein onion verify` asks the directories", p.Node, p.Address, p.Term)
			})
		},
	}
}

// oneAddress is the address that is named, or the only one.
func oneAddress(ctx context.Context, c *api.Client, args []string) (string, error) {
	if len(args) > 0 {
		return args[0], nil
	}
	o, err := c.Onion(ctx)
	if err != nil {
		return "", err
	}
	switch n := len(o.Addresses); n {
	case 0:
		return "", cli.Failf(cli.ExitNotFound, "the cluster serves no onion address").WithHint("`skein onion init` makes one")
	case 1:
		return o.Addresses[0].Address, nil
	default:
		return "", cli.Usagef("the cluster serves %d addresses: name one", n).WithHint("see `skein onion status`")
	}
}

func drain(a *cli.App) *cobra.Command {
	var undo bool
	cmd := &cobra.Command{
		Use: "drain [NODE]", Short: "Take a host out of the descriptors while its tor still serves",
		Long: "From the next descriptor on, clients go to the other hosts; those with an older one\n" +
			"are still served. The drain survives restarts, until --undo. Without NODE, this host.\n" +
			"A daemon that stops leaves the descriptors by itself.",
		Args: cli.AtMostOne("host"),
		RunE: func(cmd *cobra.Command, args []string) error {
			node, err := cli.Node(args)
			if err != nil {
				return err
			}
			req := api.OnionDrainRequest{Node: node, Undo: undo}
			return a.WithClient(cmd.Context(), func(ctx context.Context, c *api.Client) error {
				d, err := c.DrainOnion(ctx, req)
				if err != nil {
					return err
				}
				if d.Drained {
					return changed(a, d, "%s leaves the descriptors", d.Node)
				}
				return changed(a, d, "%s is in the descriptors again", d.Node)
			})
		},
	}
	cmd.Flags().BoolVar(&undo, "undo", false, "put it back into the descriptors")
	return cmd
}

func rotate(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use: "rotate", Short: "Give this host a new onion key of its own", Args: cli.Exactly(0, ""),
		Long: "The addresses stay the same. This host has new introduction points within seconds;\n" +
			"the previous ones serve for three more hours and then end, with the connections still\n" +
			"open over them.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.WithClient(cmd.Context(), func(ctx context.Context, c *api.Client) error {
				r, err := c.RotateOnion(ctx)
				if err != nil {
					return err
				}
				return changed(a, r, "%s is replaced", r.From)
			})
		},
	}
}

func remove(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use: "remove ADDRESS", Short: "Stop serving an address; its key stays", Args: cli.Exactly(1, "ADDRESS"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := a.Confirm("stop serving %s, which nobody will find then", args[0]); err != nil {
				return err
			}
			return a.WithClient(cmd.Context(), func(ctx context.Context, c *api.Client) error {
				o, err := c.RemoveOnion(ctx, args[0])
				if err != nil {
					return err
				}
				return changed(a, o, "%s is no longer served", o.Address)
			})
		},
	}
}
