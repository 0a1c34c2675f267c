package slice

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/load"
	"github.com/skein-project/skein/load/gang"
	"github.com/skein-project/skein/load/guard"
)

// TestEngineOutOfItsMind: an engine that says what nobody understands is ended, and the host
// is free again.
func TestEngineOutOfItsMind(t *testing.T) {
	for script, want := range map[string]string{
		`while :; do echo nonsense; done`:               "says something unexpected",
		`exec tr '\0' x </dev/zero`:                     "token too long",
		`echo '{"frame":{"first":5}}'; exec sleep 1000`: "",
		`exit 3`: "the engine",
	} {
		h, stop := processHost(t, shell(script), func() Allowed { return Allowed{Enabled: true, Owners: []string{"*"}} })
		run := event.NewLoadID("uid:1", script)
		if _, err := h.Prepare(gang.Prepare{Run: run, Attempt: 1, Owner: "uid:1", Bundle: cluster.Hash{1}, Shares: []int{1}}); err != nil {
			t.Fatal(err)
		}
		if want == "" { // it counts before it is ready, and says no more
			h.End(gang.End{Run: run, Drop: true})
		} else {
			x := gang.Counted{}
			for deadline := time.Now().Add(time.Minute); x.Stage != gang.Broken; x = h.Counted(t.Context(), gang.Ask{Run: run, Wait: 100}) {
				if time.Now().After(deadline) {
					t.Fatalf("%s: %+v", script, x)
				}
			}
			if !strings.Contains(x.Why, want) {
				t.Errorf("%s: %s, want %q", script, x.Why, want)
			}
		}
		if h.Held() {
			t.Errorf("%s: the host is held", script)
		}
		stop()
	}
}

// readyScript is an engine that is ready, and then does nothing.
const readyScript = `read x; echo '{"ready":{"series":1}}'; exec sleep 1000`

// shell runs a script in place of an engine.
func shell(script string) []string { return []string{"/bin/sh", "-c", script} }

// processHost runs a host with an engine, nil: the real one; stop waits for its process.
func processHost(t *testing.T, engine []string, allowed func() Allowed) (h *Host, stop func()) {
	t.Helper()
	h, err := New(Options{
		Self: "n1", Argv: engine, Allowed: allowed,
		Never: func() []netip.Prefix { return nil }, Running: func() int { return 0 }, Logger: zerolog.Nop(),
		Fetch: func(context.Context, cluster.Hash) ([]byte, error) { return []byte("{}"), nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); _ = h.Run(ctx) }()
	for deadline := time.Now().Add(time.Minute); !h.Up(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the host does not run")
		}
	}
	return h, func() { cancel(); <-done }
}

// untilReady prepares a slice until its engine is ready.
func untilReady(t *testing.T, h *Host, p gang.Prepare) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		if ready, err := h.Prepare(p); err != nil || time.Now().After(deadline) {
			t.Fatalf("not ready: %v", err)
		} else if ready.Ready {
			return
		}
	}
}

// TestRevoked: what the host does not allow any more ends, at once.
func TestRevoked(t *testing.T) {
	given := Allowed{Enabled: true, Owners: []string{"uid:1"}, MaxRate: 5, Targets: map[string]guard.Limits{"a:80": {Rate: 5}, "b:80": {}}}
	for name, x := range map[string]struct {
		change func(*Allowed)
		want   string
	}{
		"off":             {func(a *Allowed) { a.Enabled = false }, "load.enabled is false by now"},
		"no owner":        {func(a *Allowed) { a.Owners = []string{"uid:2"} }, "load.owners does not name uid:1 by now"},
		"no target":       {func(a *Allowed) { a.Targets = map[string]guard.Limits{"a:80": {Rate: 5}} }, `load.targets says something else of "b:80" by now`},
		"another limit":   {func(a *Allowed) { a.Targets = map[string]guard.Limits{"a:80": {Rate: 4}, "b:80": {}} }, `load.targets says something else of "a:80" by now`},
		"another rate":    {func(a *Allowed) { a.MaxRate = 4 }, "load.max_rate"},
		"another secret":  {func(a *Allowed) { a.Secrets = "/elsewhere" }, ""},
		"one target more": {func(a *Allowed) { a.Targets = map[string]guard.Limits{"a:80": {Rate: 5}, "b:80": {}, "c:80": {}} }, ""},
	} {
		var now atomic.Pointer[Allowed]
		now.Store(&given)
		h, stop := processHost(t, shell(readyScript), func() Allowed { return *now.Load() })
		p := gang.Prepare{Run: event.NewLoadID("uid:1", name), Attempt: 1, Owner: "uid:1", Bundle: cluster.Hash{1}, Shares: []int{1}}
		untilReady(t, h, p)
		changed := given
		x.change(&changed)
		now.Store(&changed)
		h.look(time.Now())
		if got := h.Counted(t.Context(), gang.Ask{Run: p.Run}); (got.Stage == gang.Broken) != (x.want != "") || !strings.Contains(got.Why, x.want) {
			t.Errorf("%s: %s, %q, want %q", name, got.Stage, got.Why, x.want)
		}
		stop()
	}
}

// TestRedealIsSaid: what a slice was told of others' shares a new holder hears from it.
func TestRedealIsSaid(t *testing.T) {
	h, stop := processHost(t, shell(readyScript), func() Allowed { return Allowed{Enabled: true, Owners: []string{"*"}} })
	defer stop()
	run := event.NewLoadID("uid:1", "k")
	p := gang.Prepare{Run: run, Attempt: 1, Owner: "uid:1", Bundle: cluster.Hash{1}, Shares: []int{1}}
	untilReady(t, h, p)
	if err := h.Start(gang.Start{Run: run, Attempt: 1, At: Clock()}); err != nil {
		t.Fatal(err)
	}
	for _, x := range []gang.Redeal{{Run: run, Turn: 1, From: 230, Shares: []int{2}}, {Run: run, Turn: 1, From: 500, Shares: []int{3}}} { // told again it changes nothing
		if err := h.Redeal(x); err != nil {
			t.Fatal(err)
		}
		if got := h.Counted(t.Context(), gang.Ask{Run: run}); got.Redeal == nil || got.Redeal.From != 230 {
			t.Errorf("%+v", got)
		}
	}
}

// TestMain is the process of TestUser as well: this program itself, as that of a daemon is.
func TestMain(m *testing.M) {
	if os.Getenv("SKEIN_TEST_NICE") != "" {
		os.Exit(niceRole())
	}
	if file := os.Getenv("SKEIN_TEST_DAEMON"); file != "" {
		os.Exit(daemonRole(file))
	}
	if len(os.Args) == 2 && os.Args[1] == "load-slice" {
		fmt.Fprintf(os.Stderr, "uid %d\n", os.Getuid())
		os.Exit(3)
	}
	os.Exit(m.Run())
}

// daemonRole is a host whose engine says its process in a file, and goes on for ever.
func daemonRole(file string) int {
	h, err := New(Options{
		Self: "n1", Argv: []string{"/bin/sh", "-c", `trap "" TERM HUP INT; echo $$ >"` + file + `.new"; mv "` + file + `.new" "` + file + `"; while :; do sleep 1; done`},
		Allowed: func() Allowed { return Allowed{Enabled: true, Owners: []string{"*"}} }, Never: func() []netip.Prefix { return nil }, Running: func() int { return 0 }, Logger: zerolog.Nop(),
		Fetch: func(context.Context, cluster.Hash) ([]byte, error) { return []byte("{}"), nil },
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	go func() {
		for p := (gang.Prepare{Run: event.NewLoadID("uid:1", "k"), Attempt: 1, Owner: "uid:1", Bundle: cluster.Hash{1}, Shares: []int{1}}); ; time.Sleep(10 * time.Millisecond) {
			if _, err := h.Prepare(p); err == nil {
				return
			}
		}
	}()
	_ = h.Run(context.Background())
	return 0
}

// TestDiesWithDaemon: the engine of a daemon that is killed is gone, whatever it does.
func TestDiesWithDaemon(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("elsewhere the kernel does not do so")
	}
	file := filepath.Join(t.TempDir(), "pid")
	daemon := exec.Command(os.Args[0])
	daemon.Env, daemon.Stderr = append(os.Environ(), "SKEIN_TEST_DAEMON="+file), os.Stderr
	if err := daemon.Start(); err != nil {
		t.Fatal(err)
	}
	defer daemon.Process.Kill() //nolint:errcheck // it is killed below
	pid := 0
	for deadline := time.Now().Add(time.Minute); pid == 0; time.Sleep(10 * time.Millisecond) {
		text, _ := os.ReadFile(file)
		if pid, _ = strconv.Atoi(strings.TrimSpace(string(text))); time.Now().After(deadline) {
			t.Fatal("the engine does not begin")
		}
	}
	if err := daemon.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = daemon.Wait() // it was killed
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil || strings.Contains(string(stat), ") Z ") { // nobody may wait for it here
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the engine goes on: %s", stat)
		}
	}
}

// TestUser: the engine has the rights of load.user, or does not begin.
func TestUser(t *testing.T) {
	nobody, err := user.Lookup("nobody")
	if err != nil {
		t.Skip(err)
	}
	for name, want := range map[string]string{"nobody": "uid " + nobody.Uid, "root": "root", "nobody-at-all": "load.user: "} {
		if os.Geteuid() != 0 {
			want = "load.user: "
		}
		h, stop := processHost(t, nil, func() Allowed { return Allowed{Enabled: true, Owners: []string{"*"}, User: name} })
		p := gang.Prepare{Run: event.NewLoadID("uid:1", name), Attempt: 1, Owner: "uid:1", Bundle: cluster.Hash{1}, Shares: []int{1}}
		if _, err := h.Prepare(p); err != nil {
			t.Fatal(err)
		}
		x := gang.Counted{}
		for deadline := time.Now().Add(time.Minute); x.Stage != gang.Broken; x = h.Counted(t.Context(), gang.Ask{Run: p.Run, Wait: 100}) {
			if time.Now().After(deadline) {
				t.Fatalf("%s: %+v", name, x)
			}
		}
		if !strings.Contains(x.Why, want) {
			t.Errorf("%s: %s, want %q", name, x.Why, want)
		}
		stop()
	}
}

// TestBreakable: a test goes on that breaks its targets only where all of them say so.
func TestBreakable(t *testing.T) {
	list, err := guard.ParseList(map[string]guard.Limits{"a:80": {AllowBreak: true}, "b:80": {}})
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]bool{"http://a/": true, "http://b/": false, "http://a/\"\n[[flow.f]]\nget = \"http://b/": false, "http://${x}/": false} {
		s, err := load.Parse("vars = { x = \"a\" }\ntraffic.main = { flow = \"f\", users = 1, for = \"1s\" }\n[[flow.f]]\nget = \"" + text + "\"\n")
		if err != nil {
			t.Fatal(err)
		}
		p, err := s.Compile(load.Inputs{})
		if err != nil {
			t.Fatal(err)
		}
		if text == "http://${x}/" && !p.Steps[0].Dynamic {
			continue // a constant is known before
		}
		if breakable(p, list) != want {
			t.Errorf("%s: %t", text, !want)
		}
	}
}
