package loadtest

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/cmd/skein/cli"
	"github.com/skein-project/skein/load/report"
	"github.com/skein-project/skein/load/rule"
)

// TestEndIsAwaited: followers hear of the end from the holder; the host that they ask may know
// of it a moment later.
func TestEndIsAwaited(t *testing.T) {
	var asked atomic.Int32
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		r := api.LoadRun{ID: "l1", State: event.LoadStarted}
		if asked.Add(1) > 2 {
			r.State = event.LoadEnded
		}
		_ = json.NewEncoder(w).Encode(r)
	}))
	defer s.Close()
	c := api.New(s.URL, s.URL, http.DefaultTransport)
	defer c.Close()
	if err := awaitEnd(t.Context(), c, "l1"); err != nil || asked.Load() != 3 {
		t.Errorf("%v, asked %d times", err, asked.Load())
	}
}

// daemon answers for one test, which counts a second with each line and ends when it is stopped.
func daemon(t *testing.T, stops *atomic.Int32, heard chan<- struct{}) *api.Client {
	t.Helper()
	ended := make(chan struct{})
	doc, err := json.Marshal(&report.Report{Version: report.Version, Name: "shop", Verdict: rule.Stopped, Why: []string{"interrupted"}})
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		run := api.LoadRun{ID: "l1", State: event.LoadStarted}
		select {
		case <-ended:
			run.State, run.Verdict, run.Report = event.LoadEnded, "stopped", &cluster.Hash{1}
		default:
		}
		out := json.NewEncoder(w)
		switch r.URL.Path {
		case "/v1/load/l1":
			_ = out.Encode(run)
		case "/v1/load/l1/stop":
			if stops.Add(1) == 1 {
				w.WriteHeader(http.StatusServiceUnavailable)
				_ = out.Encode(api.Errorf(api.CodeNoHolder, "nobody holds the lease"))
				return
			}
			close(ended)
			_ = out.Encode(run)
		case "/v1/load/l1/report":
			_ = out.Encode(api.LoadReport{Report: doc})
		case "/v1/load/l1/follow":
			step := func(n uint64) []api.LoadStep {
				return []api.LoadStep{{Name: "get", Requests: n, Classes: map[string]uint64{"ok": n}}, {Name: "pay"}}
			}
			_ = out.Encode(api.LoadLive{State: event.LoadQueued, Doing: "hosts are asked"})
			_ = out.Encode(api.LoadLive{State: event.LoadStarted, Doing: "running", Steps: []api.LoadStep{{Name: "get"}, {Name: "pay"}}})
			_ = out.Encode(api.LoadLive{State: event.LoadStarted, Doing: "running", Next: "1", At: 1, Of: 9, Seconds: 1, Steps: step(30)})
			_ = http.NewResponseController(w).Flush()
			heard <- struct{}{}
			select {
			case <-ended:
				_ = out.Encode(api.LoadLive{State: event.LoadEnded, Next: "2", At: 2, Of: 9, Seconds: 1, Steps: step(12), Verdict: "stopped"})
			case <-r.Context().Done():
			}
		}
	}))
	t.Cleanup(s.Close)
	c := api.New(s.URL, s.URL, http.DefaultTransport)
	t.Cleanup(c.Close)
	return c
}

// TestInterrupted: Ctrl-C has the test end that was begun here, also when nobody holds the lease for a
// while, and its report is waited for; one that is only watched goes on. What is counted meanwhile is
// a line for each step and second.
func TestInterrupted(t *testing.T) {
	for _, mine := range []bool{true, false} {
		var stdout, stderr bytes.Buffer
		var stops atomic.Int32
		heard := make(chan struct{}, 1)
		a := &cli.App{Terminal: cli.Terminal{In: strings.NewReader(""), Out: &stdout, Err: &stderr}}
		c := daemon(t, &stops, heard)
		ctx, interrupt := context.WithCancel(t.Context())
		go func() { <-heard; interrupt() }()
		file := filepath.Join(t.TempDir(), "x.csv")
		f := &runFlags{ui: uiCI, out: []string{"csv=" + file}}
		f.hosts.mine = mine
		if err := f.follow(a, ctx, c, "l1"); err != nil || a.Code != cli.ExitInterrupted {
			t.Fatalf("exit %d, %v: %s", a.Code, err, stderr.String())
		}
		if !mine {
			if n := stops.Load(); n != 0 || stdout.Len() > 0 {
				t.Errorf("who watches ended it %d times: %s", n, stdout.String())
			}
			continue
		}
		if n := stops.Load(); n != 2 || !strings.Contains(stdout.String(), "shop: stopped") {
			t.Errorf("it was told %d times to end: %s", n, stdout.String())
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var lines []string
		for _, l := range strings.Split(strings.TrimSpace(string(text)), "\n")[1:] {
			cells := strings.Split(l, ",")
			lines = append(lines, strings.Join([]string{cells[1], cells[4], cells[5]}, " "))
		}
		if want := []string{"1 get 30", "1 pay 0", "1 get 12", "1 pay 0"}; !slices.Equal(lines, want) {
			t.Errorf("%q, want %q", lines, want)
		}
	}
}

// TestRefusedByHosts: a plan that hosts do not carry is refused as one of this machine is, with what
// they say.
func TestRefusedByHosts(t *testing.T) {
	dir, err := os.MkdirTemp("", "sk") //nolint:usetesting // short enough for a socket's address
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir) //nolint:errcheck // of a temporary directory
	path := filepath.Join(dir, "s")
	l, err := net.Listen("unix", path) //nolint:noctx // at once
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if r.Method == http.MethodPut {
			_ = json.NewEncoder(w).Encode(api.Artefact{Hash: cluster.Hash{1}})
			return
		}
		w.WriteHeader(http.StatusConflict)
		_ = json.NewEncoder(w).Encode(api.Errorf(api.CodeConflict, "0 of 1 hosts may take part: n1: load.enabled is false").WithHint("docs/load.md"))
	}))
	s.Listener.Close()
	s.Listener = l
	s.Start()
	defer s.Close()
	code, out, errs := skein(t, "run", "--socket", path, "--rate", "5", "http://127.0.0.1:9/")
	if code != cli.ExitUsage || !strings.Contains(errs, "n1: load.enabled is false") || !strings.Contains(errs, "hint: docs/load.md") {
		t.Errorf("exit %d: %s%s", code, out, errs)
	}
}
