package observability

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/skein-project/skein/internal/require"
	"github.com/skein-project/skein/internal/wasmtest"
)

// silent are the panels that show nothing of two hosts which have done one job, and why.
var silent = map[string]string{
	"Cluster, Certificates end in, {{instance}}":          "both are sponsors, whose certificates have no end",
	"Onion, Last descriptor that clients found, age":      "no descriptor was ever published: there is no tor",
	"Onion, Descriptors, {{outcome}}":                     "the same",
	"Overload, Zones: 1 healthy to 4 unhealthy, {{zone}}": "no host is in a zone",
	"Onion, Clients cut off, {{why}}":                     "no client came: there is no tor",
}

// patience is how long it may take until everything has been measured once.
const patience = time.Minute

// TestEveryPanelShowsSomething starts two hosts that do a job, both of them gateways, and has promtool evaluate
// every expression of the dashboard over what they answer.
func TestEveryPanelShowsSomething(t *testing.T) {
	if testing.Short() {
		t.Skip("skipped: starts daemons")
	}
	require.Need(t, require.Prom)
	bin := program(t)
	dir, err := os.MkdirTemp("", "sk") //nolint:usetesting // short enough for a socket's address
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) }) // best effort
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	ports := freePorts(t, 4)
	a, b := newDaemon(t, bin, dir, "n1", ports[0], ports[1]), newDaemon(t, bin, dir, "n2", ports[2], ports[3])
	a.skein(ctx, "init", "--config", a.config, "--cluster", "blue")
	a.run(ctx)
	token := filepath.Join(dir, "token")
	a.skein(ctx, "token", "create", "--out", token, "--socket", a.socket)
	b.run(ctx, "--join", "@"+token)
	a.skein(ctx, "wait", "--for", "members=2", "--timeout", "2m", "--socket", a.socket)
	a.skein(ctx, "job", "run", "--wasm", filepath.Join(bin, "examples", "pi.wasm"), "--iterations", "200000", "--chunk", "10000", "--wait-for-worker", "--follow", "--socket", a.socket)

	a.asked(ctx)
	work, began := t.TempDir(), time.Now()
	var said string
	var left []string
	for { // what is measured now and then comes in its time
		scrapes := map[string][]byte{"n1": a.metrics(ctx), "n2": b.metrics(ctx)}
		if err := os.WriteFile(filepath.Join(work, "live.yml"), LiveFile(scrapes), 0o600); err != nil {
			t.Fatal(err)
		}
		said, err = promtool(t, work, "test", "rules", "live.yml")
		if err == nil || !strings.Contains(said, "got:") {
			t.Fatalf("promtool does not say what expressions give: %v\n%s", err, said)
		}
		left = slices.DeleteFunc(Silent(said), func(p string) bool { return silent[p] != "" })
		if len(left) == 0 || time.Since(began) > patience {
			break
		}
		select {
		case <-ctx.Done():
		case <-time.After(2 * time.Second):
		}
	}
	for _, p := range left {
		t.Errorf("%s shows nothing", p)
	}
	for p, why := range silent {
		if !slices.Contains(Silent(said), p) {
			t.Errorf("%s shows something, though %s", p, why)
		}
	}
}

// TestSilent: a panel whose metric no host has would be seen.
func TestSilent(t *testing.T) {
	require.Need(t, require.Prom)
	work := t.TempDir()
	text := LiveFile(map[string][]byte{"n1": []byte("skein_lease_holder 1\nskein_lease_term 4.2e+01\nskein_nan{a=\"b\"} NaN\n")})
	if err := os.WriteFile(filepath.Join(work, "live.yml"), text, 0o600); err != nil {
		t.Fatal(err)
	}
	said, _ := promtool(t, work, "test", "rules", "live.yml")
	got := Silent(said)
	if slices.Contains(got, "Lease, Term, {{instance}}") || !slices.Contains(got, "Mesh, Round trips, {{instance}} to {{peer}}") || len(got) < 40 {
		t.Errorf("silent: %q\n%s", got, said)
	}
}

// program is where the program and the example jobs are: SKEIN_BIN, or built now.
func program(t *testing.T) string {
	t.Helper()
	if bin := os.Getenv("SKEIN_BIN"); bin != "" {
		return bin
	}
	dir := t.TempDir()
	for _, b := range []struct{ out, pkg, env string }{
		{"skein", "../cmd/skein", ""}, {"examples/pi.wasm", "../examples/pi", "GOOS=wasip1 GOARCH=wasm"},
	} {
		cmd := exec.CommandContext(t.Context(), "go", "build", "-o", filepath.Join(dir, b.out), b.pkg)
		cmd.Env = append(os.Environ(), strings.Fields(b.env)...)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("build %s: %v\n%s", b.pkg, err, out)
		}
	}
	return dir
}

// running is a daemon.
type running struct {
	t                   *testing.T
	exe, config, socket string
	gateway             string // its URL
}

func newDaemon(t *testing.T, bin, dir, name string, port, gateway int) *running {
	t.Helper()
	h := &running{
		t: t, exe: filepath.Join(bin, "skein"), config: filepath.Join(dir, name+".toml"), socket: filepath.Join(dir, name+".sock"),
		gateway: fmt.Sprintf("http://127.0.0.1:%d", gateway),
	}
	text := fmt.Sprintf("state_dir = %q\n[node]\nname = %q\n[mesh]\nbackend = \"netstack\"\nlisten = \"127.0.0.1:%d\"\n[status]\nsocket = %q\n[tor]\nenabled = true\nprogram = \"/bin/false\"\n[gateway]\nlisten = \"127.0.0.1:%d\"\n",
		filepath.Join(dir, name), name, port, h.socket, gateway)
	if err := os.WriteFile(h.config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	wasmtest.Warm(t, filepath.Join(dir, name))
	return h
}

// freePorts are n that are free for both UDP and TCP.
func freePorts(t *testing.T, n int) (out []int) {
	t.Helper()
	for range 50 + n {
		tcp, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer tcp.Close() // once all are found, which so are different
		addr := tcp.Addr().(*net.TCPAddr)
		udp, err := net.ListenPacket("udp", addr.String())
		if err != nil {
			continue
		}
		defer udp.Close()
		if out = append(out, addr.Port); len(out) == n {
			return out
		}
	}
	t.Fatal("no free ports")
	return nil
}

// asked has the gateway answer somebody, which not only counts from 0.
func (h *running) asked(ctx context.Context) {
	h.t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, h.gateway+"/v1/info", nil)
	if err != nil {
		h.t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		h.t.Fatal(err)
	}
	_ = resp.Body.Close() // its status is enough
	if resp.StatusCode != http.StatusOK {
		h.t.Fatal(resp.Status)
	}
}

func (h *running) skein(ctx context.Context, args ...string) {
	h.t.Helper()
	if out, err := exec.CommandContext(ctx, h.exe, args...).CombinedOutput(); err != nil {
		h.t.Fatalf("skein %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// run starts the daemon and waits until it answers.
func (h *running) run(ctx context.Context, args ...string) {
	h.t.Helper()
	log, err := os.Create(h.config + ".log")
	if err != nil {
		h.t.Fatal(err)
	}
	cmd := exec.Command(h.exe, append([]string{"run", "--config", h.config}, args...)...) //nolint:noctx // it is stopped cleanly
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		h.t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	h.t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM) // it may have ended
		select {
		case <-ended: //nolint:errcheck // it was asked to end
		case <-time.After(time.Minute):
			_ = cmd.Process.Kill()
			<-ended //nolint:errcheck // it was killed
		}
		_ = log.Close()
		if text, err := os.ReadFile(h.config + ".log"); err == nil && h.t.Failed() {
			h.t.Logf("%s:\n%s", h.config, text)
		}
	})
	for {
		conn, err := (&net.Dialer{}).DialContext(ctx, "unix", h.socket)
		if err == nil {
			_ = conn.Close()
			return
		}
		select {
		case err := <-ended:
			ended <- err
			h.t.Fatalf("the daemon ended: %v", err)
		case <-ctx.Done():
			h.t.Fatal(errors.Join(ctx.Err(), err))
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// metrics is what /metrics answers.
func (h *running) metrics(ctx context.Context) []byte {
	h.t.Helper()
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", h.socket)
	}}
	defer transport.CloseIdleConnections()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://skein/metrics", nil)
	if err != nil {
		h.t.Fatal(err)
	}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		h.t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		h.t.Fatal(resp.Status, err)
	}
	return text
}
