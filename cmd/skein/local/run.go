package local

import (
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/skein-project/skein/cmd/skein/cli"
	"github.com/skein-project/skein/config"
	"github.com/skein-project/skein/daemon"
)

// Hidden commands, by which the daemon starts the running program once more.
const (
	RunnerName   = "runner"     // runs chunks
	sliceName    = "load-slice" // sends the requests of a load test
	watchdogName = "watchdog"   // ends tor when its daemon is gone or hangs
)

func runCommand(a *cli.App, d Options) *cobra.Command {
	var join string
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Run the daemon",
		Long: "Runs until SIGTERM or Ctrl-C; a lease that it holds is then handed over. With --join\n" +
			"it first joins a cluster; on a host that is already a member this does nothing, so it\n" +
			"may stay in the unit. Without --join the unit's credential skein.token is used, if\n" +
			"there is one. A sponsor that does not answer is asked three times, 10 s each, or for\n" +
			"as long as --timeout says.",
		Args: cli.Exactly(0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			file, err := joinFile(join)
			if err != nil {
				return err
			}
			if file == "" {
				file = credential(a, tokenCredential)
			}
			cfg, err := a.Settings(cmd)
			if err != nil {
				return err
			}
			patience := time.Duration(0)
			if a.TimeoutSet {
				patience = a.Timeout
			}
			err = d.Run(cmd.Context(), cfg, daemon.RunOptions{
				Version: d.Version, Join: file, JoinPatience: patience, Stdin: a.In, Stderr: a.Err,
				// The running program even after its file was replaced.
				TorWatchdog: []string{"/proc/self/exe", watchdogName},
				Reload:      func() (config.Config, error) { return a.Settings(cmd) },
			})
			if cmd.Context().Err() != nil && err != nil && cmd.Context().Err() == err { //nolint:errorlint // exactly the asked-for end
				return nil
			}
			return err
		},
	}
	cli.AddSettings(cmd.Flags())
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
	return "", cli.Usagef("--join wants @FILE or -").WithHint("put the token into a file that only you can read; in argv every user could see it")
}

// tokenCredential is the name of the credential by which a unit hands over a
// token: LoadCredential=skein.token, from /etc/credstore/skein.token.
const tokenCredential = "skein.token"

// credential returns the file of a credential of the unit, empty for none.
func credential(a *cli.App, name string) string {
	dir := a.Getenv("CREDENTIALS_DIRECTORY")
	if !filepath.IsAbs(dir) {
		return ""
	}
	file := filepath.Join(dir, name)
	if info, err := os.Stat(file); err != nil || !info.Mode().IsRegular() {
		return ""
	}
	return file
}

func runnerCommand(a *cli.App, d Options) *cobra.Command {
	return &cobra.Command{
		Use: RunnerName, Hidden: true, Short: "Run chunks for a daemon", Args: cli.Exactly(0, ""),
		RunE: func(*cobra.Command, []string) error {
			a.Code = d.Runner(a.In, a.Out, a.Err)
			return nil
		},
	}
}

func sliceCommand(a *cli.App, d Options) *cobra.Command {
	return &cobra.Command{
		Use: sliceName, Hidden: true, Short: "Send the requests of a load test for a daemon", Args: cli.Exactly(0, ""),
		RunE: func(*cobra.Command, []string) error {
			a.Code = d.LoadSlice(a.In, a.Out)
			return nil
		},
	}
}

func watchdogCommand(a *cli.App, d Options) *cobra.Command {
	return &cobra.Command{
		Use: watchdogName + " PID SILENCE", Hidden: true, Short: "End tor when its daemon is gone or hangs", Args: cli.Exactly(2, "PID SILENCE"),
		RunE: func(_ *cobra.Command, args []string) error {
			a.Code = d.Watchdog(args, a.In, a.Err)
			return nil
		},
	}
}
