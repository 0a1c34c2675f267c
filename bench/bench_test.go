package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/skein-project/skein/bench/gatebench"
	"github.com/skein-project/skein/bench/loadbench"
	"github.com/skein-project/skein/worker/runner"
)

// TestMain also is a runner of chunks for the comparison with native code, and the other
// ends of many connections.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == runnerRole {
		os.Exit(runner.Main(os.Stdin, os.Stdout, os.Stderr))
	}
	if len(os.Args) > 1 && os.Args[1] == gatebench.CrowdRole {
		os.Exit(gatebench.Crowd(os.Args[2:], os.Stdin, os.Stdout, os.Stderr))
	}
	if len(os.Args) > 1 && os.Args[1] == gatebench.GatewaysRole {
		os.Exit(gatebench.Gateways(os.Args[2:], os.Stdin, os.Stdout, os.Stderr))
	}
	if len(os.Args) > 1 && os.Args[1] == loadbench.TargetRole {
		os.Exit(loadbench.Target(os.Args[2:], os.Stdin, os.Stdout))
	}
	if len(os.Args) > 1 && os.Args[1] == loadbench.ClientRole {
		os.Exit(loadbench.Client(os.Args[2:], os.Stdout))
	}
	if len(os.Args) > 1 && os.Args[1] == loadbench.BareRole {
		os.Exit(loadbench.Bare(os.Args[2:], os.Stdout))
	}
	if len(os.Args) > 1 && os.Args[1] == loadbench.HostsRole {
		os.Exit(loadbench.Hosts(os.Args[2:], os.Stdin, os.Stdout))
	}
	if len(os.Args) > 1 && os.Args[1] == loadbench.HolderRole {
		os.Exit(loadbench.CarryOut(os.Args[2:], os.Stdout))
	}
	os.Exit(m.Run())
}

// TestSmoke runs one tiny round of every comparison that needs no rights, so
// that none can rot. Its figures mean nothing.
func TestSmoke(t *testing.T) {
	var table, progress bytes.Buffer
	out := filepath.Join(t.TempDir(), "results.json")
	dir := t.TempDir()
	// PostgreSQL does not run as root: another user has to get to its files.
	if err := os.Chmod(filepath.Dir(dir), 0o711); err != nil {
		t.Fatal(err)
	}
	if err := run(t.Context(), []string{"-short", "-busy", "-out", out, "-dir", dir}, &table, &progress); err != nil {
		t.Fatalf("%v\n%s", err, progress.String())
	}
	data, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Results []map[string]any `json:"results"`
	}
	if err := json.Unmarshal(data, &got); err != nil {
		t.Fatal(err)
	}
	// JetStream is a library; the servers of the other queues may be absent, and so may Chromium.
	queues, pages, shared, others := 0, 0, 0, 0
	for _, r := range got.Results {
		if name, _ := r["name"].(string); strings.HasPrefix(name, "durable chunks") || strings.HasPrefix(name, "submission to worker") || strings.HasPrefix(name, "assignable to worker") || strings.HasPrefix(name, "chain of ") {
			queues++
		} else if strings.HasPrefix(name, "page: ") || strings.Contains(name, "to the page") {
			pages++
		} else if strings.HasPrefix(name, "load: ") || strings.HasSuffix(name, "over a gateway's connections") { // their peers may be absent
			continue
		} else if strings.HasPrefix(name, "Redis: ") {
			shared++
		} else {
			others++
		}
	}
	if others != 72 || queues < 9 || pages != 2 && pages != 13 || shared != 0 && shared != 20 {
		t.Errorf("%d rows, %d of queues, %d of the page and %d of gateways on a Redis, want 72, at least 9, 2 without Chromium, 13 with it, and 20 with Redis", others, queues, pages, shared)
	}
	want := []string{"name", "ok", "ours", "peer", "ratio", "target", "unit"}
	for _, r := range got.Results {
		var keys []string
		for k := range r {
			keys = append(keys, k)
		}
		if slices.Sort(keys); !slices.Equal(keys, want) {
			t.Errorf("a row has %v, want %v", keys, want)
		}
		if name, _ := r["name"].(string); !strings.Contains(table.String(), name) {
			t.Errorf("%q is not in the table", name)
		}
	}
	t.Log("\n" + table.String())
}

func TestThroughputLines(t *testing.T) {
	out := []byte(`goos: linux
BenchmarkThroughput/tun-2      	       1	         1.250 plain-Gbit/s	         0.9840 ratio	         1.230 skein-Gbit/s
BenchmarkThroughput/tun-2      	       1	         1.150 plain-Gbit/s	         0.9840 ratio	         1.130 skein-Gbit/s
BenchmarkThroughput/netstack-2 	       1	         1.500 plain-Gbit/s	         1.1 ratio	         1.650 skein-Gbit/s
PASS
`)
	plain, skein := throughputs(out, "tun")
	if !slices.Equal(plain, []float64{1.25, 1.15}) || !slices.Equal(skein, []float64{1.23, 1.13}) {
		t.Errorf("tun: %v and %v", plain, skein)
	}
	if plain, skein = throughputs(out, "netstack"); !slices.Equal(plain, []float64{1.5}) || !slices.Equal(skein, []float64{1.65}) {
		t.Errorf("netstack: %v and %v", plain, skein)
	}
	skipped := []byte("--- SKIP: BenchmarkThroughput/tun\n    bench_test.go:364: netns: operation not permitted\nPASS\n")
	if got := skipReason(skipped); got != "netns: operation not permitted" {
		t.Errorf("reason %q", got)
	}
}
