package main

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/skein-project/skein/daemon"
)

// runnerName is the hidden command that runs chunks.
const runnerName = "runner"

func (a *app) runCommand() *cobra.Command {
	var set settings
	var join string
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Run the daemon",
		Long: "Runs the daemon until SIGTERM or Ctrl-C; a lease that it holds is handed over.\n" +
			"With --join it first joins a cluster; on a host that is a member already this\ndoes nothing, so it may stay in the unit.",
		Args: exactly(0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			file, err := joinFile(join)
			if err != nil {
				return err
			}
			cfg, err := set.load(a, cmd)
			if err != nil {
				return err
			}
			err = a.run(cmd.Context(), cfg, daemon.RunOptions{
				Version: a.version, Join: file, Stdin: a.in, Stderr: a.err,
			})
			if cmd.Context().Err() != nil && err != nil && cmd.Context().Err() == err { //nolint:errorlint // exactly the asked-for end
				return nil
			}
			return err
		},
	}
	set.flags(cmd.Flags())
	cmd.Flags().StringVar(&join, "join", "", "token of an invite: @FILE, or - for standard input")
	return cmd
}

// joinFile returns the file of --join. Tokens themselves never travel in argv,
// where every user of the machine could read them.
func joinFile(arg string) (string, error) {
	switch file, at := strings.CutPrefix(arg, "@"); {
	case arg == "" || arg == "-":
		return arg, nil
	case at && file != "":
		return file, nil
	}
	return "", usagef("--join wants @FILE or -").hint("put the token into a file that only you can read; in argv every user could see it")
}

func (a *app) runnerCommand() *cobra.Command {
	return &cobra.Command{
		Use: runnerName, Hidden: true, Short: "Run chunks for a daemon", Args: exactly(0, ""),
		RunE: func(*cobra.Command, []string) error {
			a.code = a.runner(a.in, a.out, a.err)
			return nil
		},
	}
}
