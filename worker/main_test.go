package worker

import (
	"os"
	"testing"

	"github.com/skein-project/skein/worker/runner"
)

// TestMain lets the test binary stand in for the daemon's program as a runner.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "runner" {
		os.Exit(runner.Main(os.Stdin, os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}
