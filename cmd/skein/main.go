package main

import (
	"cmp"
	"context"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/term"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cmd/skein/cli"
	"github.com/skein-project/skein/cmd/skein/hosts"
	"github.com/skein-project/skein/cmd/skein/jobs"
	"github.com/skein-project/skein/cmd/skein/local"
	"github.com/skein-project/skein/config"
	"github.com/skein-project/skein/daemon"
	"github.com/skein-project/skein/doctor"
	"github.com/skein-project/skein/internal/demo"
	"github.com/skein-project/skein/internal/demo/scaleout"
	"github.com/skein-project/skein/offline"
	"github.com/skein-project/skein/outside"
)

// Set by the linker. chunkRunner is another build of this program that runs the
// chunks, for daemons that are built with the race detector: it has nothing to
// detect in machine code and makes that ten times slower.
var (
	version     = "unknown"
	chunkRunner = ""
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends at once
	code := execute(ctx, os.Args[1:], cli.Terminal{
		In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Env: os.Environ(),
		OutWidth: width(os.Stdout), ErrWidth: width(os.Stderr),
	}, deps{
		hosts: hosts.Options{
			PlanRecovery: offline.PlanRecovery,
			RecoverLease: offline.RecoverLease,
		},
		jobs: jobs.Options{
			Local: func(ctx context.Context, j offline.LocalJob) (api.Job, error) {
				if chunkRunner != "" {
					j.RunnerArgv = []string{chunkRunner, local.RunnerName}
				}
				return offline.RunLocal(ctx, j)
			},
		},
		local: local.Options{
			Version: version,
			Run: func(ctx context.Context, cfg config.Config, o daemon.RunOptions) error {
				if chunkRunner != "" {
					o.RunnerArgv = []string{chunkRunner, local.RunnerName}
				}
				if os.Getenv("GOGC") == "" { // else that is what the operator wants
					limitGarbage()
				}
				return daemon.Run(ctx, cfg, o)
			},
			Work: func(ctx context.Context, o outside.Options) error {
				if chunkRunner != "" {
					o.RunnerArgv = []string{chunkRunner, local.RunnerName}
				}
				return outside.Run(ctx, o)
			},
			Init:       offline.Init,
			OnlyRoot:   offline.OnlyRoot,
			Verify:     offline.VerifyLog,
			Damaged:    offline.LogDamaged,
			Repair:     offline.RepairLog,
			Export:     offline.ExportLog,
			Replay:     offline.ReplayLog,
			Heads:      offline.LogHeads,
			Demo:       demo.Run,
			DemoOnion:  demo.RunOnion,
			DemoShow:   demo.Show,
			Doctor:     doctor.Alone,
			ExportRoot: offline.ExportRoot,
			ImportRoot: offline.ImportRoot,
			Cleanup:    offline.CleanupNetwork,
			Runner:     daemon.Runner,
			LoadSlice:  daemon.LoadSlice,
			Watchdog:   daemon.TorWatchdog,

			DemoScale: func(ctx context.Context, o demo.Options, workers int) error {
				all := scaleout.Options{Options: o, Workers: workers}
				if chunkRunner != "" {
					all.RunnerArgv = []string{chunkRunner, local.RunnerName}
				}
				_, err := scaleout.Run(ctx, all)
				return err
			},
		},
		ended: doctor.Ended,
		mesh:  doctor.MeshNetworks,
	})
	stop()
	os.Exit(code)
}

// width is the number of columns of f, 0 if it is no terminal. A terminal that does
// not say, as a serial console, has 80.
func width(f *os.File) int {
	w, _, err := term.GetSize(int(f.Fd()))
	if err != nil {
		return 0
	}
	return cmp.Or(w, 80)
}
