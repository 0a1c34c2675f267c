package main

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"

	"github.com/spf13/cobra"

	"github.com/skein-project/skein/cmd/skein/cli"
	"github.com/skein-project/skein/cmd/skein/gateway"
	"github.com/skein-project/skein/cmd/skein/hosts"
	"github.com/skein-project/skein/cmd/skein/jobs"
	"github.com/skein-project/skein/cmd/skein/loadtest"
	"github.com/skein-project/skein/cmd/skein/local"
	"github.com/skein-project/skein/cmd/skein/man"
	"github.com/skein-project/skein/cmd/skein/workers"
)

// deps is what the commands reach beyond the socket.
type deps struct {
	hosts hosts.Options
	jobs  jobs.Options
	local local.Options
	ended func(stateDir string) error
	// mesh are the networks of the mesh that the host of a state directory is in.
	mesh func(stateDir string) []netip.Prefix
}

// execute runs one command line and returns the exit code.
func execute(ctx context.Context, args []string, t cli.Terminal, d deps) int {
	out := &cli.CheckedWriter{W: t.Out}
	t.Out = out
	a := &cli.App{Terminal: t, Ended: d.ended}
	root := newRoot(a, d)
	root.SetArgs(args)
	root.SetIn(t.In)
	root.SetOut(t.Out)
	root.SetErr(t.Err)
	cli.TidyCompletion(root)
	cmd, err := root.ExecuteContextC(ctx)
	if cli.IsFlagError(err) {
		a.Output = cmp.Or(cli.AskedForm(args), a.Getenv("SKEIN_OUTPUT")) // it may stand behind what is wrong
		err = cli.FlagError(cmd, err)
	}
	if err == nil && out.Err != nil {
		err = fmt.Errorf("write result to stdout: %w", out.Err)
	}
	switch {
	case err == nil:
		return a.Code
	case cmd.CommandPath() == root.Name()+" "+hosts.CheckName:
		return hosts.CheckFailed(ctx, a, err)
	}
	return a.Report(ctx, err)
}

// newRoot makes the command tree.
func newRoot(a *cli.App, d deps) *cobra.Command {
	root := &cobra.Command{
		Use:           "skein",
		Short:         "One lease, one log and many jobs on a mesh of hosts",
		Long:          "skein runs jobs on a mesh of hosts and survives the loss of any of them.\n`skein run` is the daemon; every other command is a client of its socket.",
		SilenceErrors: true,
		SilenceUsage:  true,
		// What stands before the command is for all: `skein --key FILE job run --key TEXT`.
		TraverseChildren: true,
		Args:             cli.CommandsOnly,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if asked, _ := cmd.Flags().GetBool("version"); asked { // it is defined below
				_, err := fmt.Fprintln(a.Out, "skein", d.local.Version)
				return err
			}
			return cmd.Help()
		},
		PersistentPreRunE: func(cmd *cobra.Command, args []string) error {
			if err := a.Settle(cmd); err != nil {
				return err
			}
			return a.OneHost(cmd, args)
		},
	}
	root.Flags().Bool("version", false, "print the version of this program")
	root.SetHelpCommand(cli.HelpCommand())
	root.SetHelpFunc(func(cmd *cobra.Command, _ []string) { a.WriteHelp(cmd.OutOrStdout(), cmd) })
	a.AddFlags(root.PersistentFlags())
	for _, group := range []struct {
		id, title string
		commands  []*cobra.Command
	}{
		{"cluster", "The cluster", append(hosts.Commands(a, d.hosts), workers.Zones(a), workers.Overload(a), gateway.Command(a))},
		{"jobs", "Jobs", append(jobs.Commands(a, d.jobs), loadtest.Command(a, loadtest.Options{Version: d.local.Version, Mesh: d.mesh}))},
		{"host", "This host", append(local.Commands(a, d.local), man.Command(d.local.Version))},
	} {
		root.AddGroup(&cobra.Group{ID: group.id, Title: group.title})
		for _, cmd := range group.commands {
			cmd.GroupID = group.id
			root.AddCommand(cmd)
		}
	}
	a.Complete(root)
	return root
}
