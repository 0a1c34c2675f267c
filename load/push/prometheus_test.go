package push

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/skein-project/skein/internal/require"
	"github.com/skein-project/skein/internal/tool"
)

// TestPrometheus: a real one takes what is written, and answers what was counted.
func TestPrometheus(t *testing.T) {
	require.Need(t, require.Prom)
	base := prometheus(t)
	r := Run{ID: "l2ab", Name: "shop, eu", Start: time.Now()}
	out, err := Open(r, []string{"prometheus=" + base + "/api/v1/write"}, Options{Warn: func(s string) { t.Error(s) }})
	if err != nil {
		t.Fatal(err)
	}
	for n := range 3 {
		w := window(n)
		w.At = r.Start.Add(time.Duration(n-2) * time.Second)
		out.Send(w)
	}
	out.Close()
	for query, want := range map[string]string{
		`skein_load_requests_total{run="l2ab",test="shop, eu",step="log in",class="ok"}`: "30",
		`skein_load_latency_seconds{step="log in",quantile="0.99"}`:                      "0.11",
		`skein_load_users`: "7",
		`sum(increase(skein_load_requests_total{class="timeout"}[3s])) > bool 0`: "1",
	} {
		if got := ask(t, base, query); got != want {
			t.Errorf("%s is %q, want %q", query, got, want)
		}
	}
}

// prometheus starts a server with nothing to ask, and returns its URL.
func prometheus(t *testing.T) string {
	t.Helper()
	program, err := tool.Find("prometheus")
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	l.Close()
	dir := t.TempDir()
	config := filepath.Join(dir, "prometheus.yml")
	if err := os.WriteFile(config, []byte("global: {}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, program, "--config.file="+config, "--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+addr,
		"--web.enable-remote-write-receiver", "--log.level=warn")
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		_ = cmd.Wait()
		_ = log.Close()
	})
	for end := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		resp, err := http.Get("http://" + addr + "/-/ready")
		if err == nil {
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return "http://" + addr
			}
		}
		if time.Now().After(end) {
			text, _ := os.ReadFile(log.Name())
			t.Fatalf("Prometheus is not up: %v\n%s", err, text)
		}
	}
}

// ask is the value of the one series of a query.
func ask(t *testing.T, base, query string) string {
	t.Helper()
	resp, err := http.Get(base + "/api/v1/query?" + url.Values{"query": {query}}.Encode())
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var x struct {
		Data struct {
			Result []struct {
				Value [2]any `json:"value"`
			} `json:"result"`
		} `json:"data"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&x); err != nil || len(x.Data.Result) != 1 {
		t.Fatalf("%s: %v, %+v", query, err, x)
	}
	v, _ := x.Data.Result[0].Value[1].(string)
	return v
}
