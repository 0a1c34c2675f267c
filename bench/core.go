package main

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"

	"github.com/skein-project/skein/bench/suite"
)

// decisions takes the choice of a worker among 10 000 from the benchmark of the
// plan, which measures a binary heap of the same nodes in the same rounds.
func decisions(ctx context.Context, s *suite.Suite) error {
	s.Progress("choice of a worker, %d runs", s.Size.Rounds)
	binary := filepath.Join(s.Dir, "plan.test")
	build := exec.CommandContext(ctx, "go", "test", "-c", "-o", binary, "./scheduler/plan")
	build.Dir = ".."
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build the benchmark: %w: %s", err, out)
	}
	run := exec.CommandContext(ctx, binary, "-test.run", "xxx", "-test.bench", "^BenchmarkChoose$",
		"-test.benchtime", s.Size.Burst.String(), "-test.count", strconv.Itoa(s.Size.Rounds))
	run.Dir = filepath.Join("..", "scheduler", "plan")
	out, err := run.CombinedOutput()
	if err != nil {
		return fmt.Errorf("run the benchmark: %w: %s", err, out)
	}
	row := suite.Series{
		Name: "choice among 10 000 nodes, assign and complete", Unit: "ops/s", Digest: suite.Median, Target: suite.Want("ratio", ">=", 1),
		With: "binary heap, of pointers with their places, keyed as the plan's queue is",
		Ours: reported(out, "queue-ops/s"), Peer: reported(out, "heap-ops/s"),
	}
	if len(row.Ours) == 0 || len(row.Ours) != len(row.Peer) {
		return fmt.Errorf("the benchmark printed no figures: %s", out)
	}
	s.Add(row)
	return nil
}

// reported lists the figures of a unit in the output of a benchmark.
func reported(out []byte, unit string) (v []float64) {
	for _, m := range regexp.MustCompile(`([0-9.e+-]+) `+regexp.QuoteMeta(unit)).FindAllSubmatch(bytes.TrimSpace(out), -1) {
		if f, err := strconv.ParseFloat(string(m[1]), 64); err == nil {
			v = append(v, f)
		}
	}
	return v
}
