package daemon

import (
	"bytes"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/skein-project/skein/config"
	"github.com/skein-project/skein/offline"
)

// descText is how a prometheus.Desc prints; it has no accessors.
var descText = regexp.MustCompile(`^Desc\{fqName: "(skein_[a-z0-9_]+)", help: "(.*?)"(?:, unit: ".*?")?, constLabels: \{.*\}, variableLabels: \{(.*)\}\}$`)

// metricsOf lists the metrics of ours that reg knows: labels and help by name.
func metricsOf(t *testing.T, reg *prometheus.Registry) map[string][2]string {
	t.Helper()
	descs := make(chan *prometheus.Desc, 1000)
	reg.Describe(descs)
	close(descs)
	out := map[string][2]string{}
	for d := range descs {
		if m := descText.FindStringSubmatch(d.String()); m != nil {
			out[m[1]] = [2]string{m[3], m[2]}
		} else if strings.Contains(d.String(), `"skein_`) {
			t.Errorf("cannot be read: %s", d)
		}
	}
	return out
}

// startAlone runs a founder without others, and returns what it registered.
func startAlone(t *testing.T) map[string][2]string {
	t.Helper()
	dir, err := os.MkdirTemp("", "sk") //nolint:usetesting // short enough for a socket's address
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) }) // best effort
	probe, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	at := probe.Addr().String()
	if err := probe.Close(); err != nil {
		t.Fatal(err)
	}
	cfg, err := config.Load(config.Options{
		Hostname: func() (string, error) { return "n1", nil },
		Flags: map[string]string{
			"state_dir": filepath.Join(dir, "state"), "mesh.backend": config.BackendNetstack, "mesh.listen": at,
			"status.socket": filepath.Join(dir, "s"), "lease.profile": "fast",
			"exec.programs": "none=/bin/false", "tor.enabled": "true", "tor.program": "/bin/false",
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := offline.Init(cfg, offline.InitOptions{ClusterName: "blue"}); err != nil {
		t.Fatal(err)
	}
	g, unlock, err := prepare(t.Context(), cfg, RunOptions{Version: "0.0.1", RunnerArgv: []string{"/bin/false"}})
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	d := &daemon{ground: g}
	defer d.close()
	l := newLifecycle(d.log)
	err = d.start(t.Context(), l)
	found := metricsOf(t, d.reg)
	if stopErr := l.stop(); err != nil || stopErr != nil {
		t.Fatal(err, stopErr)
	}
	return found
}

// TestMetricsReference keeps docs/metrics.md equal to what a daemon registers,
// and lets no document name a metric that does not exist.
func TestMetricsReference(t *testing.T) {
	known := startAlone(t)
	var want bytes.Buffer
	want.WriteString("# Metrics\n\nMade from what a daemon registers, by the tests of `daemon`. They are at `/metrics` of the socket\n" +
		"(`curl --unix-socket /run/skein/skein.sock http://skein/metrics`) and of `status.listen`, beside those of the Go runtime\n" +
		"and of the process. Counters end in `_total`. Durations are seconds, sizes bytes.\n\n| Name | Labels | |\n|---|---|---|\n")
	for _, name := range slices.Sorted(maps.Keys(known)) {
		labels := "-"
		if l := known[name][0]; l != "" {
			labels = "`" + strings.ReplaceAll(l, ",", "`, `") + "`"
		}
		fmt.Fprintf(&want, "| `%s` | %s | %s |\n", name, labels, known[name][1])
	}
	path := filepath.Join("..", "docs", "metrics.md")
	if os.Getenv("SKEIN_UPDATE") == "1" {
		if err := os.WriteFile(path, want.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if have, err := os.ReadFile(path); err != nil || !bytes.Equal(have, want.Bytes()) {
		t.Errorf("docs/metrics.md is stale (%v): run SKEIN_UPDATE=1 go test ./daemon -run MetricsReference", err)
	}
	docs, err := filepath.Glob(filepath.Join("..", "docs", "*.md"))
	if err != nil || len(docs) < 2 {
		t.Fatal(docs, err)
	}
	for _, doc := range docs {
		text, err := os.ReadFile(doc)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range regexp.MustCompile(`\bskein_[a-z0-9_]+[a-z0-9]\b`).FindAllString(string(text), -1) {
			if _, ok := known[name]; !ok {
				t.Errorf("%s names %s, which no daemon has", filepath.Base(doc), name)
			}
		}
	}
}
