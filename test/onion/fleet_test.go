package onion

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/internal/tornet"
	"github.com/skein-project/skein/internal/wasmtest"
)

// program is the skein program: that of SKEIN_BIN, or built once.
var program = sync.OnceValues(func() (string, error) {
	if dir := os.Getenv("SKEIN_BIN"); dir != "" {
		return filepath.Join(dir, "skein"), nil
	}
	exe := filepath.Join(os.TempDir(), fmt.Sprintf("skein-onion-%d", os.Getpid()))
	if out, err := exec.Command("go", "build", "-o", exe, "../../cmd/skein").CombinedOutput(); err != nil { //nolint:noctx // a build
		return "", fmt.Errorf("build: %w: %s", err, out)
	}
	return exe, nil
})

// fleet is a cluster of real daemons.
type fleet struct {
	t     *testing.T
	ctx   context.Context
	net   *tornet.Network
	dir   string
	begin time.Time
	hosts []*host
	exe   string
}

type host struct {
	*fleet
	name, dir, config string
	backend           *service
	api               *api.Client
	cmd               *exec.Cmd
	done              chan struct{}
}

func newFleet(t *testing.T) *fleet {
	t.Helper()
	return newFleetOn(t, sharedNetwork(t), either(10*time.Minute, 8*time.Minute))
}

// newFleetOn has so much time, on any network.
func newFleetOn(t *testing.T, n *tornet.Network, limit time.Duration) *fleet {
	t.Helper()
	exe, err := program()
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "sko") //nolint:usetesting // short enough for a socket's address
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	f := &fleet{t: t, ctx: ctx, net: n, dir: dir, begin: time.Now(), exe: exe}
	t.Cleanup(func() {
		for _, h := range f.hosts {
			h.stop()
			if t.Failed() {
				text, _ := os.ReadFile(filepath.Join(h.dir, "log"))
				t.Logf("log of %s:\n%s", h.name, text[max(0, len(text)-6000):])
			}
		}
		cancel()
		_ = os.RemoveAll(dir) // best effort
	})
	return f
}

func (f *fleet) say(format string, args ...any) {
	f.t.Helper()
	f.t.Logf("%6.1fs  %s", time.Since(f.begin).Seconds(), fmt.Sprintf(format, args...))
}

// port is free for UDP and TCP, for some time at least.
func port(t *testing.T) int {
	t.Helper()
	for range 50 {
		l, err := net.Listen("tcp4", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		p := l.Addr().(*net.TCPAddr).Port //nolint:errcheck,forcetypeassert // always this type
		u, err := net.ListenPacket("udp4", l.Addr().String())
		_ = l.Close() // only probed
		if err == nil {
			_ = u.Close() // only probed
			return p
		}
	}
	t.Fatal("no port is free for UDP and TCP")
	return 0
}

// service is a host's backend, which answers with the host's name.
type service struct {
	name, addr string
	server     *http.Server
}

// named starts a service.
func named(t *testing.T, name string) *service {
	t.Helper()
	s := &service{name: name, addr: "127.0.0.1:0"}
	s.start(t)
	t.Cleanup(s.fail)
	return s
}

// start has the service answer, at the address that it had before.
func (s *service) start(t *testing.T) {
	t.Helper()
	l, err := net.Listen("tcp4", s.addr)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{ReadHeaderTimeout: 10 * time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, s.name)
	})}
	go func() { _ = server.Serve(l) }() // ends with Close
	s.addr, s.server = l.Addr().String(), server
}

// fail ends the service.
func (s *service) fail() { _ = s.server.Close() }

// add starts one more host: the founder, or one that joins by a token.
func (f *fleet) add(extra string) *host {
	f.t.Helper()
	h := &host{fleet: f, name: fmt.Sprintf("n%d", len(f.hosts)+1)}
	h.dir = filepath.Join(f.dir, h.name)
	h.backend = named(f.t, h.name)
	h.config = filepath.Join(h.dir, "skein.toml")
	if err := os.MkdirAll(h.dir, 0o700); err != nil {
		f.t.Fatal(err)
	}
	wasmtest.Warm(f.t, filepath.Join(h.dir, "s"))
	var lines []string
	for _, line := range f.net.Torrc() {
		lines = append(lines, fmt.Sprintf("%q", line))
	}
	text := fmt.Sprintf(`state_dir = %q
[node]
name = %q
priority = %d
[mesh]
backend = "netstack"
listen = "127.0.0.1:%d"
[log]
format = "json"
[worker]
slots = 1
[status]
socket = %q
[tor]
enabled = true
torrc = [%s]
[onion]
target = %q
%s
`, filepath.Join(h.dir, "s"), h.name, 10*(len(f.hosts)+1), port(f.t), filepath.Join(h.dir, "sock"), strings.Join(lines, ", "), h.backend.addr, extra)
	if err := os.WriteFile(h.config, []byte(text), 0o600); err != nil {
		f.t.Fatal(err)
	}
	var err error
	if h.api, err = api.Dial(filepath.Join(h.dir, "sock")); err != nil {
		f.t.Fatal(err)
	}
	args := []string{"run", "--config", h.config}
	if len(f.hosts) == 0 {
		if out, err := exec.CommandContext(f.ctx, f.exe, "init", "--config", h.config, "--cluster", "blue").CombinedOutput(); err != nil {
			f.t.Fatalf("init: %v: %s", err, out)
		}
	} else {
		token, err := f.hosts[0].api.CreateToken(f.ctx, 10*time.Minute, 1)
		if err != nil {
			f.t.Fatal(err)
		}
		file := filepath.Join(h.dir, "token")
		if err := os.WriteFile(file, []byte(token.Secret.Reveal()+"\n"), 0o600); err != nil {
			f.t.Fatal(err)
		}
		args = append(args, "--join", "@"+file)
	}
	f.hosts = append(f.hosts, h)
	h.run(args...)
	return h
}

func (h *host) run(args ...string) {
	h.t.Helper()
	log, err := os.OpenFile(filepath.Join(h.dir, "log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		h.t.Fatal(err)
	}
	defer log.Close()
	h.cmd = exec.Command(h.exe, args...) //nolint:noctx // ended by stop, in good order
	h.cmd.Stdout, h.cmd.Stderr = log, log
	h.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := h.cmd.Start(); err != nil {
		h.t.Fatal(err)
	}
	done := make(chan struct{})
	h.done = done
	go func() {
		_ = h.cmd.Wait() // how it ended shows in its log
		close(done)
	}()
}

// kill ends the daemon and its tor at once.
func (h *host) kill() {
	_ = syscall.Kill(-h.cmd.Process.Pid, syscall.SIGKILL) // it may just have ended
	<-h.done
}

func (h *host) stop() {
	_ = h.cmd.Process.Signal(syscall.SIGTERM) // it may just have ended
	select {
	case <-h.done:
	case <-time.After(30 * time.Second):
		h.kill()
	}
}

// await polls until ok holds of what the host says of the onion addresses.
func (h *host) await(what string, ok func(api.Onion) bool) api.Onion {
	h.t.Helper()
	var last api.Onion
	var err error
	for {
		var o api.Onion
		if o, err = h.api.Onion(h.ctx); err == nil {
			if last = o; ok(o) {
				h.say("%s: %s", h.name, what)
				return o
			}
		}
		select {
		case <-h.done:
			h.t.Fatalf("%s ended before: %s", h.name, what)
		case <-h.ctx.Done():
			h.t.Fatalf("%s: not in time: %s; %v; last %+v", h.name, what, err, last)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// publisher returns the living host that publishes.
func (f *fleet) publisher(what string, ok func(api.OnionAddress) bool) *host {
	f.t.Helper()
	for {
		for _, h := range f.hosts {
			select {
			case <-h.done:
				continue
			default:
			}
			ctx, cancel := context.WithTimeout(f.ctx, 2*time.Second) // one that hangs does not answer
			o, err := h.api.Onion(ctx)
			cancel()
			if err == nil && len(o.Addresses) > 0 && o.Addresses[0].Publishing && ok(o.Addresses[0]) {
				f.say("%s publishes: %s", h.name, what)
				return h
			}
		}
		select {
		case <-f.ctx.Done():
			f.t.Fatalf("no publisher in time: %s", what)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// fetch asks the address over a fresh connection of a client and returns the
// name of the host that answered.
func fetch(ctx context.Context, client *tornet.Tor, user, address string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 45*time.Second)
	defer cancel()
	c := &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext:       func(ctx context.Context, _, at string) (net.Conn, error) { return client.Dial(ctx, user, at) },
	}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/", nil)
	if err != nil {
		return "", err
	}
	resp, err := c.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 100))
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("status %s", resp.Status)
	}
	return string(body), err
}

// mustFetch is fetch, which must not fail. Without SKEIN_PROVE it may once:
// where other tests share the processors tor gives up circuits that are not
// made in time.
func mustFetch(ctx context.Context, t *testing.T, client *tornet.Tor, user, address string) string {
	t.Helper()
	for tries := either(1, 2); ; tries-- {
		begin := time.Now()
		name, err := fetch(ctx, client, fmt.Sprint(user, "-", tries), address)
		if err == nil {
			return name
		}
		if tries == 1 || ctx.Err() != nil {
			t.Fatalf("connection %s after %s: %v", user, time.Since(begin), err)
		}
		t.Logf("connection %s after %s, once more: %v", user, time.Since(begin), err)
	}
}

func has(points map[cluster.NodeID]int, names ...cluster.NodeID) bool {
	for _, n := range names {
		if points[n] == 0 {
			return false
		}
	}
	return len(points) == len(names)
}
