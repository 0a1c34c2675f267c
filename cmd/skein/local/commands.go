package local

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/cmd/skein/cli"
	"github.com/skein-project/skein/config"
	"github.com/skein-project/skein/daemon"
	"github.com/skein-project/skein/internal/demo"
	"github.com/skein-project/skein/offline"
	"github.com/skein-project/skein/outside"
)

// Options is what the commands on this host reach: its daemon, and its
// state directory while no daemon runs.
type Options struct {
	Version   string
	Run       func(context.Context, config.Config, daemon.RunOptions) error
	Work      func(context.Context, outside.Options) error
	Init      func(config.Config, offline.InitOptions) error
	OnlyRoot  func(stateDir, user string) bool
	Verify    func(ctx context.Context, stateDir string) (api.LogVerify, error)
	Damaged   func(ctx context.Context, stateDir string) bool
	Repair    func(ctx context.Context, stateDir string, peer cluster.NodeID, acceptLoss bool) (api.LogRepair, error)
	Export    func(ctx context.Context, stateDir string, o offline.ExportOptions, w io.Writer) (api.ExportEnd, error)
	Replay    func(ctx context.Context, stateDir string, o offline.ReplayOptions) (api.LogReplay, error)
	Heads     func(stateDir string) ([]event.Head, error)
	Demo      func(context.Context, demo.Options) (demo.Result, error)
	DemoOnion func(context.Context, demo.Options) (demo.OnionResult, error)
	DemoShow  func(context.Context, demo.Options, demo.Page) error
	DemoScale func(ctx context.Context, o demo.Options, workers int) error
	Doctor    func(ctx context.Context, cfg config.Config, unasked bool) []api.Finding
	// ExportRoot copies the root key to a file, or moves it there.
	ExportRoot func(cfg config.Config, out string, remove bool) error
	ImportRoot func(cfg config.Config, in string) error
	// Cleanup removes what a killed daemon left behind, and says whether
	// there was something.
	Cleanup func(context.Context, config.Config) (bool, error)
	// Runner is the child process that runs chunks; it returns its exit code.
	Runner func(stdin io.Reader, stdout, stderr io.Writer) int
	// LoadSlice is the child process of a load test; it returns its exit code.
	LoadSlice func(stdin io.Reader, stdout io.Writer) int
	// Watchdog is the child process that ends tor; it returns its exit code.
	Watchdog func(args []string, stdin io.Reader, stderr io.Writer) int
}

// Commands are the commands that work on this host.
func Commands(a *cli.App, d Options) []*cobra.Command {
	return []*cobra.Command{
		initCommand(a, d),
		runCommand(a, d),
		workCommand(a, d),
		runnerCommand(a, d),
		sliceCommand(a, d),
		watchdogCommand(a, d),
		configCommand(a),
		logCommand(a, d),
		rootCommand(a, d),
		netCommand(a, d),
		doctorCommand(a, d),
		explainCommand(a),
		demoCommand(a, d),
		uiCommand(a),
		versionCommand(a, d),
	}
}
