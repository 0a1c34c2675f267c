package zones

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/coord"
	"github.com/skein-project/skein/coord/distance"
	"github.com/skein-project/skein/coord/wire"
	"github.com/skein-project/skein/forward"
	"github.com/skein-project/skein/overload"
	"github.com/skein-project/skein/scheduler/plan"
)

// world is three hosts in two zones, and one in none.
type world struct {
	mu      sync.Mutex
	view    *coord.View
	workers []plan.WorkerView
	events  []event.ZoneHealth
	start   time.Time
	*Board
	router *forward.Router
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{view: &coord.View{Self: "n1"}, start: time.Now()}
	w.view.Lease.Role, w.view.Lease.Holder, w.view.Lease.Term, w.view.Lease.Ready = cluster.RoleHolder, "n1", 3, true
	w.view.Zones = map[string]distance.Zone{"ams": {RTT: 40 * time.Millisecond, From: distance.Measured}, "fra": {RTT: 40 * time.Millisecond, From: distance.Reported}}
	w.view.Lease.Config.Voters = []cluster.NodeID{"n1", "n3"}
	for node, zone := range map[cluster.NodeID]string{"n1": "ams", "n2": "ams", "n3": "fra", "n4": ""} {
		m := coord.MemberView{Health: cluster.Alive, Heard: true, Level: event.Level}
		m.Node, m.Zone = node, zone
		w.view.Members = append(w.view.Members, m)
		w.workers = append(w.workers, plan.WorkerView{Worker: node, Connected: true, Ready: true, Slots: 2, Window: 6, Tries: 1})
	}
	var err error
	w.router, err = forward.New(forward.Options{Self: "n1", Lease: func() forward.Lease {
		v := w.seen()
		return forward.Lease{Holder: v.Lease.Holder, Holding: v.Lease.Role == cluster.RoleHolder}
	}, Now: w.now, Logger: zerolog.Nop(), Registerer: prometheus.NewRegistry()})
	if err != nil {
		t.Fatal(err)
	}
	w.Board = New(Options{
		View: w.seen, Workers: func() []plan.WorkerView {
			w.mu.Lock()
			defer w.mu.Unlock()
			return slices.Clone(w.workers)
		},
		Remote: w.router, Now: w.now,
		Note: func(_ context.Context, _ event.Kind, body any) {
			w.change(func() { w.events = append(w.events, body.(event.ZoneHealth)) }) //nolint:forcetypeassert,errcheck // always one
		},
		Logger: zerolog.Nop(), Registerer: prometheus.NewRegistry(),
	})
	w.Handle(w.router)
	return w
}

func (w *world) now() time.Duration { return time.Since(w.start) }

// seen is a copy of the view.
func (w *world) seen() *coord.View {
	w.mu.Lock()
	defer w.mu.Unlock()
	v := *w.view
	v.Members = slices.Clone(v.Members)
	return &v
}

// change changes the world at once.
func (w *world) change(do func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	do()
}

// told is what the log has heard.
func (w *world) told() []event.ZoneHealth {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.events)
}

func (w *world) member(n cluster.NodeID) *coord.MemberView {
	for i := range w.view.Members {
		if w.view.Members[i].Node == n {
			return &w.view.Members[i]
		}
	}
	return nil
}

// fakeLog has jobs.
type fakeLog struct {
	specs map[job.ID]job.Spec
	open  func() []Placed
}

func (f fakeLog) Spec(id job.ID) (job.Spec, bool) { s, ok := f.specs[id]; return s, ok }

func (f fakeLog) Open() []Placed {
	if f.open == nil {
		return nil
	}
	return f.open()
}

// gauges counts what a collector tells.
func gauges(c prometheus.Collector) int {
	out := make(chan prometheus.Metric, 100)
	c.Collect(out)
	return len(out)
}

// TestBoard: the holder judges, the log hears of what is lost, others are told. Who does
// not hold says what it sees.
func TestBoard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go func() { _ = w.Run(ctx) }()
		for i := range w.workers {
			w.change(func() { w.workers[i].Connected = false }) // which the new holder waits for
		}
		time.Sleep(10 * time.Second)
		for i := range w.workers {
			w.change(func() { w.workers[i].Connected = true })
		}
		time.Sleep(20 * time.Second)
		got, err := w.Zones(t.Context())
		if err != nil || len(got.Zones) != 2 || got.Holder != "n1" || got.Term != 3 || got.Unzoned != 1 || len(w.told()) != 0 {
			t.Fatalf("%+v %v, told %+v", got, err, w.told())
		}
		if z := got.Zones[0]; z.Zone != "ams" || z.Health != "healthy" || z.Hosts != 2 || z.Alive != 2 || z.Slots != 4 || z.Free != 2 || z.Voters != 1 || *z.RTTSeconds != 0.04 || z.RTTFrom != "measured" || got.Zones[1].RTTFrom != "reported" || z.ForSeconds < 25 {
			t.Errorf("%+v", z)
		}
		w.change(func() {
			w.member("n3").Health, w.view.Zones = cluster.Suspect, map[string]distance.Zone{"ams": w.view.Zones["ams"]}
		})
		time.Sleep(2 * time.Second)
		if len(w.told()) != 1 || w.told()[0] != (event.ZoneHealth{Zone: "fra", Health: "unhealthy", Was: "healthy", Why: "none of 1 hosts is alive", Hosts: 1}) {
			t.Fatalf("%+v", w.told())
		}
		if got, _ := w.Zones(t.Context()); got.Zones[1].Health != "unhealthy" || got.Zones[1].RTTSeconds != nil {
			t.Errorf("%+v", got.Zones[1])
		}
		if n := gauges(w.Board); n != 2 {
			t.Errorf("%d gauges", n)
		}
		w.change(func() { w.member("n3").Health = cluster.Alive })
		time.Sleep(15 * time.Second)
		if len(w.told()) != 2 || w.told()[1].Health != "healthy" || w.told()[1].Alive != 1 {
			t.Fatalf("%+v", w.told())
		}
		// Half of the workers of a zone are overloaded by their own word.
		w.change(func() { w.member("n2").Load = &wire.Load{wire.LoadLevel: uint32(overload.High)} })
		time.Sleep(2 * time.Second)
		if len(w.told()) != 3 || w.told()[2].Health != "degraded" || w.told()[2].Why != "of 2 workers: 1 overloaded" {
			t.Fatalf("%+v", w.told())
		}
		// Its last member takes another zone: there is no such zone any more.
		w.change(func() { w.member("n3").Zone = "ams" })
		time.Sleep(2 * time.Second)
		if last := w.told()[len(w.told())-1]; last.Zone == "fra" && (last.Health != "unhealthy" || last.Hosts != 0) {
			t.Errorf("%+v", last)
		}
		if got, _ := w.Zones(t.Context()); len(got.Zones) != 1 {
			t.Errorf("%+v", got)
		}
		// A member that does not know the event: nothing is written.
		n := len(w.told())
		w.change(func() { w.member("n4").Level = event.KindZoneHealth.Since() - 1 })
		w.change(func() {
			w.member("n1").Health, w.member("n2").Health, w.member("n3").Health = cluster.Dead, cluster.Dead, cluster.Dead
		})
		time.Sleep(2 * time.Second)
		if len(w.told()) != n {
			t.Errorf("%+v", w.told()[n:])
		}
		// Without a holder this host tells what it sees.
		w.change(func() { w.view.Lease.Role, w.view.Lease.Holder = cluster.RoleStandby, "" })
		time.Sleep(2 * time.Second)
		if got, err := w.Zones(t.Context()); err != nil || got.Holder != "" || got.Zones[0].Health != "unhealthy" {
			t.Errorf("%+v %v", got, err)
		}
		if n := gauges(w.Board); n != 0 {
			t.Errorf("%d gauges of a host that does not hold", n)
		}
	})
}

// TestLost: the status says which zones are gone, but not of one host what it says anyway.
func TestLost(t *testing.T) {
	v := &coord.View{}
	for i, z := range []string{"ams", "ams", "fra", "fra", "rome", ""} {
		m := coord.MemberView{Health: cluster.Dead}
		if m.Zone = z; i == 2 {
			m.Health = cluster.Alive
		}
		v.Members = append(v.Members, m)
	}
	if got := Lost(v); len(got) != 1 || got[0] != "zone ams: none of 2 hosts is alive" {
		t.Errorf("%q", got)
	}
}

// TestSubmitting: the holder chooses the zones of a job, and the same job again stays
// where it was put.
func TestSubmitting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		for i := range w.workers {
			w.workers[i].Tries = 0
		}
		w.look()
		time.Sleep(20 * time.Second)
		w.look()
		var got []api.SubmitRequest
		known := map[job.ID]job.Spec{}
		w.o.Log = fakeLog{specs: known}
		submit := w.Submitting(func(_ context.Context, by forward.Asker, req api.SubmitRequest) (api.SubmitResponse, error) {
			got = append(got, req)
			id := job.NewID(by.Actor, req.Spec.Key)
			if have, ok := known[id]; ok && !slices.Equal(have.Zones, req.Spec.Zones) {
				return api.SubmitResponse{}, api.Errorf(api.CodeConflict, "another")
			}
			known[id] = req.Spec
			return api.SubmitResponse{Job: id, Spec: req.Spec}, nil
		})
		ask := func(key string, count int, prefer, zones []string) ([]string, error) {
			req := api.SubmitRequest{ZoneCount: count, ZonePrefer: prefer, Spec: job.Spec{Key: key, Iterations: 100, Chunk: 10, Policy: job.Policy{Zones: zones}}.WithDefaults()}
			out, err := submit(t.Context(), forward.Asker{Actor: "user:ann"}, req)
			return out.Spec.Zones, err
		}
		for name, c := range map[string]struct {
			count         int
			prefer, zones []string
			want          []string
			problem       string
		}{
			"none":      {0, nil, nil, nil, ""},
			"both":      {2, nil, nil, []string{"ams", "fra"}, ""},
			"preferred": {1, []string{"fra"}, nil, []string{"fra"}, ""},
			"among":     {1, []string{"ams"}, []string{"fra"}, []string{"fra"}, ""},
			"too many":  {3, nil, nil, nil, "zone_count: 3 zones are wanted of 2"},
			"unknown":   {1, []string{"mars"}, nil, nil, "zone_count: no host is in zone mars"},
			"negative":  {-1, nil, nil, nil, "zone_count, which is at least 1"},
			"no count":  {0, []string{"ams"}, nil, nil, "zone_count, which is at least 1"},
			"huge":      {65, nil, nil, nil, "at most 64"},
		} {
			zones, err := ask(name, c.count, c.prefer, c.zones)
			if c.problem != "" {
				if !api.IsCode(err, api.CodeInvalidJob) || !strings.Contains(err.Error(), c.problem) {
					t.Errorf("%s: %v", name, err)
				}
				continue
			}
			if err != nil || !slices.Equal(zones, c.want) {
				t.Errorf("%s: %v %v, want %v", name, zones, err, c.want)
			}
		}
		// The preferred zone is lost: what went there stays, also if asked for again.
		w.member("n3").Health = cluster.Dead
		w.look()
		if zones, err := ask("preferred", 1, []string{"fra"}, nil); err != nil || !slices.Equal(zones, []string{"fra"}) {
			t.Errorf("again: %v %v", zones, err)
		}
		if zones, err := ask("new", 1, []string{"fra"}, nil); err != nil || !slices.Equal(zones, []string{"ams"}) {
			t.Errorf("when its zone is lost: %v %v", zones, err)
		}
		if _, err := ask("two", 2, nil, nil); !api.IsCode(err, api.CodeInvalidJob) || !strings.Contains(err.Error(), "unhealthy") {
			t.Errorf("two of one: %v", err)
		}
		// The same key for other zones is another job.
		if _, err := ask("preferred", 2, nil, nil); err == nil {
			t.Error("a job of one zone is one of two")
		}
	})
}

// TestGivenCounts: what was chosen a moment ago counts before the workers show it.
func TestGivenCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		for i := range w.workers {
			w.workers[i].Tries = 0
		}
		w.view.Zones["fra"] = distance.Zone{RTT: 30 * time.Millisecond, From: distance.Measured} // a little nearer
		w.workers = append(w.workers[:0:0], w.workers...)
		for i := range w.workers {
			w.workers[i].Slots = 4
		}
		w.o.Log = fakeLog{}
		seen := map[string]int{}
		for i := range 40 {
			zones, err := w.choose(job.NewID("user:ann", fmt.Sprint(i)), api.SubmitRequest{ZoneCount: 1, Spec: job.Spec{Iterations: 4, Chunk: 1}})
			if err != nil {
				t.Fatal(err)
			}
			seen[zones[0]]++
		}
		if seen["ams"] < 10 || seen["fra"] < 10 {
			t.Errorf("40 jobs at once: %v", seen)
		}
		time.Sleep(givenTime)
		if _, err := w.choose("j", api.SubmitRequest{ZoneCount: 1, Spec: job.Spec{Iterations: 4, Chunk: 1}}); err != nil || len(w.given) != 1 {
			t.Errorf("what was given is remembered for ever: %d, %v", len(w.given), err)
		}
	})
}
