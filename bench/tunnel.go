package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/skein-project/skein/bench/suite"
)

// tunnelRuns is how often the benchmark of the mesh runs; each run has seven
// rounds in which skein and the peer take turns.
const tunnelRuns = 5

// tunnel takes the throughput of the mesh beside plain wireguard-go from the
// benchmark of the end-to-end tests: it needs network namespaces, and so
// processes of its own.
func tunnel(ctx context.Context, s *suite.Suite) error {
	if !s.Size.Tunnel {
		return nil
	}
	s.Progress("throughput of the mesh, %d runs", tunnelRuns)
	binary := filepath.Join(s.Dir, "netns.test")
	build := exec.CommandContext(ctx, "go", "test", "-c", "-o", binary, "./test/netns")
	build.Dir = ".."
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build the benchmark: %w: %s", err, out)
	}
	run := exec.CommandContext(ctx, binary, "-test.run", "xxx", "-test.v", "-test.bench", "Throughput", "-test.benchtime", "1x",
		"-test.count", strconv.Itoa(tunnelRuns), "-test.timeout", "10m")
	run.Dir = filepath.Join("..", "test", "netns")
	run.Env = append(os.Environ(), "SKEIN_BIN="+s.Dir, "REQUIRE=") // no daemon is started
	out, err := run.CombinedOutput()
	if err != nil {
		return fmt.Errorf("run the benchmark: %w: %s", err, out)
	}
	for _, backend := range []string{"tun", "netstack"} {
		row := suite.Series{
			Name: "mesh throughput, " + backend, Unit: "Gbit/s", Digest: suite.Median, Target: suite.Want("ratio", ">=", 0.95),
			With: "plain wireguard-go through a TUN device, the same version",
		}
		row.Peer, row.Ours = throughputs(out, backend)
		if len(row.Ours) == 0 || len(row.Ours) != len(row.Peer) {
			s.Skip(row.Name, skipReason(out))
			continue
		}
		s.Add(row)
	}
	return nil
}

var metric = regexp.MustCompile(`([0-9.e+-]+) (plain|skein)-Gbit/s`)

// throughputs reads the lines that the benchmark printed for a backend.
func throughputs(out []byte, backend string) (plain, skein []float64) {
	for line := range bytes.Lines(out) {
		if !strings.HasPrefix(string(line), "BenchmarkThroughput/"+backend) {
			continue
		}
		for _, m := range metric.FindAllStringSubmatch(string(line), -1) {
			v, err := strconv.ParseFloat(m[1], 64)
			if err != nil {
				continue
			}
			if m[2] == "plain" {
				plain = append(plain, v)
			} else {
				skein = append(skein, v)
			}
		}
	}
	return plain, skein
}

// skipReason is what the benchmark said when it skipped.
func skipReason(out []byte) string {
	text := string(out)
	if _, rest, ok := strings.Cut(text, "--- SKIP"); ok {
		for line := range strings.Lines(rest) {
			if _, reason, ok := strings.Cut(line, ".go:"); ok {
				_, reason, _ = strings.Cut(reason, ": ")
				return strings.TrimSpace(reason)
			}
		}
	}
	return "the benchmark printed no figures (it needs root, network namespaces and TUN)"
}
