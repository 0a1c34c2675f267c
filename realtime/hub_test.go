package realtime

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/cluster/flow"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/realtime/delta"
)

// world is what the hosts of a test see, and their log.
type world struct {
	mu      sync.Mutex
	members []api.Member
	jobs    []api.Job
	runs    api.ChunkRuns
	flows   []api.Workflow
	steps   []api.WorkflowStep // of each
	tests   tests
	looks   int
	log     []event.Event
	at      api.Cursor // its end
	oldest  api.Cursor
	changed chan struct{}
	fault   error // of reading the log
}

func newWorld() *world {
	return &world{at: api.Cursor{}, changed: make(chan struct{}), members: []api.Member{{Node: "n1"}, {Node: "n2"}}}
}

func (w *world) update(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f()
	close(w.changed)
	w.changed = make(chan struct{})
}

// write appends events of a source.
func (w *world) write(node cluster.NodeID, n int) {
	w.update(func() {
		src := event.SourceID{Node: node, Inc: 1}
		for range n {
			w.at[src]++
			w.log = append(w.log, event.Event{Source: src, Seq: w.at[src], Kind: "test"})
		}
	})
}

func (w *world) Cursor() api.Cursor {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.at.Clone()
}

func (w *world) Oldest() api.Cursor {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.oldest
}

func (w *world) Changed() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.changed
}

func (w *world) Events(_ context.Context, at api.Cursor, _ time.Time, _ event.Subject) iter.Seq2[event.Event, error] {
	return func(yield func(event.Event, error) bool) {
		w.mu.Lock()
		list, oldest, fault := w.log, w.oldest, w.fault
		w.fault = nil
		w.mu.Unlock()
		if fault != nil {
			yield(event.Event{}, fault)
			return
		}
		for s, seq := range oldest {
			if at[s] < seq {
				yield(event.Event{}, api.Errorf(api.CodeCompacted, "gone"))
				return
			}
		}
		for _, e := range list {
			if e.Seq <= at[e.Source] {
				continue
			}
			at.Advance(e.Source, e.Seq)
			if !yield(e, nil) {
				return
			}
		}
	}
}

func (w *world) Members(context.Context, bool) (api.Members, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.looks++
	return api.Members{Members: slices.Clone(w.members)}, nil
}

func (w *world) Jobs(context.Context) (api.Jobs, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return api.Jobs{Jobs: slices.Clone(w.jobs)}, nil
}

func (w *world) Workflows(context.Context) (api.Workflows, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return api.Workflows{Workflows: slices.Clone(w.flows)}, nil
}

func (w *world) Workflow(_ context.Context, id flow.RunID) (api.Workflow, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range w.flows {
		if r.ID == id {
			r.Steps = w.steps
			return r, nil
		}
	}
	return api.Workflow{}, api.Errorf(api.CodeNotFound, "no run %s", id)
}

func (w *world) Job(_ context.Context, id job.ID) (api.Job, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, j := range w.jobs {
		if j.ID == id {
			return j, nil
		}
	}
	return api.Job{}, api.Errorf(api.CodeNotFound, "no job %s", id)
}

func (w *world) ChunkMap(id job.ID, _ int) (api.ChunkRuns, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.runs, nil
}

func (*world) Status(context.Context) (api.Status, error) { return api.Status{Cluster: "blue"}, nil }
func (*world) Lease(context.Context) (api.Lease, error)   { return api.Lease{}, nil }
func (*world) LeaseHistory(context.Context) (api.LeaseHistory, error) {
	return api.LeaseHistory{Terms: []api.TermRecord{{Term: 1}}}, nil
}
func (*world) Links(context.Context, cluster.NodeID) (api.Links, error) { return api.Links{}, nil }
func (*world) WatchedZones(context.Context) (api.Zones, error) {
	return api.Zones{Zones: []api.Zone{{Zone: "ams"}}}, nil
}
func (*world) Onion(context.Context) (api.Onion, error) { return api.Onion{}, nil }

// Workers does not answer: nobody holds.
func (*world) WorkerGroups(ctx context.Context) (api.Workers, error) {
	<-ctx.Done()
	return api.Workers{}, ctx.Err()
}

func (w *world) hub(boot string) *Hub {
	return New(Options{Boot: boot, Source: w, Log: w, Header: func() api.Header { return api.Header{APIVersion: "1", Node: "n1"} }})
}

func texts(list []Message) []string {
	var out []string
	for _, m := range list {
		out = append(out, m.Event+" "+string(m.Data))
	}
	return out
}

// until reads up to a message whose text begins so.
func until(t *testing.T, w *Watch, prefix string) (out []Message) {
	t.Helper()
	for range 100 {
		list, err := w.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, list...)
		for _, m := range list {
			if strings.HasPrefix(m.Event+" "+string(m.Data), prefix) {
				return out
			}
		}
	}
	t.Fatalf("no message begins with %s; there came %s", prefix, texts(out))
	return nil
}

// during reads for a while.
func during(t *testing.T, w *Watch, d time.Duration) (out []Message) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	for {
		list, err := w.Next(ctx)
		if ctx.Err() != nil {
			return append(out, list...)
		}
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, list...)
	}
}

func names(list []Message) (out []string) {
	for _, m := range list {
		out = append(out, m.Event)
	}
	return slices.Compact(out)
}

func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newWorld()
		o.members[0].SeenSeconds = new(0.5)
		h := o.hub("b")
		time.Sleep(time.Minute)
		if o.looks > 0 {
			t.Errorf("%d looks at members that nobody watches", o.looks)
		}
		w := h.Watch(Request{Topics: []string{TopicMembers, TopicStatus}, Cluster: "blue"})
		got := until(t, w, delta.Synced)
		if want := []string{"hello", "snapshot", "synced"}; !slices.Equal(names(got), want) {
			t.Errorf("a stream begins with %s, want %s", names(got), want)
		}
		if want := `{"api_version":"1","node":"n1","cluster":"blue","boot":"b","resumed":false,"may_change":false,"topics":["members","status"]}`; string(got[0].Data) != want {
			t.Errorf("hello %s", got[0].Data)
		}
		if !strings.Contains(string(got[1].Data), `"rows":[{"node":"n1",`) || !strings.Contains(string(got[1].Data), `"endpoints":[]`) {
			t.Errorf("snapshot %s", got[1].Data)
		}
		if s := string(got[2].Data); !strings.Contains(s, `"rows":[{"cluster":"blue",`) {
			t.Errorf("snapshot of the status with a header: %s", s)
		}
		if got[3].ID == "" {
			t.Error("no position when synced")
		}
		o.update(func() { o.members = []api.Member{{Node: "n1", State: cluster.Dead, SeenSeconds: new(0.7)}} })
		got = until(t, w, delta.Delta)
		if d := got[len(got)-1]; !strings.HasPrefix(string(d.Data), `{"topic":"members","set":[{"node":"n1",`) || !strings.HasSuffix(string(d.Data), `"del":["n2"]}`) {
			t.Errorf("delta %s", d.Data)
		}
		o.update(func() { o.members[0].SeenSeconds = new(4.25) })
		got = until(t, w, `gauges {"topic":"members","keys":["n1"],"cols":{"seen_seconds":[4.25]}}`)
		if slices.Contains(names(got), delta.Delta) {
			t.Errorf("an age made a difference: %s", texts(got))
		}
		looks := func() int {
			o.mu.Lock()
			defer o.mu.Unlock()
			return o.looks
		}
		before := looks()
		for range 1000 {
			o.update(func() {})
			time.Sleep(10 * time.Millisecond)
		}
		if n := looks() - before; n > 51 {
			t.Errorf("%d looks in 10 s", n)
		}
		w.Close()
		synctest.Wait()
		n := looks()
		time.Sleep(time.Minute)
		if looks() != n {
			t.Error("looks after the last reader went")
		}
	})
}

func TestNobodyHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		w := newWorld().hub("b").Watch(Request{Topics: []string{TopicMembers, TopicWorkers}})
		defer w.Close()
		got := until(t, w, delta.Synced)
		if d := time.Since(began); d > firstLook || !slices.Contains(texts(got), `snapshot {"topic":"workers","rows":[],"last":true}`) {
			t.Errorf("after %v: %s", d, texts(got))
		}
	})
}

// lastID is the newest position in a stream.
func lastID(t *testing.T, list []Message) delta.Position {
	t.Helper()
	for _, m := range slices.Backward(list) {
		if m.ID != "" {
			p, err := delta.ParsePosition(m.ID)
			if err != nil {
				t.Fatal(err)
			}
			return p
		}
	}
	t.Fatal("no position")
	return delta.Position{}
}

func TestResume(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newWorld()
		h := o.hub("b")
		r := Request{Topics: []string{TopicMembers}}
		w := h.Watch(r)
		p := lastID(t, until(t, w, delta.Synced))
		w.Close()
		time.Sleep(time.Hour)
		o.update(func() { o.members = o.members[:1] })

		r.Position = &p
		w = h.Watch(r)
		got := until(t, w, delta.Synced)
		if want := []string{"hello", "synced"}; !slices.Equal(names(got), want) || !strings.Contains(string(got[0].Data), `"resumed":true`) {
			t.Errorf("resumed with %s", texts(got))
		}
		if got = until(t, w, delta.Delta); !slices.Contains(texts(got), `delta {"topic":"members","set":[],"del":["n2"]}`) {
			t.Errorf("after the pause %s", texts(got))
		}
		w.Close()

		for name, c := range map[string]struct {
			hub  *Hub
			pos  delta.Position
			also string
			why  string
		}{
			"other daemon":    {hub: o.hub("c"), pos: p, why: "restart"},
			"other selection": {hub: h, pos: p, also: "x", why: "restart"},
			"beyond the ring": {hub: h, pos: delta.Position{Boot: p.Boot, Offset: 99}, why: "window"},
		} {
			w := c.hub.Watch(Request{Topics: r.Topics, Position: &c.pos, Selected: c.also})
			got := until(t, w, delta.Synced)
			if want := []string{"hello", "reset", "snapshot", "synced"}; !slices.Equal(names(got), want) || string(got[1].Data) != fmt.Sprintf(`{"reason":%q}`, c.why) {
				t.Errorf("%s: %s", name, texts(got))
			}
			w.Close()
		}
	})
}

// TestLag: a reader that sleeps is told everything anew, and others go on.
func TestLag(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newWorld()
		h := New(Options{Boot: "b", Source: o, Log: o, Header: func() api.Header { return api.Header{} }, RingBytes: 64 << 10})
		r := Request{Topics: []string{TopicMembers}}
		asleep, awake := h.Watch(r), h.Watch(r)
		defer asleep.Close()
		defer awake.Close()
		until(t, asleep, delta.Synced)
		until(t, awake, delta.Synced)
		for i := range 300 {
			o.update(func() { o.members[0].Version = fmt.Sprint(i) })
			if got := until(t, awake, "delta"); slices.Contains(names(got), delta.Reset) {
				t.Fatal("who reads is reset")
			}
		}
		got := until(t, asleep, delta.Synced)
		if want := []string{"reset", "snapshot", "synced"}; !slices.Equal(names(got), want) || string(got[0].Data) != `{"reason":"lag"}` {
			t.Errorf("after its sleep %s", texts(got))
		}
		if !strings.Contains(string(got[1].Data), `"version":"299"`) {
			t.Errorf("snapshot %s", got[1].Data)
		}
	})
}

func TestOwnJobs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newWorld()
		ann, bob := job.ID("j"+strings.Repeat("a", 26)), job.ID("j"+strings.Repeat("b", 26))
		o.jobs = []api.Job{{ID: ann, Owner: "user:ann"}, {ID: bob, Owner: "user:bob"}}
		w := o.hub("b").Watch(Request{
			Topics: []string{TopicJobs, JobTopic(ann), JobTopic(bob)},
			May:    func(_, owner string) bool { return owner == "user:ann" },
		})
		defer w.Close()
		got := until(t, w, delta.Synced)
		o.update(func() { o.jobs[0].State, o.jobs[1].State = job.Running, job.Running })
		got = append(got, during(t, w, 3*time.Second)...)
		o.update(func() { o.jobs = nil })
		got = append(got, during(t, w, 3*time.Second)...)
		all := strings.Join(texts(got), "\n")
		if strings.Contains(strings.ReplaceAll(all, string(JobTopic(bob)), ""), string(bob)) || strings.Contains(all, "user:bob") {
			t.Errorf("ann is told of bob's:\n%s", all)
		}
		if !strings.Contains(all, "user:ann") || !strings.Contains(all, `"del":["`+string(ann)+`"]`) {
			t.Errorf("ann is not told of hers:\n%s", all)
		}
	})
}

// TestRuns: a run that was chosen comes with its steps and without outputs, to whom it may
// be shown; the list has none of them.
func TestRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newWorld()
		ann, bob := flow.NewRunID("user:ann", "k"), flow.NewRunID("user:bob", "k")
		o.flows = []api.Workflow{{ID: ann, Owner: "user:ann", State: flow.Running}, {ID: bob, Owner: "user:bob"}}
		instances := make([]api.WorkflowInstance, 600)
		for i := range instances {
			instances[i] = api.WorkflowInstance{Index: i, State: flow.Completed, Try: 1, Outputs: map[string]json.RawMessage{"secret": json.RawMessage("17")}}
		}
		instances[599].State = flow.Failed
		o.steps = []api.WorkflowStep{{Name: "price", Total: 600, Instances: instances}}
		w := o.hub("b").Watch(Request{
			Topics: []string{TopicRuns, RunTopic(ann), RunTopic(bob)},
			May:    func(_, owner string) bool { return owner == "user:ann" },
		})
		defer w.Close()
		all := strings.Join(texts(until(t, w, delta.Synced)), "\n")
		if strings.Contains(strings.ReplaceAll(all, string(RunTopic(bob)), ""), string(bob)) {
			t.Errorf("ann is told of bob's:\n%s", all)
		}
		if strings.Count(all, `"name":"price"`) != 1 || strings.Contains(all, "secret") || !strings.Contains(all, `"index":510`) || strings.Contains(all, `"index":511`) || !strings.Contains(all, `"index":599,"state":"failed"`) {
			t.Errorf("%s", all)
		}
		o.update(func() { o.steps = []api.WorkflowStep{{Name: "report", Total: 1}} })
		got := until(t, w, `delta {"topic":"`+RunTopic(ann))
		if d := string(got[len(got)-1].Data); !strings.Contains(d, `"name":"report"`) {
			t.Error(d)
		}
		o.update(func() { o.flows = nil })
		until(t, w, `delta {"topic":"`+RunTopic(ann)+`","set":[],"del":["`+string(ann)+`"]}`)
	})
}

// TestManyJobsAtOnce: watchers of many jobs each do not have a host read any number of
// them; whoever watches the same, or something else, is served.
func TestManyJobsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newWorld()
		h := o.hub("b")
		watch := func(from, n int, more ...string) (*Watch, error) {
			topics := more
			for i := range n {
				topics = append(topics, JobTopic(job.ID(fmt.Sprintf("j%026d", from+i))))
			}
			w := h.Watch(Request{Topics: topics})
			_, err := w.Next(t.Context())
			return w, err
		}
		var open []*Watch
		for i := range maxSingle / 64 {
			w, err := watch(64*i, 64)
			if err != nil {
				t.Fatal(err)
			}
			open = append(open, w)
		}
		w, err := watch(maxSingle-1, 2)
		if p, ok := errors.AsType[*api.Problem](err); !ok || p.Code != api.CodeOverloaded || p.RetryAfterSeconds == nil {
			t.Errorf("one more job: %v", err)
		}
		w.Close()
		for _, w := range open[1:] {
			defer w.Close()
		}
		for _, again := range []func() (*Watch, error){
			func() (*Watch, error) { return watch(0, 64) },
			func() (*Watch, error) { return watch(0, 0, TopicMembers) },
		} {
			w, err := again()
			if err != nil {
				t.Errorf("what is read already, or nothing of one job: %v", err)
			}
			defer w.Close()
		}
		open[0].Close()
	})
}

// TestChunkMap: a job that was chosen comes with its map, complete and without a header,
// and many chunks make one difference.
func TestChunkMap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newWorld()
		id := job.ID("j" + strings.Repeat("a", 26))
		o.jobs = []api.Job{{ID: id}}
		o.runs = api.ChunkRuns{Chunks: 100, Step: 1, Runs: []api.ChunkRun{{State: "pending", Count: 100}}}
		w := o.hub("b").Watch(Request{Topics: []string{JobTopic(id)}})
		defer w.Close()
		all := strings.Join(texts(until(t, w, delta.Synced)), "\n")
		if !strings.Contains(all, `"map":{"chunks":100,"step":1,"runs":[{"state":"pending","count":100}]}`) || !strings.Contains(all, `"workers":[]`) || strings.Contains(all, `"api_version":"",`) {
			t.Error(all)
		}
		var got []Message
		for i := range 100 {
			o.update(func() {
				o.runs.Runs = []api.ChunkRun{{State: "accepted", Count: i + 1}, {State: "pending", Count: 99 - i}}
			})
			got = append(got, during(t, w, 10*time.Millisecond)...)
		}
		got = append(got, during(t, w, time.Second)...)
		deltas := slices.DeleteFunc(texts(got), func(s string) bool { return !strings.HasPrefix(s, delta.Delta) })
		if n := len(deltas); n == 0 || n > 6 || !strings.Contains(deltas[n-1], `{"state":"accepted","count":100}`) {
			t.Errorf("%d differences in a second: %s", n, deltas)
		}
	})
}

func TestCompacted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newWorld()
		o.write("n1", 10)
		src := event.SourceID{Node: "n1", Inc: 1}
		o.oldest = api.Cursor{src: 5}
		w := o.hub("b").Watch(Request{Topics: []string{TopicMembers, TopicEvents}, After: api.Cursor{src: 2}})
		defer w.Close()
		got := until(t, w, delta.Log)
		want := []string{"hello", "snapshot", "synced", "reset", "snapshot", "synced", "log"}
		if !slices.Equal(names(got), want) || !slices.Contains(texts(got), `reset {"reason":"compacted"}`) {
			t.Errorf("%s", names(got))
		}
		if n := len(seqs(t, got)); n != 5 {
			t.Errorf("%d events of the 5 that are kept", n)
		}
	})
}

// seqs returns the events of a stream.
func seqs(t *testing.T, list []Message) (out []string) {
	t.Helper()
	for _, m := range list {
		if m.Event != delta.Log {
			continue
		}
		var d struct{ Events []delta.Record }
		if err := json.Unmarshal(m.Data, &d); err != nil {
			t.Fatal(err)
		}
		if len(d.Events) > delta.LogEvents {
			t.Errorf("%d events in a frame", len(d.Events))
		}
		for _, e := range d.Events {
			out = append(out, fmt.Sprintf("%s:%d", e.Source, e.Seq))
		}
	}
	return out
}

// cursorOf is where the log frames of a stream end.
func cursorOf(t *testing.T, list []Message, at api.Cursor) api.Cursor {
	t.Helper()
	for _, m := range list {
		if m.Event != delta.Log {
			continue
		}
		var d struct{ Cursor string }
		err := json.Unmarshal(m.Data, &d)
		c, err1 := event.ParseCursor(d.Cursor)
		if err != nil || err1 != nil {
			t.Fatal(err, err1)
		}
		at = c
	}
	return at
}

// TestLogOnce: readers that break off and go on, at the same host or another, by
// position and by the cursor of the last log frame, get each event once and those
// of a source in order; whatever the host fails to read meanwhile. SKEIN_PROVE=1 has five
// such histories, otherwise there is one.
func TestLogOnce(t *testing.T) {
	seeds := uint64(1)
	if os.Getenv("SKEIN_PROVE") != "" {
		seeds = 5
	}
	for seed := range seeds {
		synctest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 2))
			o := newWorld()
			for range rng.IntN(20) {
				o.write(cluster.NodeID(fmt.Sprintf("n%d", rng.IntN(4))), 1+rng.IntN(200))
			}
			hubs := []*Hub{
				o.hub("b"),
				New(Options{Boot: "c", Source: o, Log: o, Header: func() api.Header { return api.Header{} }, RingBytes: 100 << 10}),
			}
			ctx, stop := context.WithCancel(t.Context())
			var all sync.WaitGroup
			all.Go(func() {
				for ctx.Err() == nil {
					o.write(cluster.NodeID(fmt.Sprintf("n%d", rng.IntN(5))), 1+rng.IntN(40))
					if rng.IntN(10) == 0 {
						o.update(func() { o.fault = errors.New("broken for once") })
					}
					time.Sleep(time.Duration(rng.IntN(150)) * time.Millisecond)
				}
			})
			for i := range 4 {
				all.Go(func() { readOnce(t, o, hubs, rand.New(rand.NewPCG(seed, uint64(10+i)))) })
			}
			time.Sleep(20 * time.Second)
			stop()
			all.Wait()
		})
	}
}

// readOnce reads from the beginning for a while and checks that it got all.
func readOnce(t *testing.T, o *world, hubs []*Hub, rng *rand.Rand) {
	r := Request{Topics: []string{TopicEvents, TopicMembers}, After: api.Cursor{}}
	got := map[string]bool{}
	last := map[string]int{}
	end := time.Now().Add(30 * time.Second) // the writer ends before
	at := api.Cursor{}
	for time.Now().Before(end) {
		w := hubs[rng.IntN(len(hubs))].Watch(r)
		var list []Message
		until := time.Now().Add(time.Duration(rng.IntN(6000)) * time.Millisecond)
		for time.Now().Before(until) {
			ctx, cancel := context.WithDeadline(t.Context(), until)
			more, err := w.Next(ctx)
			cancel()
			if err != nil && ctx.Err() == nil && !strings.Contains(err.Error(), "broken for once") {
				t.Error(err)
			}
			if err != nil {
				break
			}
			list = append(list, more...)
			if rng.IntN(20) == 0 {
				time.Sleep(time.Duration(rng.IntN(3000)) * time.Millisecond)
			}
		}
		w.Close()
		for _, s := range seqs(t, list) {
			if got[s] {
				t.Errorf("%s came twice", s)
			}
			got[s] = true
			src, seq, _ := strings.Cut(s, ":")
			n, err := strconv.Atoi(seq)
			if err != nil {
				t.Error(err)
			}
			if n != last[src]+1 {
				t.Errorf("%s after %d", s, last[src])
			}
			last[src] = n
		}
		at = cursorOf(t, list, at)
		for _, m := range slices.Backward(list) {
			if m.ID != "" {
				p := lastID(t, list)
				p.Cursor = at
				r.Position = &p
				break
			}
		}
		if r.Position == nil {
			r.After = at
		}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(got) != len(o.log) || !maps.Equal(at, o.at) {
		t.Errorf("%d events of %d", len(got), len(o.log))
	}
}

func TestSelectedEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newWorld()
		o.write("n1", 300)
		w := o.hub("b").Watch(Request{
			Topics: []string{TopicEvents}, After: api.Cursor{},
			Match: func(e *event.Event) bool { return e.Seq%100 == 0 },
		})
		defer w.Close()
		got := until(t, w, delta.Log)
		o.write("n1", 100)
		got = append(got, until(t, w, delta.Log)...)
		if s := seqs(t, got); !slices.Equal(s, []string{"n1/1:100", "n1/1:200", "n1/1:300", "n1/1:400"}) {
			t.Errorf("selected %s", s)
		}
	})
}

// TestTail: who breaks off behind any frame of a tail and goes on behind its cursor
// gets the rest of it, once.
func TestTail(t *testing.T) {
	for seed := range uint64(5) {
		synctest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 3))
			o := newWorld()
			for range 200 {
				o.write(cluster.NodeID(fmt.Sprintf("n%d", rng.IntN(4))), 1+rng.IntN(9))
			}
			o.write("n9", 1) // its only event
			const tail = 600
			odd := func(e *event.Event) bool { return e.Seq%2 == 1 }
			var want []string
			for _, e := range o.log {
				if odd(&e) {
					want = append(want, fmt.Sprintf("%s:%d", e.Source, e.Seq))
				}
			}
			want = want[max(0, len(want)-tail):]
			tailed := func(r Request) (frames []Message) {
				r.Topics, r.Match = []string{TopicEvents}, odd
				w := o.hub("b").Watch(r)
				defer w.Close()
				return slices.DeleteFunc(during(t, w, time.Second), func(m Message) bool { return m.Event != delta.Log })
			}
			frames := tailed(Request{Tail: tail})
			if len(frames) < 2 {
				t.Fatalf("%d frames of %d events", len(frames), len(want))
			}
			for i := range frames {
				at := cursorOf(t, frames[:i+1], nil)
				got := append(seqs(t, frames[:i+1]), seqs(t, tailed(Request{Position: &delta.Position{Boot: "b", Cursor: at}}))...)
				if !slices.Equal(got, want) {
					t.Errorf("seed %d: behind frame %d of %d: %d events, want %d", seed, i+1, len(frames), len(got), len(want))
				}
			}
		})
	}
}

func TestParseTopics(t *testing.T) {
	got, err := ParseTopics("jobs,events,jobs")
	if err != nil || !reflect.DeepEqual(got, []string{"events", "jobs"}) {
		t.Error(got, err)
	}
	if got, err := ParseTopics(""); err != nil || slices.Contains(got, TopicEvents) || len(got) != 9 {
		t.Error(got, err)
	}
	for _, text := range []string{"links/n1", "jobs,", "job/x", strings.Repeat("jobs,", 64) + "jobs"} {
		if _, err := ParseTopics(text); err == nil {
			t.Errorf("%.20q is read", text)
		}
	}
}

// TestReadersShareWhatIsWritten: the log is encoded once for all that read it at its
// end in one form, whatever else they watch.
func TestReadersShareWhatIsWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newWorld()
		h := o.hub("b")
		var list []*Watch
		for _, r := range []Request{
			{Topics: []string{TopicEvents}}, {Topics: []string{TopicEvents, TopicTerms}}, {Topics: []string{TopicEvents}, Form: delta.ServerSent},
		} {
			w := h.Watch(r)
			defer w.Close()
			until(t, w, delta.Synced)
			list = append(list, w)
		}
		for round := range 3 {
			time.Sleep(time.Second) // the hub has all so far
			o.write("n1", 3)
			var texts [][]byte
			for _, w := range list {
				got := until(t, w, delta.Log)
				texts = append(texts, got[len(got)-1].Text)
			}
			if round > 0 && &texts[0][0] != &texts[1][0] { // in the first one they catch up
				t.Errorf("round %d: two readers do not share what is written", round)
			}
			if !strings.HasPrefix(string(texts[0]), `{"event":"log","data":{"events":[`) || !strings.HasPrefix(string(texts[2]), "event: log\ndata: {") {
				t.Errorf("round %d: %.40s, %.40s", round, texts[0], texts[2])
			}
		}
	})
}
