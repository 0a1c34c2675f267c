package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/term"

	"github.com/skein-project/skein/daemon"
)

// version is set by the linker.
var version = "unknown"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends at once
	code := execute(ctx, os.Args[1:], terminal{
		in: os.Stdin, out: os.Stdout, err: os.Stderr, env: os.Environ(),
		outWidth: width(os.Stdout), errWidth: width(os.Stderr),
	}, deps{
		version: version,
		run:     daemon.Run,
		init:    daemon.Init,
		verify:  daemon.VerifyLog,
		demo:    daemon.Demo,
		doctor:  daemon.Doctor,

		exportRoot: daemon.ExportRoot,
		importRoot: daemon.ImportRoot,
		cleanup:    daemon.CleanupNetwork,
		runner:     daemon.Runner,
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
