//go:build linux

// Package netns_test runs real daemons in network namespaces of their own, on
// a bridge with loss, cuts and forgers: what an operator would see, end to
// end. The daemons are those of SKEIN_BIN, else built for the run.
//
// SKEIN_PROVE=1 runs the full durations and host counts and holds the figures
// to their bounds; else durations are reduced, and bounds are five times as
// wide because the daemons then run with the race detector, on as few as two
// processors that other tests use too.
package netns_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/skein-project/skein/internal/require"
)

// exe is the skein program.
var exe string

func TestMain(m *testing.M) {
	if role := os.Getenv(benchRole); role != "" {
		os.Exit(benchHelper(role))
	}
	if file := os.Getenv(clockFile); file != "" {
		os.Exit(clockDaemon(file, os.Args[1:]))
	}
	// Daemons that were built with the race detector end at the first race.
	os.Setenv("GORACE", "halt_on_error=1") //nolint:errcheck,usetesting // cannot fail; for children
	code := func() int {
		if dir := os.Getenv("SKEIN_BIN"); dir != "" {
			exe = filepath.Join(dir, "skein")
			return m.Run()
		}
		if require.Missing(require.Netns) != nil {
			return m.Run() // every test skips
		}
		dir, err := os.MkdirTemp("", "skein-bin-")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(dir) //nolint:errcheck // a leftover in the temporary directory
		exe = filepath.Join(dir, "skein")
		if out, err := exec.Command("go", "build", "-o", exe, "../../cmd/skein").CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "build skein: %v\n%s", err, out)
			return 1
		}
		return m.Run()
	}()
	os.Exit(code)
}

// backend is the mesh backend of the daemons where a test does not name one:
// TUN, or SKEIN_NETNS_BACKEND.
func backend() string {
	if b := os.Getenv("SKEIN_NETNS_BACKEND"); b != "" {
		return b
	}
	return backendTUN
}

// proving is whether the full counts run.
func proving() bool { return os.Getenv("SKEIN_PROVE") != "" }

// parallel lets a test run beside others, unless figures are to be measured.
func parallel(t *testing.T) {
	t.Helper()
	if !proving() {
		t.Parallel()
	}
}

// pick is full when proving, else reduced.
func pick[T any](reduced, full T) T {
	if proving() {
		return full
	}
	return reduced
}

// bound is the longest that something may take.
func bound(d time.Duration) time.Duration { return pick(5*d, d) }

// within fails the test if took exceeds the bound of d, and logs the figure.
func within(t *testing.T, what string, took, d time.Duration) {
	t.Helper()
	t.Logf("%s: %.2f s (bound %s)", what, took.Seconds(), bound(d))
	if took > bound(d) {
		t.Errorf("%s took %.2f s, at most %s", what, took.Seconds(), bound(d))
	}
}
