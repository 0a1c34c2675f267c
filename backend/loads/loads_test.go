package loads

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/eventlog/state"
	"github.com/skein-project/skein/forward"
	"github.com/skein-project/skein/load/bundle"
	"github.com/skein-project/skein/load/guard"
	"github.com/skein-project/skein/load/report"
	"github.com/skein-project/skein/load/slice"
)

// TestMain is also the process of a slice.
func TestMain(m *testing.M) {
	if os.Getenv("SKEIN_TEST_SLICE") != "" && len(os.Args) > 1 && os.Args[1] == "load-slice" {
		os.Exit(slice.Main(os.Stdin, os.Stdout))
	}
	os.Exit(m.Run())
}

// cluster1 is a cluster of one host: its log, its artefacts, its part in tests.
type cluster1 struct {
	reg     *prometheus.Registry
	mu      sync.Mutex
	st      *state.State
	seq     uint64
	changed chan struct{}
	blobs   map[cluster.Hash][]byte
	host    *slice.Host
	allowed slice.Allowed
	running atomic.Int64
}

func (c *cluster1) View(f func(*state.State)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f(c.st)
}

func (c *cluster1) Changed() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.changed
}

func (c *cluster1) Set(_ context.Context, b event.Register) error {
	if err := b.Check(); err != nil {
		return err
	}
	body, err := json.Marshal(b)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seq++
	c.st.Apply(event.Event{Source: event.SourceID{Node: "n1", Inc: 1}, Seq: c.seq, HLC: cluster.NewHLC(time.Unix(int64(1e9+c.seq), 0), 0), Term: 1, Kind: b.Kind(), Body: body}) //nolint:gosec // a few
	close(c.changed)
	c.changed = make(chan struct{})
	return nil
}

func (c *cluster1) put(text []byte) cluster.Hash {
	c.mu.Lock()
	defer c.mu.Unlock()
	h := cluster.Hash{byte(len(c.blobs) + 1)}
	c.blobs[h] = text
	return h
}

func (c *cluster1) get(_ context.Context, h cluster.Hash, _ int64) ([]byte, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if text, ok := c.blobs[h]; ok {
		return text, nil
	}
	return nil, errors.New("not here")
}

// holder is a new holder: it knows nothing but what the log says.
func (c *cluster1) holder(t *testing.T) *Loads {
	t.Helper()
	r, err := forward.New(forward.Options{Self: "n1", Lease: func() forward.Lease { return forward.Lease{Holder: "n1", Holding: true} }})
	if err != nil {
		t.Fatal(err)
	}
	l := New(Options{
		Self: "n1", Log: c, Scheduler: c, Remote: r, Host: c.host, Members: func() []cluster.NodeID { return []cluster.NodeID{"n1"} }, Holder: func() cluster.NodeID { return "n1" },
		Get: c.get, Kept: c.get, Spread: func(context.Context, []cluster.Hash) error { return nil }, AwaitHolder: func(context.Context) error { return nil },
		Keep: func(r io.Reader, _ int64) (cluster.Hash, error) {
			text, err := io.ReadAll(r)
			return c.put(text), err
		},
		Watch: func(ctx context.Context, q forward.LoadWatch) (api.LoadLive, error) {
			return forward.AskHolder(ctx, r, forward.WatchLoad, "", q)
		},
		Aware: func(event.Kind) error { return nil }, Logger: zerolog.Nop(),
	})
	l.Handle(r)
	return l
}

func newCluster(t *testing.T, allowed slice.Allowed) *cluster1 {
	t.Helper()
	t.Setenv("SKEIN_TEST_SLICE", "1")
	c := &cluster1{st: state.New(), changed: make(chan struct{}), blobs: map[cluster.Hash][]byte{}, allowed: allowed}
	c.reg = prometheus.NewRegistry()
	var err error
	if c.host, err = slice.New(slice.Options{
		Self: "n1", Cluster: "c9", Agent: "test", Argv: []string{os.Args[0], "load-slice"}, Allowed: func() slice.Allowed { return c.allowed },
		Member: func(_, group string) bool { return group == "qa" }, Never: func() []netip.Prefix { return nil },
		Fetch:   func(ctx context.Context, h cluster.Hash) ([]byte, error) { return c.get(ctx, h, bundle.Max) },
		Running: func() int { return int(c.running.Load()) }, Logger: zerolog.Nop(), Registerer: c.reg,
	}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); _ = c.host.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	for deadline := time.Now().Add(10 * time.Second); !c.host.Up(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the host does not run")
		}
	}
	return c
}

// metric is the sum of a metric of the host.
func (c *cluster1) metric(t *testing.T, name string) (sum float64) {
	t.Helper()
	all, err := c.reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range all {
		for _, m := range f.GetMetric() {
			if f.GetName() == name {
				sum += m.GetCounter().GetValue() + float64(m.GetHistogram().GetSampleCount())
			}
		}
	}
	return sum
}

// term carries tests out until the returned func is called.
func term(t *testing.T, l *Loads, n cluster.Term) (end func()) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); l.Run(ctx, n) }()
	var once sync.Once
	end = func() { once.Do(func() { cancel(); <-done }) }
	t.Cleanup(end)
	return end
}

// follower adds up what it is told.
type follower struct {
	after   string
	classes map[string]uint64
	last    api.LoadLive
}

func (f *follower) ask(t *testing.T, l *Loads, id event.LoadID) api.LoadLive {
	t.Helper()
	x, err := l.LoadLive(t.Context(), id, f.after, 200*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	if x.Again || f.classes == nil {
		f.classes = map[string]uint64{}
	}
	for _, s := range x.Steps {
		for c, n := range s.Classes {
			f.classes[c] += n
		}
	}
	f.after, f.last = x.Next, x
	return x
}

func (f *follower) until(t *testing.T, l *Loads, id event.LoadID, what string, ok func(api.LoadLive) bool) {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); !ok(f.ask(t, l, id)); {
		if time.Now().After(deadline) {
			t.Fatalf("%s: %+v", what, f.last)
		}
	}
}

func ended(x api.LoadLive) bool { return x.State == event.LoadEnded }

func (c *cluster1) report(t *testing.T, l *Loads, id event.LoadID) *report.Report {
	t.Helper()
	x, err := l.LoadReport(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	d, err := report.Parse(x.Report)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func (c *cluster1) submit(t *testing.T, l *Loads, key string, b *bundle.Bundle) (event.LoadID, error) {
	t.Helper()
	text, err := b.Encode()
	if err != nil {
		t.Fatal(err)
	}
	out, err := l.SubmitLoad(t.Context(), "uid:1", api.LoadRequest{Key: key, Bundle: c.put(text)})
	return out.Run, err
}

// TestRun: a test runs, its followers, its report and its target agree to the count, also
// when another holder goes on with it; it can be stopped, and what is not allowed is
// refused.
func TestRun(t *testing.T) {
	var hits atomic.Uint64
	var setups atomic.Uint64
	target := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/setup":
			setups.Add(1)
			fmt.Fprint(w, `{"token":"t0k"}`)
			return
		case !strings.HasPrefix(r.UserAgent(), "test (cluster c9, run l"):
			w.WriteHeader(http.StatusTeapot)
		case r.Header.Get("Authorization") != "Bearer t0k":
			w.WriteHeader(http.StatusUnauthorized)
		}
		hits.Add(1)
	}))
	defer target.Close()
	at := strings.TrimPrefix(target.URL, "http://")
	c := newCluster(t, slice.Allowed{Enabled: true, Owners: []string{"group:qa"}, Targets: map[string]guard.Limits{at: {}}, MaxRate: 1000})
	l := c.holder(t)
	for text, want := range map[string]string{
		"http://127.0.0.1:9/":     "load.targets has nothing for 127.0.0.1:9",
		"http://169.254.169.254/": "nothing is ever sent to",
	} {
		if _, err := c.submit(t, l, text, &bundle.Bundle{URL: &bundle.URL{URL: text, Rate: 1, Seconds: 1}}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
	if _, err := c.submit(t, l, "much", &bundle.Bundle{URL: &bundle.URL{URL: target.URL, Rate: 2000, Users: 10, Seconds: 1}}); err == nil || !strings.Contains(err.Error(), "2000 requests/s") {
		t.Errorf("more than is allowed: %v", err)
	}
	c.running.Store(3) // chunks, for which the start waits
	scenario := &bundle.Bundle{Scenario: `
warmup = "1s"
thresholds = ["rate(failed)<1%"]
traffic.main = { flow = "main", rate = 40, for = "5s" }
[[flow.setup]]
get = "` + target.URL + `/setup"
extract.token = { json = "$.token" }
[[flow.main]]
name = "get"
get = "` + target.URL + `/"
auth = { bearer = "${token}" }
`}
	id, err := c.submit(t, l, "k", scenario)
	if err != nil {
		t.Fatal(err)
	}
	end := term(t, l, 1)
	var f follower
	f.until(t, l, id, "it waits", func(x api.LoadLive) bool { return strings.Contains(x.Doing, "3 chunks") })
	if !c.host.Held() {
		t.Error("the host is not held")
	}
	c.running.Store(0)
	f.until(t, l, id, "it runs", func(x api.LoadLive) bool { return f.classes["ok"] > 20 })
	end()
	// Another holder.
	l = c.holder(t)
	end = term(t, l, 2)
	f.until(t, l, id, "it ends", ended)
	d := c.report(t, l, id)
	if !reflect.DeepEqual(f.classes, d.Classes) {
		t.Errorf("followers were told %v, the report has %v", f.classes, d.Classes)
	}
	// What was due before the warm-up ended is counted in it or, as late as it was, behind it; what
	// was due behind it is counted in it only as far as its last window was read late.
	took, gap := d.Latency.Max, d.Generator.Gap
	least, most := 160-40*gap-4, 160+40*(took+gap)+4
	if n := float64(d.Requests); n < least || n > most {
		t.Errorf("%d requests, want %g-%g as requests took up to %g s and windows were up to %g s late", d.Requests, least, most, took, gap)
	}
	if hits.Load() != 200 || setups.Load() != 1 || d.Verdict != "passed" && d.Verdict != "suspect" || len(d.Hosts) != 1 || d.Hosts[0].Requests != d.Requests {
		t.Errorf("%s %v: %d requests, the target had %d and %d setups, hosts %+v", d.Verdict, d.Why, d.Requests, hits.Load(), setups.Load(), d.Hosts)
	}
	shown := 0.0
	for _, p := range d.Timeline { // with its warm-up
		shown += p.Rate * p.Seconds
	}
	if math.Abs(shown-200) > 0.5 {
		t.Errorf("the line of time has %g requests: %+v", shown, d.Timeline)
	}
	for name, want := range map[string]float64{"skein_load_requests_total": float64(hits.Load() + setups.Load()), "skein_load_blocked_total": 0} {
		if got := c.metric(t, name); got != want {
			t.Errorf("%s is %g, want %g", name, got, want)
		}
	}
	if c.metric(t, "skein_load_late_seconds") == 0 {
		t.Error("no lateness is counted")
	}
	if len(d.Thresholds) != 1 || !d.Thresholds[0].OK {
		t.Errorf("%+v", d.Thresholds)
	}
	end()
	// Whoever comes late, to a holder that has not carried it out, has the same.
	l = c.holder(t)
	var late follower
	late.until(t, l, id, "it has ended", ended)
	if !reflect.DeepEqual(late.classes, d.Classes) {
		t.Errorf("late: %v, want %v", late.classes, d.Classes)
	}
	end = term(t, l, 3)
	id, err = c.submit(t, l, "long", &bundle.Bundle{URL: &bundle.URL{URL: target.URL + "/x", Rate: 20, Users: 10, Seconds: 600}})
	if err != nil {
		t.Fatal(err)
	}
	var g follower
	g.until(t, l, id, "it runs", func(api.LoadLive) bool { return g.classes["http4xx"] > 5 })
	if _, err := l.StopLoad(t.Context(), "uid:1", id, api.LoadStopRequest{Reason: "enough"}); err != nil {
		t.Fatal(err)
	}
	g.until(t, l, id, "it ends", ended)
	after := hits.Load() - 200
	d = c.report(t, l, id) // of what was interrupted the target may have heard or not
	if d.Verdict != "stopped" || !reflect.DeepEqual(g.classes, d.Classes) || after > d.Requests || after+d.Classes["interrupted"] < d.Requests {
		t.Errorf("%s %v, %v, told %v, the target had %d", d.Verdict, d.Why, d.Classes, g.classes, after)
	}
	if c.host.Held() {
		t.Error("the host is still held")
	}
	end()
}

// TestHostsDecide: what the configuration of a host does not allow it does not do, whoever
// asks for it.
func TestHostsDecide(t *testing.T) {
	c := newCluster(t, slice.Allowed{})
	l := c.holder(t)
	b := &bundle.Bundle{URL: &bundle.URL{URL: "http://127.0.0.1:9/", Rate: 1, Seconds: 1}}
	for _, step := range []struct {
		change func()
		want   string
	}{
		{func() {}, "load.enabled is false"},
		{func() { c.allowed.Enabled = true }, "load.owners does not name uid:1"},
		{func() { c.allowed.Owners = []string{"uid:1"} }, "load.targets has nothing"},
		{func() { c.allowed.Targets = map[string]guard.Limits{"127.0.0.1:9": {}} }, ""},
	} {
		step.change()
		_, err := c.submit(t, l, step.want+"!", b)
		if (err == nil) != (step.want == "") || err != nil && !strings.Contains(err.Error(), step.want) {
			t.Errorf("%v, want %q", err, step.want)
		}
	}
	if _, err := c.submit(t, l, "bad", &bundle.Bundle{Scenario: "x = 1"}); err == nil {
		t.Error("a scenario that makes no sense is taken")
	}
	if _, err := l.SubmitLoad(t.Context(), "uid:1", api.LoadRequest{Key: "k", Bundle: cluster.Hash{200}}); err == nil || !bytes.Contains([]byte(err.Error()), []byte("not in the cluster")) {
		t.Errorf("a bundle that is nowhere: %v", err)
	}
	if _, err := l.StopLoad(t.Context(), "uid:1", event.NewLoadID("uid:1", "nope"), api.LoadStopRequest{}); err == nil {
		t.Error("a test that is none was stopped")
	}
}
