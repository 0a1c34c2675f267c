package daemon

import (
	"io"

	"github.com/skein-project/skein/worker/runner"
)

// Runner is the child process of the wasm executor; the program calls it
// before anything else when its first argument is "runner", and exits with the
// code that it returns.
func Runner(stdin io.Reader, stdout, stderr io.Writer) int {
	return runner.Main(stdin, stdout, stderr)
}
