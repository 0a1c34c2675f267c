package demo

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/skein-project/skein/config"
	"github.com/skein-project/skein/daemon"
)

// What makes the test program a daemon whose wall clock is ahead by what a file says: see
// later.
const (
	laterFile   = "SKEIN_DEMO_LATER"
	laterRunner = "SKEIN_DEMO_RUNNER"
)

// laterDaemon is `skein run` with that clock.
func laterDaemon(args []string) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	flags := flag.NewFlagSet("run", flag.ContinueOnError)
	path, join := flags.String("config", "", ""), flags.String("join", "", "")
	err := flags.Parse(args)
	if err == nil {
		var cfg config.Config
		if cfg, err = config.Load(config.Options{Path: *path, Env: os.Environ()}); err == nil {
			err = daemon.Run(ctx, cfg, daemon.RunOptions{
				Version: "test", Join: strings.TrimPrefix(*join, "@"), Stderr: os.Stderr,
				RunnerArgv: []string{os.Getenv(laterRunner), "runner"}, Wall: later(ctx, os.Getenv(laterFile)),
			})
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// later is a clock that is ahead by what a file says, which is looked at often.
func later(ctx context.Context, file string) func() time.Time {
	var ahead atomic.Int64
	look := func() {
		text, err := os.ReadFile(file)
		if d, parseErr := time.ParseDuration(string(text)); err == nil && parseErr == nil {
			ahead.Store(int64(d))
		}
	}
	look()
	go func() {
		for tick := time.NewTicker(20 * time.Millisecond); ctx.Err() == nil; <-tick.C {
			look()
		}
	}()
	return func() time.Time { return time.Now().Round(0).Add(time.Duration(ahead.Load())) }
}
