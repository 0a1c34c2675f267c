package browser

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/internal/clusterslot"
	"github.com/skein-project/skein/internal/cut"
	"github.com/skein-project/skein/internal/wasmtest"
)

// host is a daemon.
type host struct {
	name, dir string
	api       *api.Client
	cmd       *exec.Cmd
	done      chan struct{} // closed when it has ended
	// off cuts it off from the others, or ends that.
	off func(bool)
}

func program(t *testing.T) string {
	t.Helper()
	bin := os.Getenv("SKEIN_BIN")
	if bin == "" {
		bin = filepath.Join("..", "..", "bin")
	}
	path, err := filepath.Abs(filepath.Join(bin, "skein"))
	if err == nil {
		_, err = os.Stat(path)
	}
	if err != nil {
		t.Fatalf("%v (hint: make build)", err)
	}
	return path
}

// cluster starts three daemons that need no privileges.
func cluster(t *testing.T, more ...string) []*host {
	t.Helper()
	slot(t)
	dir, err := os.MkdirTemp("", "sk") //nolint:usetesting // short enough for a socket's address
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	apart := cut.New()
	t.Cleanup(apart.Close) // after the daemons have ended
	var hosts []*host
	for i := range 3 {
		h := &host{name: fmt.Sprintf("n%d", i+1)}
		h.dir = filepath.Join(dir, h.name)
		if err := os.Mkdir(h.dir, 0o700); err != nil {
			t.Fatal(err)
		}
		at := port(t)
		front, err := apart.Front(at)
		if err != nil {
			t.Fatal(err)
		}
		wasmtest.Warm(t, filepath.Join(h.dir, "state"))
		h.off = func(on bool) { apart.Put(at, map[bool]int{true: 1 + i}[on]) }
		conf := fmt.Sprintf("state_dir = %q\n[node]\nname = %q\npriority = %d\n[mesh]\nbackend = \"netstack\"\nlisten = \"127.0.0.1:%d\"\nadvertise = [%q]\n"+
			"[lease]\nprofile = \"lan\"\n[worker]\nslots = 1\n[status]\nsocket = %q\n", filepath.Join(h.dir, "state"), h.name, 10*(i+1), at, front, h.socket())
		if i < len(more) {
			conf += more[i]
		}
		if err := os.WriteFile(h.config(), []byte(conf), 0o600); err != nil {
			t.Fatal(err)
		}
		if h.api, err = api.Dial(h.socket()); err != nil {
			t.Fatal(err)
		}
		hosts = append(hosts, h)
	}
	founder := hosts[0]
	skein(t, "init", "--config", founder.config(), "--cluster", "blue")
	founder.start(t)
	founder.await(t, "ready", func(s api.Status) error { return holds(s, "n1") })
	for _, h := range hosts[1:] {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		token, err := founder.api.CreateToken(ctx, time.Hour, 1)
		cancel()
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(h.dir, "token")
		if err := os.WriteFile(file, []byte(token.Secret.Reveal()), 0o600); err != nil {
			t.Fatal(err)
		}
		h.start(t, "--join", "@"+file)
	}
	for _, h := range hosts {
		h.await(t, "three voters", func(s api.Status) error {
			if s.Lease.Voters != 3 || s.Members.Alive != 3 {
				return fmt.Errorf("%d voters, %d alive", s.Lease.Voters, s.Members.Alive)
			}
			return nil
		})
	}
	return hosts
}

func (h *host) socket() string { return filepath.Join(h.dir, "sock") }
func (h *host) config() string { return filepath.Join(h.dir, "skein.toml") }

func (h *host) start(t *testing.T, args ...string) {
	t.Helper()
	log, err := os.Create(filepath.Join(h.dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	h.cmd = exec.Command(program(t), append([]string{"run", "--config", h.config()}, args...)...) //nolint:noctx // killed below
	h.cmd.Stdout, h.cmd.Stderr = log, log
	if err := h.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	h.done = make(chan struct{})
	go func() { _ = h.cmd.Wait(); close(h.done) }()
	t.Cleanup(func() {
		h.kill()
		if text, err := os.ReadFile(log.Name()); err == nil && t.Failed() {
			t.Logf("log of %s:\n%s", h.name, text[max(0, len(text)-2000):])
		}
	})
}

func (h *host) kill() {
	_ = h.cmd.Process.Signal(syscall.SIGKILL) // it may have ended
	<-h.done
}

// await polls a host's status.
func (h *host) await(t *testing.T, what string, ok func(api.Status) error) api.Status {
	t.Helper()
	deadline := time.Now().Add(patience)
	for {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		s, err := h.api.Status(ctx)
		cancel()
		if err == nil {
			err = ok(s)
		}
		if err == nil {
			return s
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s is not %s within %s: %v", h.name, what, patience, err)
		}
		time.Sleep(30 * time.Millisecond)
	}
}

func holds(s api.Status, node string) error {
	if string(s.Lease.Holder) != node {
		return fmt.Errorf("%q holds the lease", s.Lease.Holder)
	}
	return nil
}

// slots are those of the tests that run.
var slots sync.Map // by *testing.T

// slot is the one of a test, taken when it is needed first.
func slot(t *testing.T) *clusterslot.Slot {
	t.Helper()
	if s, ok := slots.Load(t); ok {
		return s.(*clusterslot.Slot) //nolint:forcetypeassert // see below
	}
	s := clusterslot.Take(t)
	slots.Store(t, s)
	t.Cleanup(func() { slots.Delete(t) })
	return s
}

// port is one that is free for UDP and TCP, and that nobody else is given.
func port(t *testing.T) int {
	t.Helper()
	at, err := slot(t).Port()
	if err != nil {
		t.Fatal(err)
	}
	return at
}

func skein(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), program(t), args...).Output()
	if err != nil {
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			t.Fatalf("skein %s: %v: %s", strings.Join(args, " "), err, exit.Stderr)
		}
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// ui starts `skein ui` at a host; the link that it prints.
func (h *host) ui(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.Command(program(t), append([]string{"--socket", h.socket(), "ui"}, args...)...) //nolint:noctx // stopped below
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM) // it may have ended
		_ = cmd.Wait()
	})
	link, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(link)
}

func (h *host) raw(t *testing.T, path string, into any) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	text, err := h.api.Raw(ctx, path)
	if err == nil {
		err = json.Unmarshal(text, into)
	}
	if err != nil {
		t.Fatal(err)
	}
}
