package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/config"
	"github.com/skein-project/skein/daemon"
)

// deps is what the commands reach beyond the socket.
type deps struct {
	version   string
	run       func(context.Context, config.Config, daemon.RunOptions) error
	init      func(config.Config, daemon.InitOptions) error
	verify    func(ctx context.Context, stateDir string) (api.LogVerify, error)
	repair    func(ctx context.Context, stateDir string, peer cluster.NodeID, acceptLoss bool) (api.LogRepair, error)
	export    func(ctx context.Context, stateDir string, o daemon.ExportOptions, w io.Writer) (api.ExportEnd, error)
	replay    func(ctx context.Context, stateDir string, o daemon.ReplayOptions) (api.LogReplay, error)
	heads     func(stateDir string) ([]cluster.Head, error)
	demo      func(context.Context, daemon.DemoOptions) (daemon.DemoResult, error)
	demoOnion func(context.Context, daemon.DemoOptions) (daemon.OnionDemoResult, error)
	doctor    func(context.Context, config.Config) []api.Finding
	// local runs a job on this machine alone.
	local func(context.Context, daemon.LocalJob) (api.Job, error)
	// exportRoot copies the root key to a file, or moves it there.
	exportRoot func(cfg config.Config, out string, remove bool) error
	importRoot func(cfg config.Config, in string) error
	// recoverLease makes this host the only voter.
	recoverLease func(cfg config.Config, actor string) (daemon.Recovery, error)
	// cleanup removes what a killed daemon left behind, and says whether
	// there was something.
	cleanup func(context.Context, config.Config) (bool, error)
	// runner is the child process that runs chunks; it returns its exit code.
	runner func(stdin io.Reader, stdout, stderr io.Writer) int
}

// terminal is where a command runs.
type terminal struct {
	in       io.Reader
	out, err io.Writer
	env      []string
	// Widths in columns; 0: not a terminal.
	outWidth, errWidth int
}

func (t terminal) getenv(name string) string {
	value := ""
	for _, e := range t.env {
		if n, v, ok := strings.Cut(e, "="); ok && n == name {
			value = v
		}
	}
	return value
}

// app is one invocation.
type app struct {
	terminal
	deps
	// Global flags.
	output, socket, color string
	config                string // file
	timeout               time.Duration
	timeoutSet            bool
	quiet, verbose, yes   bool
	code                  int // exit code without an error
}

const defaultTimeout = 5 * time.Second

// execute runs one command line and returns the exit code.
func execute(ctx context.Context, args []string, t terminal, d deps) int {
	out := &checkedWriter{w: t.out}
	t.out = out
	a := &app{terminal: t, deps: d}
	root := a.root()
	root.SetArgs(args)
	root.SetIn(t.in)
	root.SetOut(t.out)
	root.SetErr(t.err)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil && out.err != nil {
		err = fmt.Errorf("write result to stdout: %w", out.err)
	}
	switch {
	case err == nil:
		return a.code
	case cmd.CommandPath() == root.Name()+" "+checkName:
		return a.checkFailed(err)
	}
	return a.report(ctx, err)
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:           "skein",
		Short:         "One lease, one log and many jobs on a mesh of hosts",
		Long:          "skein runs jobs on a mesh of hosts and survives the loss of any of them.\n`skein run` is the daemon; every other command is a client of its socket.",
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          commandsOnly,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			return a.settle(cmd)
		},
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usagef("%s", err).hint("see `%s --help`", cmd.CommandPath())
	})
	f := root.PersistentFlags()
	f.StringVarP(&a.output, "output", "o", "table", "form of the result: table, wide, tsv, csv, json, jsonl, or toml for a job")
	f.StringVar(&a.config, "config", "", "configuration file (default "+config.DefaultPath+", which may be missing)")
	f.StringVar(&a.socket, "socket", "", "socket of the daemon, or host:port (default: of the configuration)")
	f.DurationVar(&a.timeout, "timeout", defaultTimeout, "how long to wait for the daemon")
	f.StringVar(&a.color, "color", "auto", "auto, always or never")
	f.BoolVarP(&a.quiet, "quiet", "q", false, "no notes and no progress on stderr")
	f.BoolVarP(&a.verbose, "verbose", "v", false, "more notes on stderr")
	f.BoolVar(&a.yes, "yes", false, "do not ask")
	root.AddCommand(
		a.initCommand(), a.runCommand(), a.tokenCommand(), a.statusCommand(), a.membersCommand(),
		a.leaseCommand(), a.meshCommand(), a.jobCommand(), a.workersCommand(), a.groupsCommand(), a.workerCommand(), a.onionCommand(), a.eventsCommand(), a.waitCommand(),
		a.checkCommand(), a.doctorCommand(), a.leaveCommand(), a.removeCommand(), a.rootCommand(), a.netCommand(),
		a.configCommand(), a.logCommand(), a.versionCommand(), a.demoCommand(), a.runnerCommand(),
	)
	return root
}

// settle applies the environment and checks the global flags.
func (a *app) settle(cmd *cobra.Command) error {
	flags := cmd.Root().PersistentFlags()
	for flag, env := range map[string]string{"output": "SKEIN_OUTPUT", "timeout": "SKEIN_TIMEOUT", "color": "SKEIN_COLOR"} {
		if v := a.getenv(env); v != "" && !flags.Changed(flag) {
			if err := flags.Set(flag, v); err != nil {
				return usagef("environment %s: %s", env, err)
			}
		}
	}
	a.timeoutSet = flags.Changed("timeout")
	switch a.output {
	case "table", "wide", "tsv", "csv", "json", "jsonl", "toml":
	default:
		return usagef("unknown output form %q", a.output).hint("use -o table, wide, tsv, csv, json, jsonl, or toml for a job")
	}
	switch a.color {
	case "auto", "always", "never":
	default:
		return usagef("--color is %q", a.color).hint("use auto, always or never")
	}
	if a.timeout <= 0 {
		return usagef("--timeout is %s, want more than 0", a.timeout)
	}
	return nil
}

// defaultSocket is the socket that commands use unless --socket names one.
func (a *app) defaultSocket() string {
	if s := a.getenv("SKEIN_SOCKET"); s != "" && a.config == "" {
		return s
	}
	path, _ := a.configPath()
	// What is wrong with the configuration is the daemon's affair.
	cfg, err := config.Load(config.Options{Path: path, Optional: true, Env: a.env})
	if err != nil {
		return config.DefaultSocket
	}
	return cfg.Status.Socket
}

// configPath is the configuration file, and whether somebody asked for it.
func (a *app) configPath() (path string, asked bool) {
	if a.config != "" {
		return a.config, true
	}
	if path := a.getenv("SKEIN_CONFIG"); path != "" {
		return path, true
	}
	return config.DefaultPath, false
}

func (a *app) client() (*api.Client, error) {
	target := a.socket
	if target == "" {
		target = a.defaultSocket()
	}
	c, err := api.Dial(target)
	if err != nil {
		return nil, usagef("--socket: %s", err)
	}
	if a.verbose {
		a.note("asking %s", target)
	}
	return c, nil
}

// withClient runs f with a client and the timeout of one request.
func (a *app) withClient(ctx context.Context, f func(ctx context.Context, c *api.Client) error) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	defer c.Close()
	ctx, cancel := a.limited(ctx)
	defer cancel()
	return f(ctx, c)
}

// limited bounds one request.
func (a *app) limited(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, a.timeout)
}

// note writes a line to stderr, unless -q.
func (a *app) note(format string, args ...any) {
	if !a.quiet {
		fmt.Fprintf(a.err, format+"\n", args...)
	}
}

// colored reports whether results may carry colour.
func (a *app) colored() bool {
	switch {
	case a.getenv("NO_COLOR") != "" || a.color == "never":
		return false
	case a.color == "always":
		return true
	}
	return a.outWidth > 0 && a.getenv("TERM") != "dumb"
}

// commandsOnly refuses words that are no subcommand.
func commandsOnly(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	e := usagef("unknown command %q of %s", args[0], cmd.CommandPath())
	cmd.SuggestionsMinimumDistance = 2
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		return e.hint("did you mean `%s %s`?", cmd.CommandPath(), near[0])
	}
	return e.hint("see `%s --help`", cmd.CommandPath())
}

// exactly wants n arguments, named for the message.
func exactly(n int, names string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == n {
			return nil
		}
		if n == 0 {
			return usagef("%s takes no argument, got %q", cmd.CommandPath(), args[0])
		}
		return usagef("%s wants %s, got %d arguments", cmd.CommandPath(), names, len(args)).hint("see `%s --help`", cmd.CommandPath())
	}
}

// groupMark is the annotation of commands that only hold others.
const groupMark = "group"

// group is a command that only holds others.
func group(use, short string, subs ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{
		Use: use, Short: short, Args: commandsOnly, Annotations: map[string]string{groupMark: "yes"},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(subs...)
	return cmd
}
