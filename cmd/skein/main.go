package main

import (
	"context"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"golang.org/x/term"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/config"
	"github.com/skein-project/skein/daemon"
)

// Set by the linker. chunkRunner is another build of this program that runs the
// chunks, for daemons that are built with the race detector: it has nothing to
// detect in machine code and makes that ten times slower.
var (
	version     = "unknown"
	chunkRunner = ""
)

// gcPercent is how much garbage a daemon leaves, in percent of what it keeps:
// some tens of megabytes, for which writers and syncs wait less often for a
// processor. The environment variable GOGC overrides it.
const gcPercent = 400

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends at once
	code := execute(ctx, os.Args[1:], terminal{
		in: os.Stdin, out: os.Stdout, err: os.Stderr, env: os.Environ(),
		outWidth: width(os.Stdout), errWidth: width(os.Stderr),
	}, deps{
		version: version,
		run: func(ctx context.Context, cfg config.Config, o daemon.RunOptions) error {
			if chunkRunner != "" {
				o.RunnerArgv = []string{chunkRunner, runnerName}
			}
			if os.Getenv("GOGC") == "" {
				debug.SetGCPercent(gcPercent)
			}
			return daemon.Run(ctx, cfg, o)
		},
		init:      daemon.Init,
		verify:    daemon.VerifyLog,
		repair:    daemon.RepairLog,
		export:    daemon.ExportLog,
		replay:    daemon.ReplayLog,
		heads:     daemon.LogHeads,
		demo:      daemon.Demo,
		demoOnion: daemon.DemoOnion,
		local: func(ctx context.Context, j daemon.LocalJob) (api.Job, error) {
			if chunkRunner != "" {
				j.RunnerArgv = []string{chunkRunner, runnerName}
			}
			return daemon.RunLocal(ctx, j)
		},
		doctor: daemon.Doctor,

		exportRoot: daemon.ExportRoot,
		importRoot: daemon.ImportRoot,

		recoverLease: daemon.RecoverLease,
		cleanup:      daemon.CleanupNetwork,
		runner:       daemon.Runner,
	})
	stop()
	os.Exit(code)
}

// width is the number of columns of f, 0 if it is no terminal.
func width(f *os.File) int {
	w, _, err := term.GetSize(int(f.Fd()))
	if err != nil {
		return 0
	}
	return w
}
