package cli

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/client"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/config"
)

// Terminal is where a command runs.
type Terminal struct {
	In       io.Reader
	Out, Err io.Writer
	Env      []string
	// Widths in columns; 0: not a terminal.
	OutWidth, ErrWidth int
}

// Getenv is a variable of the environment; of several of one name the last.
func (t Terminal) Getenv(name string) string {
	value := ""
	for _, e := range t.Env {
		if n, v, ok := strings.Cut(e, "="); ok && n == name {
			value = v
		}
	}
	return value
}

// App is one invocation.
type App struct {
	Terminal
	// Global flags.
	Output, socket, color string
	config, key           string // files
	Pins                  []string
	Timeout               time.Duration
	TimeoutSet            bool
	Quiet, Verbose, yes   bool
	Code                  int // exit code without an error
	// Ended says that the host of a state directory was removed or left, nil if it
	// was not, or cannot be known.
	Ended func(stateDir string) error
}

// DefaultTimeout is how long a command waits for the daemon.
const DefaultTimeout = 5 * time.Second

// AddFlags adds the flags that every command takes.
func (a *App) AddFlags(f *pflag.FlagSet) {
	f.StringVarP(&a.Output, "output", "o", "table", "form of the result: table, wide, tsv, csv, json, jsonl, or toml for a job")
	f.StringVar(&a.config, "config", "", "configuration file (default "+config.DefaultPath+", which may be missing)")
	f.StringVar(&a.socket, "socket", "", "socket of the daemon, or https://host:port of hosts, with commas (default: from the configuration)")
	f.StringVar(&a.key, "key", "", "file with a user's private key, which signs what is asked; before the command")
	f.StringSliceVar(&a.Pins, "pin", nil, "key of a host's certificate, sha256:HEX: that host and no other")
	f.DurationVar(&a.Timeout, "timeout", DefaultTimeout, "how long to wait for the daemon")
	f.StringVar(&a.color, "color", "auto", "auto, always or never")
	f.BoolVarP(&a.Quiet, "quiet", "q", false, "no notes and no progress on stderr")
	f.BoolVarP(&a.Verbose, "verbose", "v", false, "more notes on stderr")
	f.BoolVar(&a.yes, "yes", false, "do not ask")
}

// Settle applies the environment and checks the global flags.
func (a *App) Settle(cmd *cobra.Command) error {
	flags := cmd.Root().PersistentFlags()
	for flag, env := range map[string]string{
		"output": "SKEIN_OUTPUT", "timeout": "SKEIN_TIMEOUT", "color": "SKEIN_COLOR", "key": "SKEIN_KEY", "pin": "SKEIN_PIN",
	} {
		if v := a.Getenv(env); v != "" && !flags.Changed(flag) {
			err := flags.Set(flag, v)
			if wrong, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
				return wrongValue("environment "+env, wrong)
			}
			if err != nil {
				return Usagef("environment %s: %s", env, err)
			}
		}
	}
	a.TimeoutSet = flags.Changed("timeout")
	switch a.Output {
	case "table", "wide", "tsv", "csv", "json", "jsonl", "toml":
	default:
		return Usagef("unknown output form %q", a.Output).WithHint("use -o table, wide, tsv, csv, json, jsonl, or toml for a job")
	}
	switch a.color {
	case "auto", "always", "never":
	default:
		return Usagef("--color is %q", a.color).WithHint("use auto, always or never")
	}
	if a.Timeout <= 0 {
		return Usagef("--timeout is %s, want more than 0", a.Timeout)
	}
	return nil
}

// defaultSocket is the socket that commands use unless --socket names one.
func (a *App) defaultSocket() string {
	if s := a.Getenv("SKEIN_SOCKET"); s != "" && a.config == "" {
		return s
	}
	// What is wrong with the configuration is the daemon's affair: one that runs has
	// read it before.
	cfg, _ := a.configured()
	return cmp.Or(cfg.Status.Socket, config.DefaultSocket)
}

// configured is the configuration as far as it can be read, and what is wrong with it.
func (a *App) configured() (config.Config, error) {
	path, asked := a.ConfigPath()
	return config.Load(config.Options{Path: path, Optional: !asked, Env: a.Env})
}

// ConfigPath is the configuration file, and whether somebody asked for it.
func (a *App) ConfigPath() (path string, asked bool) {
	if a.config != "" {
		return a.config, true
	}
	if path := a.Getenv("SKEIN_CONFIG"); path != "" {
		return path, true
	}
	return config.DefaultPath, false
}

// Client is a client of the daemon that --socket or the configuration names, or of
// several of a cluster.
func (a *App) Client() (*api.Client, error) {
	key, err := a.signer(a.target())
	if err != nil {
		return nil, err
	}
	return a.Dial(key)
}

// Elsewhere says that hosts are asked over the network, of which this machine need
// not be one.
func (a *App) Elsewhere() bool { return strings.Contains(a.target(), "://") }

func (a *App) target() string {
	if a.socket != "" {
		return a.socket
	}
	return a.defaultSocket()
}

// here are the commands about the one host that is asked, unless an argument names
// another: of several any could be meant.
var here = map[string]bool{
	"skein leave": true, "skein mesh rotate": true, "skein worker drain": true, "skein log snapshots": true,
	"skein token create": true, "skein token ls": true,
	"skein onion init": true, "skein onion import": true, "skein onion export": true, "skein onion rotate": true, "skein onion drain": true,
}

// OneHost refuses a command about this host where several are to be asked.
func (a *App) OneHost(cmd *cobra.Command, args []string) error {
	path := cmd.CommandPath()
	node := strings.Contains(cmd.Use, "NODE")
	forced := path == "skein group set" && cmd.Flags().Changed("force") // what waits on this host
	if !here[path] && !forced || node && len(args) > 0 || !strings.Contains(a.target(), ",") {
		return nil
	}
	e := Usagef("%s is about one host, and --socket or SKEIN_SOCKET names several", path)
	if node {
		return e.WithHint("name the host: `%s NODE`, or give one --socket", path)
	}
	return e.WithHint("give the --socket of the host that is meant")
}

// Dial is Client with this key; without one it proves nothing.
func (a *App) Dial(key ed25519.PrivateKey) (*api.Client, error) {
	c, err := client.Dial(a.reach(key))
	if err != nil {
		return nil, Usagef("--socket: %s", err)
	}
	if a.Verbose {
		a.Note("asking %s", a.target())
	}
	return c.API(), nil
}

// reach says which hosts are asked, by whom.
func (a *App) reach(key ed25519.PrivateKey) client.Options {
	o := client.Options{Endpoints: strings.Split(a.target(), ","), Pins: a.Pins, Key: key, Once: true}
	if env := a.Getenv("SKEIN_PIN"); env != "" && len(o.Pins) == 0 {
		o.Pins = strings.Split(env, ",")
	}
	return o
}

// WithClient runs f with a client and the timeout of one request.
func (a *App) WithClient(ctx context.Context, f func(ctx context.Context, c *api.Client) error) error {
	c, err := a.Client()
	if err != nil {
		return err
	}
	defer c.Close()
	ctx, cancel := a.Limited(ctx)
	defer cancel()
	return f(ctx, c)
}

// Patiently is App.WithClient with a timeout that --timeout overrides.
func Patiently(ctx context.Context, a *App, timeout time.Duration, f func(context.Context, *api.Client) error) error {
	if !a.TimeoutSet {
		a.Timeout = timeout
	}
	return a.WithClient(ctx, f)
}

// Limited bounds one request.
func (a *App) Limited(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, a.Timeout)
}

// Note writes a line to stderr, unless -q.
func (a *App) Note(format string, args ...any) {
	if !a.Quiet {
		fmt.Fprintf(a.Err, format+"\n", args...)
	}
}

// Once returns a Note that says the same only once in a row, and what has it forget
// what it said.
func (a *App) Once() (note func(format string, args ...any), forget func()) {
	last := ""
	note = func(format string, args ...any) {
		if text := fmt.Sprintf(format, args...); text != last {
			last = text
			a.Note("%s", text)
		}
	}
	return note, func() { last = "" }
}

// Colored reports whether results may carry colour.
func (a *App) Colored() bool {
	switch {
	case a.Getenv("NO_COLOR") != "" || a.color == "never":
		return false
	case a.color == "always":
		return true
	}
	return a.OutWidth > 0 && a.Getenv("TERM") != "dumb"
}

// CommandsOnly refuses words that are no subcommand.
func CommandsOnly(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	e := Usagef("unknown command %q of %s", args[0], cmd.CommandPath())
	var known []string
	for _, sub := range cmd.Commands() {
		if sub.IsAvailableCommand() {
			known = append(append(known, sub.Name()), sub.Aliases...)
		}
	}
	if near := Nearest(args[0], known); near != "" {
		return e.WithHint("did you mean `%s %s`?", cmd.CommandPath(), near)
	}
	return e.WithHint("see `%s --help`", cmd.CommandPath())
}

// Exactly wants n arguments, named for the message.
func Exactly(n int, names string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == n {
			return nil
		}
		if n == 0 {
			return Usagef("%s takes no argument, got %q", cmd.CommandPath(), args[0])
		}
		return Usagef("%s wants %s, got %d arguments", cmd.CommandPath(), names, len(args)).WithHint("see `%s --help`", cmd.CommandPath())
	}
}

// AtMostOne takes one argument or none, named for the message.
func AtMostOne(name string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) <= 1 {
			return nil
		}
		return Usagef("%s takes one %s, got %d arguments", cmd.CommandPath(), name, len(args)).WithHint("see `%s --help`", cmd.CommandPath())
	}
}

// Node reads the name of a host, the first of args; empty: there is none.
func Node(args []string) (cluster.NodeID, error) {
	if len(args) == 0 {
		return "", nil
	}
	node, err := cluster.ParseNodeID(args[0])
	if err != nil {
		return "", Usagef("%s", err)
	}
	return node, nil
}

// AtLeastOne wants a first argument, named for the message.
func AtLeastOne(name string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			return nil
		}
		return Usagef("%s wants %s", cmd.CommandPath(), name).WithHint("see `%s --help`", cmd.CommandPath())
	}
}

// GroupMark is the annotation of commands that only hold others.
const GroupMark = "group"

// Group is a command that only holds others.
func Group(use, short string, subs ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{
		Use: use, Short: short, Args: CommandsOnly, Annotations: map[string]string{GroupMark: "yes"},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(subs...)
	return cmd
}
