package daemon

import (
	"io"

	"github.com/skein-project/skein/load/slice"
	"github.com/skein-project/skein/tor"
	"github.com/skein-project/skein/worker/runner"
)

// Runner is the child process of the wasm executor; the program calls it
// before anything else when its first argument is "runner", and exits with the
// code that it returns.
func Runner(stdin io.Reader, stdout, stderr io.Writer) int {
	return runner.Main(stdin, stdout, stderr)
}

// LoadSlice is the process that sends the requests of a load test from this host; the
// program calls it likewise.
func LoadSlice(stdin io.Reader, stdout io.Writer) int { return slice.Main(stdin, stdout) }

// TorWatchdog is the process beside tor that ends it; the program calls it
// likewise.
func TorWatchdog(args []string, stdin io.Reader, stderr io.Writer) int {
	return tor.Watchdog(args, stdin, stderr)
}
