package gateway

import (
	"context"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/skein-project/skein/access"
	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/cmd/skein/cli"
	"github.com/skein-project/skein/present"
)

const maxKeyFile = 4096 // bytes

func workerAdd(a *cli.App) *cobra.Command {
	var key, file string
	var req api.OutsideWorkerRequest
	cmd := &cobra.Command{
		Use: "add --owner OWNER (--key KEY | --key-file FILE)", Short: "Let a worker in that no host runs, or say anew whose it is",
		Long: "The worker is known by its Ed25519 key, from which its id follows; give the public half.\n" +
			"It is a stranger: given only jobs that permit its owner, and public ones with\n" +
			"permission.outside, and believed only where others agree with it. With --trusted it is\n" +
			"given what a host is given, and believed as one. Every call says all that holds of it.",
		Example: "  skein gateway worker add --owner user:ann --name attic --key-file attic.pub",
		Args:    cli.Exactly(0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if (key == "") == (file == "") {
				return cli.Usagef("want either --key or --key-file").WithHint("the public half of the worker's key, in base64 or PEM")
			}
			req.Key = key
			if file != "" {
				var err error
				if req.Key, err = readKey(a, file); err != nil {
					return err
				}
			}
			public, err := access.ParsePublicKey([]byte(req.Key))
			if err != nil {
				return cli.Usagef("key: %s", err)
			}
			b := event.WorkerEnrolled{Worker: cluster.OutsideID(public), Key: public, Owner: req.Owner, Name: req.Name, Trusted: req.Trusted, Zone: req.Zone}
			if err := b.Check(); err != nil {
				return cli.Usagef("%s", err)
			}
			return a.WithClient(cmd.Context(), func(ctx context.Context, c *api.Client) error {
				out, err := c.EnrolWorker(ctx, req)
				if err != nil {
					return err
				}
				return show(a, out, func() {
					trust := "a stranger"
					if out.Worker.Trusted {
						trust = "trusted as a host is"
					}
					a.Note("outside worker %s is %s's, %s, in zone %s", out.Worker.Worker, out.Worker.Owner, trust, out.Worker.Zone)
				})
			})
		},
	}
	cmd.Flags().StringVar(&key, "key", "", "the public half of its key, in base64")
	cmd.Flags().StringVar(&file, "key-file", "", "the same as a file, base64 or PEM, or - for standard input")
	cmd.Flags().StringVar(&req.Owner, "owner", "", "whose it is, like user:ann")
	cmd.Flags().StringVar(&req.Name, "name", "", "what its owner calls it")
	cmd.Flags().BoolVar(&req.Trusted, "trusted", false, "give it what a host is given, and believe it as one")
	cmd.Flags().StringVar(&req.Zone, "zone", "", "where it is; without it: outside")
	return cmd
}

// show writes what was changed as programs read it, or says it to people.
func show(a *cli.App, body any, say func()) error {
	if a.Output == "json" || a.Output == "jsonl" {
		return a.Show(cli.View{Body: body})
	}
	say()
	return nil
}

func readKey(a *cli.App, name string) (string, error) {
	in := a.In
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return "", cli.Usagef("--key-file: %s", err)
		}
		defer f.Close()
		in = f
	}
	text, err := io.ReadAll(io.LimitReader(in, maxKeyFile))
	if err != nil {
		return "", cli.Usagef("--key-file: %s", err)
	}
	return string(text), nil
}

func workerList(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use: "ls", Aliases: []string{"list"}, Short: "List the workers that no host runs, those that were revoked included", Args: cli.Exactly(0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.WithClient(cmd.Context(), func(ctx context.Context, c *api.Client) error {
				list, err := c.OutsideWorkersPage(ctx, api.Page{})
				for err == nil && list.Next != "" {
					var more api.OutsideWorkers
					if more, err = c.OutsideWorkersPage(ctx, api.Page{After: string(list.Next)}); err == nil {
						list.Workers, list.Next = append(list.Workers, more.Workers...), more.Next
					}
				}
				if err != nil {
					return err
				}
				return a.Show(cli.View{Body: list, Items: cli.Items(list.Workers), Table: func() present.Table { return present.OutsideWorkers(list) }})
			})
		},
	}
}

func workerRevoke(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use: "revoke WORKER", Short: "Shut an outside worker out for ever", Args: cli.Exactly(1, "the id of an outside worker"),
		Long: "Its key is never let in again, whoever enrols it. To let the same computer in later, enrol\n" +
			"it under a new key.",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.WithClient(cmd.Context(), func(ctx context.Context, c *api.Client) error {
				out, err := c.RevokeWorker(ctx, cluster.NodeID(args[0]))
				if err != nil {
					return err
				}
				return show(a, out, func() { a.Note("outside worker %s is shut out for ever", args[0]) })
			})
		},
	}
}
