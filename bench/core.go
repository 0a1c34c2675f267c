package main

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
)

// decisions takes the choice of a worker among 10 000 from the benchmark of the
// plan, which measures a binary heap of the same nodes in the same rounds.
func decisions(ctx context.Context, s *suite) error {
	s.progress("choice of a worker, %d runs", s.size.rounds)
	binary := filepath.Join(s.dir, "plan.test")
	build := exec.CommandContext(ctx, "go", "test", "-c", "-o", binary, "./scheduler/plan")
	build.Dir = ".."
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build the benchmark: %w: %s", err, out)
	}
	run := exec.CommandContext(ctx, binary, "-test.run", "xxx", "-test.bench", "^BenchmarkChoose$",
		"-test.benchtime", s.size.burst.String(), "-test.count", strconv.Itoa(s.size.rounds))
	run.Dir = filepath.Join("..", "scheduler", "plan")
	out, err := run.CombinedOutput()
	if err != nil {
		return fmt.Errorf("run the benchmark: %w: %s", err, out)
	}
	row := series{
		name: "choice among 10 000 nodes, assign and complete", unit: "ops/s", digest: median, target: target{"ratio", ">=", 1},
		with: "binary heap, of pointers with their places, keyed as the plan's queue is",
		ours: reported(out, "queue-ops/s"), peer: reported(out, "heap-ops/s"),
	}
	if len(row.ours) == 0 || len(row.ours) != len(row.peer) {
		return fmt.Errorf("the benchmark printed no figures: %s", out)
	}
	s.add(row)
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
