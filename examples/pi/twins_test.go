package main

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/skein-project/skein/examples/skeinwasm"
)

// TestTwins: the job in C and in Rust gives the bits of the one in Go. A twin whose
// compiler is not there is left out.
func TestTwins(t *testing.T) {
	for _, twin := range []struct {
		compiler string
		args     []string
	}{
		{"cc", []string{"-O2", "-Wall", "-Wextra", "-Werror", "-o", "PROGRAM", "../twins/pi.c"}},
		{"rustc", []string{"-O", "--deny", "warnings", "-o", "PROGRAM", "../twins/pi.rs"}},
	} {
		t.Run(twin.compiler, func(t *testing.T) {
			if _, err := exec.LookPath(twin.compiler); err != nil {
				t.Skip(err)
			}
			program := filepath.Join(t.TempDir(), "pi")
			for i, arg := range twin.args {
				if arg == "PROGRAM" {
					twin.args[i] = program
				}
			}
			if out, err := exec.Command(twin.compiler, twin.args...).CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			run := func(env ...string) ([]byte, error) {
				cmd := exec.Command(program)
				cmd.Env = env
				return cmd.Output()
			}
			for _, c := range []skeinwasm.Chunk{
				{Iterations: 1}, {Iterations: 3, Offset: 7}, {Iterations: 100_003, Offset: 1 << 40, Seed: 42}, {Iterations: 1000, Offset: 5, Seed: 1<<64 - 1},
			} {
				out, err := run(fmt.Sprint("SKEIN_ITERATIONS=", c.Iterations), fmt.Sprint("SKEIN_SEED_OFFSET=", c.Offset), fmt.Sprint("SKEIN_SEED=", c.Seed), "SKEIN_CHUNK_ID=0")
				var got skeinwasm.Result
				if err != nil || json.Unmarshal(out, &got) != nil {
					t.Fatalf("%+v: %v %s", c, err, out)
				}
				if want, err := compute(c, nil); err != nil || got.Iterations != c.Iterations || len(got.Metrics) != 1 || got.Metrics["pi"] != want["pi"] {
					t.Errorf("%+v: %s, in Go %+v", c, out, want)
				}
			}
			for _, bad := range []string{"SKEIN_ITERATIONS=", "SKEIN_ITERATIONS=0", "SKEIN_ITERATIONS=many", "NOTHING=1"} {
				if out, err := run(bad, "SKEIN_SEED_OFFSET=0"); err == nil || len(out) > 0 {
					t.Errorf("%s: %s", bad, out)
				}
			}
			if out, err := run("SKEIN_ITERATIONS=1", "SKEIN_SEED_OFFSET=0"); err != nil {
				t.Errorf("without a seed: %v %s", err, out)
			}
		})
	}
}
