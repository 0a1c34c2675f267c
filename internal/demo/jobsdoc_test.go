package demo

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/internal/clusterslot"
)

// shellBlocks returns the shell scripts of a document, in order.
func shellBlocks(text string) (out []string) {
	for _, part := range strings.Split(text, "\n```sh\n")[1:] {
		block, _, _ := strings.Cut(part, "\n```")
		out = append(out, block)
	}
	return out
}

// jobsHost runs the real daemon of a cluster of one, which allows a program.
func jobsHost(ctx context.Context, t *testing.T, slot *clusterslot.Slot, program string) (dir string, env []string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "skdoc") //nolint:usetesting // short enough for a socket's address
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) }) // best effort
	port, err := slot.Port()
	if err != nil {
		t.Fatal(err)
	}
	listen := fmt.Sprintf("127.0.0.1:%d", port)
	for name, target := range map[string]string{"bin": bin, "examples": filepath.Join("..", "..", "examples")} {
		abs, err := filepath.Abs(target)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(abs, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	script := filepath.Join(dir, "count.sh")
	if err := os.WriteFile(script, []byte(program), 0o700); err != nil { //nolint:gosec // it is to be run
		t.Fatal(err)
	}
	config := fmt.Sprintf("state_dir = %q\n[node]\nname = \"n1\"\n[mesh]\nbackend = \"netstack\"\nlisten = %q\n[status]\nsocket = %q\n[lease]\nprofile = \"fast\"\n[exec.programs]\ncount = [%q]\n",
		filepath.Join(dir, "state"), listen, filepath.Join(dir, "s"), script)
	if err := os.WriteFile(filepath.Join(dir, "skein.toml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	env = append(os.Environ(), "PATH="+filepath.Join(dir, "bin")+":"+os.Getenv("PATH"),
		"SKEIN_CONFIG="+filepath.Join(dir, "skein.toml"), "SKEIN_SOCKET="+filepath.Join(dir, "s"), "SKEIN_TIMEOUT=60s")
	command := func(args ...string) *exec.Cmd {
		cmd := exec.CommandContext(ctx, filepath.Join(dir, "bin", "skein"), args...)
		cmd.Dir, cmd.Env = dir, env
		return cmd
	}
	if out, err := command("init").CombinedOutput(); err != nil {
		t.Fatalf("init: %v\n%s", err, out)
	}
	var log bytes.Buffer
	run := command("run")
	run.Stderr = &log
	run.Cancel = func() error { return run.Process.Signal(syscall.SIGTERM) }
	run.WaitDelay = 20 * time.Second
	if err := run.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = run.Process.Signal(syscall.SIGTERM) // it may have ended
		_ = run.Wait()
		if t.Failed() {
			t.Logf("daemon:\n%s", log.Bytes())
		}
	})
	deadline := time.Now().Add(time.Minute)
	for {
		out, err := command("wait", "--for", "holder", "--timeout", "20s").CombinedOutput()
		if err == nil {
			return dir, env
		}
		if time.Now().After(deadline) {
			t.Fatalf("no holder: %v\n%s", err, out)
		}
		time.Sleep(100 * time.Millisecond) // the socket is not there yet
	}
}

// TestJobsDocument runs the examples of docs/jobs.md as they stand there.
func TestJobsDocument(t *testing.T) {
	parallel(t)
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "jobs.md"))
	if err != nil {
		t.Fatal(err)
	}
	blocks := shellBlocks(string(text))
	if len(blocks) < 3 {
		t.Fatalf("%d examples", len(blocks))
	}
	slot := clusterslot.Take(t)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	_, program, _ := strings.Cut(string(text), "\n```bash\n")
	program, _, _ = strings.Cut(program, "\n```")
	dir, env := jobsHost(ctx, t, slot, program)
	sh := exec.CommandContext(ctx, "bash", "-euc", strings.Join(blocks, "\n"))
	sh.Dir, sh.Env = dir, env
	if out, err := sh.CombinedOutput(); err != nil {
		t.Fatalf("the examples of docs/jobs.md: %v\n%s", err, out)
	}

	pi := readMetrics(t, filepath.Join(dir, "pi.csv"))["pi"]
	if z := (pi["MEAN"] - math.Pi) / pi["SE"]; pi["N"] != 4e6 || !(math.Abs(z) < 5) {
		t.Errorf("pi: %v, %.1f standard errors off", pi, z)
	}
	prices := readMetrics(t, filepath.Join(dir, "prices.csv"))
	call := prices["call-atm-1y"]
	if len(prices) != 8 || !(call["RELATIVE_ERROR"] < 0.01) || call["N"] < 200_000 || call["N"] > 5e7 {
		t.Errorf("%d options, call %v", len(prices), call)
	}
	// Half of the at-the-money calls pay a little more than nothing; the best
	// hundredth pays 100*(exp(0.01+0.2*2.326)-1)*exp(-0.03) or more.
	want := 100 * (math.Exp(0.01+0.2*2.3263) - 1) * math.Exp(-0.03)
	if p99 := call["P99"]; math.Abs(p99-want) > 0.03*want || !(call["P50"] <= call["P90"] && call["P90"] <= p99) || !(call["QUANTILE_ERROR"] < 0.05) {
		t.Errorf("p50 %g, p90 %g, p99 %g, want %g", call["P50"], call["P90"], p99, want)
	}

	if count := readMetrics(t, filepath.Join(dir, "count.csv"))["seen"]; count["N"] != 10 || count["MEAN"] != 10 {
		t.Errorf("count: %v", count)
	}
	seen := map[int]bool{}
	chunks, err := os.ReadFile(filepath.Join(dir, "chunks.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(chunks)) {
		var r api.ChunkResult
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatal(err)
		}
		seen[r.Chunk] = true
	}
	if len(seen) != 16 {
		t.Errorf("%d chunks of 16 were told over the break", len(seen))
	}
	if workers := readCSV(t, filepath.Join(dir, "workers.csv")); len(workers) != 2 || workers[1][0] != "n1" {
		t.Errorf("workers: %v", workers)
	}
}

func readCSV(t *testing.T, path string) [][]string {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil || len(rows) == 0 {
		t.Fatalf("%s: %d rows, %v", path, len(rows), err)
	}
	return rows
}

// readMetrics reads a table of metrics; what is unknown is missing.
func readMetrics(t *testing.T, path string) map[string]map[string]float64 {
	t.Helper()
	rows := readCSV(t, path)
	out := map[string]map[string]float64{}
	for _, row := range rows[1:] {
		m := map[string]float64{}
		for i, cell := range row[1:] {
			if v, err := strconv.ParseFloat(cell, 64); err == nil {
				m[rows[0][i+1]] = v
			}
		}
		out[row[0]] = m
	}
	return out
}
