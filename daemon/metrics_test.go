package daemon

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/skein-project/skein/config"
	"github.com/skein-project/skein/daemon/stages"
	"github.com/skein-project/skein/internal/require"
	"github.com/skein-project/skein/observability"
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

// startAlone runs a founder without others, and returns what it registered, and what
// /metrics answers.
func startAlone(t *testing.T) (known map[string][2]string, text []byte) {
	t.Helper()
	dir, err := os.MkdirTemp("", "sk") //nolint:usetesting // short enough for a socket's address
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) }) // best effort
	at, gateway, inner := freeAddr(t), freeAddr(t), freeAddr(t)
	secret := filepath.Join(dir, "secret")
	if err := os.WriteFile(secret, []byte(strings.Repeat("x", 32)), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, err := config.Load(config.Options{
		Hostname: func() (string, error) { return "n1", nil },
		Flags: map[string]string{
			"state_dir": filepath.Join(dir, "state"), "mesh.backend": config.BackendNetstack, "mesh.listen": at,
			"status.socket": filepath.Join(dir, "s"), "lease.profile": "fast",
			"gateway.listen": gateway, "exec.programs": "none=/bin/false", "tor.enabled": "true", "tor.program": "/bin/false",
			"postgres.dsn_file": "/nonexistent", "postgres.sink": "true", "gateway.store": "redis", "redis.addresses": "unix:///nonexistent",
			"gateway.push": "centrifugo", "gateway.internal_listen": inner, "centrifugo.api_url": "http://127.0.0.1:1/api", "centrifugo.ws_url": "ws://127.0.0.1:1/ws",
			"centrifugo.api_key_file": secret, "centrifugo.secret_file": secret,
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
	l := stages.New(d.log)
	err = d.start(t.Context(), l)
	known = metricsOf(t, d.reg)
	if err == nil {
		text = scrape(t, filepath.Join(dir, "s"))
	}
	if stopErr := l.Stop(); err != nil || stopErr != nil {
		t.Fatal(err, stopErr)
	}
	return known, text
}

// freeAddr is an address that nobody listens on.
func freeAddr(t *testing.T) string {
	t.Helper()
	probe, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = probe.Close() }()
	return probe.Addr().String()
}

// scrape asks for /metrics at a socket.
func scrape(t *testing.T, socket string) []byte {
	t.Helper()
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}}
	defer transport.CloseIdleConnections()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://skein/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatal(resp.Status, err)
	}
	return text
}

// TestMetricsUsed: what rules and dashboard name is registered, histograms by their
// parts and nothing else by such.
func TestMetricsUsed(t *testing.T) {
	known, text := startAlone(t)
	kinds := map[string]string{}
	for _, m := range regexp.MustCompile(`(?m)^# TYPE (\S+) (\S+)$`).FindAllSubmatch(text, -1) {
		kinds[string(m[1])] = string(m[2])
		if _, ok := known[string(m[1])]; !ok {
			known[string(m[1])] = [2]string{} // of the runtime or the process
		}
	}
	seen := 0
	for where, expr := range observability.Expressions() {
		for _, name := range observability.Metrics(expr) {
			base, part := observability.Base(name)
			if _, ok := known[name]; ok {
				base, part = name, false
			}
			if _, ok := known[base]; !ok {
				t.Errorf("%s: no daemon has %s", where, name)
			}
			kind, live := kinds[base]
			if !live {
				continue // a vector that is empty yet
			}
			seen++
			if part != (kind == "histogram") {
				t.Errorf("%s: %s of a %s", where, name, kind)
			}
		}
	}
	if seen < 40 {
		t.Errorf("only %d of the names are in what a daemon answers", seen)
	}
}

// TestMetricsLint has promtool judge what a daemon answers.
func TestMetricsLint(t *testing.T) {
	require.Need(t, require.Prom)
	path, err := require.Promtool()
	if err != nil {
		t.Fatal(err)
	}
	_, text := startAlone(t)
	lint := func(text []byte) ([]byte, error) {
		cmd := exec.CommandContext(t.Context(), path, "check", "metrics")
		cmd.Stdin = bytes.NewReader(text)
		return cmd.CombinedOutput()
	}
	if out, err := lint(text); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	if _, err := lint(append(text, "skein_bad_total{ 1\n"...)); err == nil {
		t.Error("promtool takes anything")
	}
}

// TestMetricsReference keeps docs/metrics.md equal to what a daemon registers,
// and lets no document name a metric that does not exist.
func TestMetricsReference(t *testing.T) {
	known, _ := startAlone(t)
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
			if strings.HasPrefix(name, "skein_load") {
				continue // what who follows a load test sends on
			}
			if _, ok := known[name]; !ok {
				t.Errorf("%s names %s, which no daemon has", filepath.Base(doc), name)
			}
		}
	}
}
