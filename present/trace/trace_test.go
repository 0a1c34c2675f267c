package trace

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/cluster/job"
)

var t0 = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func at(seconds float64) time.Time { return t0.Add(time.Duration(seconds * float64(time.Second))) }

// of is a change of a chunk.
func of(seconds float64, kind event.Kind, chunk, attempt int, worker cluster.NodeID, reason string) api.Transition {
	return api.Transition{At: at(seconds), Node: "n1", Term: 4, Kind: kind, Chunk: &chunk, Attempt: attempt, Worker: worker, Reason: reason}
}

// example is a job with a failure, a copy that came too late, and two attempts of one
// worker at a time.
func example() (api.Job, api.JobHistory) {
	j := api.Job{ID: "jabc", Name: "pi", Owner: "uid:1000", State: job.Completed, SubmittedAt: t0, FinishedAt: new(at(10)), Chunks: api.ChunkCounts{Total: 3}}
	h := api.JobHistory{Transitions: []api.Transition{
		{At: at(0), Kind: event.KindJobSubmitted, Node: "n1", Term: 4, To: "pending", Actor: "uid:1000"},
		{At: at(1), Kind: event.KindChunksAssigned, Node: "n1", Term: 4, From: "pending", To: "running"},
		of(1, event.KindChunksAssigned, 0, 1, "n1", ""), of(1, event.KindChunksAssigned, 1, 1, "n1", ""), of(1, event.KindChunksAssigned, 2, 1, "n2", ""),
		of(3, event.KindChunkFailed, 2, 1, "n2", "exit 3"), of(4, event.KindChunksAssigned, 2, 2, "n1", ""),
		of(5, event.KindChunksAccepted, 0, 1, "n1", ""), of(6, event.KindChunksAssigned, 1, 2, "n2", "a copy: another attempt goes on"),
		of(8, event.KindChunkAccepted, 1, 2, "n2", ""), of(9, event.KindChunksAccepted, 2, 2, "n1", ""),
		{At: at(10), Kind: event.KindJobDone, Node: "n1", Term: 5, From: "running", To: "completed"},
	}}
	h.ObservedAt, h.Node = at(100), "n3"
	return j, h
}

func TestOf(t *testing.T) {
	var have []string
	tr := Of(example())
	for _, a := range tr.Attempts {
		have = append(have, fmt.Sprintf("%d.%d %s/%d %g-%g %s %s", a.Chunk, a.Number, a.Worker, a.lane, a.Start.Sub(t0).Seconds(), a.End.Sub(t0).Seconds(), a.Outcome, a.Reason))
	}
	want := []string{
		"0.1 n1/0 1-5 done ", "1.1 n1/1 1-8 superseded ", "2.1 n2/0 1-3 failed exit 3", "2.2 n1/2 4-9 done ", "1.2 n2/0 6-8 done ",
	}
	if !slices.Equal(have, want) {
		t.Errorf("have %q\nwant %q", have, want)
	}
	if len(tr.Moments) != 3 || !tr.Waited.Equal(at(1)) || !tr.End.Equal(at(10)) {
		t.Errorf("%d moments, waited until %s, end %s", len(tr.Moments), tr.Waited, tr.End)
	}
}

// TestUnfinished: what goes on lasts until the host was asked; an attempt whose
// beginning is not kept is left out, and the trace says so.
func TestUnfinished(t *testing.T) {
	j, h := example()
	j.State, j.FinishedAt = job.Running, nil
	h.Transitions = h.Transitions[3:8] // from 1.1 on
	h.Omitted, h.Compacted = 3, true
	tr := Of(j, h)
	open := 0
	for _, a := range tr.Attempts {
		if a.Chunk == 0 {
			t.Errorf("an attempt without a beginning: %+v", a)
		}
		if a.Outcome == Open && a.End.Equal(at(100)) {
			open++
		}
	}
	if !tr.Waited.IsZero() {
		t.Error("the submission is not kept, and the wait is known all the same")
	}
	if open != 2 || !tr.End.Equal(at(100)) {
		t.Errorf("%d open, end %s", open, tr.End)
	}
	text, err := tr.OTLP()
	if err != nil || !bytes.Contains(text, []byte(`{"key":"skein.omitted_changes","value":{"intValue":"3"}},{"key":"skein.log_compacted","value":{"boolValue":true}}`)) {
		t.Errorf("%v, omissions are not in %s", err, text)
	}
	j.FinishedAt, j.State = new(at(10)), job.Cancelled
	for _, a := range Of(j, h).Attempts {
		if a.Outcome == Open {
			t.Errorf("open after the end: %+v", a)
		}
	}
}

// random is a history as none ever was: anything may end before it begins.
func random(r *rand.Rand) (api.Job, api.JobHistory) {
	kinds := []event.Kind{
		event.KindChunksAssigned, event.KindChunksAssigned, event.KindChunksAssigned, event.KindChunkFailed, event.KindChunkReclaimed, event.KindChunkAccepted,
		event.KindChunksAccepted, event.KindChunksReleased, event.KindJobStopped,
	}
	j := api.Job{ID: "jabc", Name: "<script>\x00\u202e", State: job.Running, SubmittedAt: t0, Chunks: api.ChunkCounts{Total: 5}}
	if r.IntN(2) == 0 {
		j.State, j.FinishedAt = job.Failed, new(at(r.Float64()*20-5))
	}
	var h api.JobHistory
	h.ObservedAt = at(r.Float64() * 20)
	for range r.IntN(60) {
		c := of(r.Float64()*30-5, kinds[r.IntN(len(kinds))], r.IntN(5), r.IntN(3), cluster.NodeID("n"+strconv.Itoa(r.IntN(3))), "\xff\"")
		if c.Kind == event.KindJobStopped {
			c.Chunk = nil
		}
		h.Transitions = append(h.Transitions, c)
	}
	return j, h
}

// TestForms holds both forms against what their readers demand, for the example and for
// histories that contradict themselves.
func TestForms(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for i := range 500 {
		j, h := example()
		if i > 0 {
			j, h = random(r)
		}
		tr := Of(j, h)
		otlp, err := tr.OTLP()
		if err != nil {
			t.Fatal(err)
		}
		checkOTLP(t, otlp, len(tr.Attempts))
		chrome, err := tr.Chrome()
		if err != nil {
			t.Fatal(err)
		}
		checkChrome(t, chrome, len(tr.Attempts))
		tr = Of(j, h)
		if again, err := tr.OTLP(); err != nil || !bytes.Equal(otlp, again) {
			t.Error("another host makes another trace", err)
		}
		if t.Failed() {
			t.Fatalf("history %d: %+v", i, h)
		}
	}
}

var (
	hex16 = regexp.MustCompile(`^[0-9a-f]{32}$`)
	hex8  = regexp.MustCompile(`^[0-9a-f]{16}$`)
)

// checkOTLP: the fields are those of opentelemetry/proto/trace/v1, which is written out
// here once more; spans are in one trace, below one root, and end after they begin.
func checkOTLP(t *testing.T, text []byte, attempts int) {
	t.Helper()
	type attribute struct {
		Key   string
		Value struct {
			StringValue *string
			BoolValue   *bool
			IntValue    *string
		}
	}
	var req struct {
		ResourceSpans []struct {
			Resource   struct{ Attributes []attribute }
			ScopeSpans []struct {
				Scope struct{ Name, Version string }
				Spans []struct {
					TraceID, SpanID, ParentSpanID, Name string
					Kind                                int
					StartTimeUnixNano, EndTimeUnixNano  string
					Attributes                          []attribute
					Events                              []struct {
						TimeUnixNano, Name string
						Attributes         []attribute
					}
					Status struct {
						Code    int
						Message string
					}
				}
			}
		}
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&req); err != nil {
		t.Error(err)
		return
	}
	attributesOf := func(list []attribute) {
		for _, a := range list {
			n := 0
			for _, set := range []bool{a.Value.StringValue != nil, a.Value.BoolValue != nil, a.Value.IntValue != nil} {
				if set {
					n++
				}
			}
			if a.Key == "" || n != 1 {
				t.Errorf("attribute %q has %d values", a.Key, n)
			}
			if a.Value.IntValue != nil {
				if _, err := strconv.ParseInt(*a.Value.IntValue, 10, 64); err != nil {
					t.Error(err)
				}
			}
		}
	}
	nanos := func(s string) int64 {
		n, err := strconv.ParseUint(s, 10, 63)
		if err != nil {
			t.Error(err)
		}
		return int64(n)
	}
	traces, spans, parents, roots := map[string]bool{}, map[string]bool{}, map[string]bool{}, 0
	for _, res := range req.ResourceSpans {
		attributesOf(res.Resource.Attributes)
		for _, scope := range res.ScopeSpans {
			for _, s := range scope.Spans {
				if !hex16.MatchString(s.TraceID) || !hex8.MatchString(s.SpanID) || s.Name == "" || s.Kind != 1 || s.Status.Code < 0 || s.Status.Code > 2 {
					t.Errorf("span %+v", s)
				}
				if nanos(s.EndTimeUnixNano) < nanos(s.StartTimeUnixNano) {
					t.Errorf("%s ends before it begins", s.Name)
				}
				attributesOf(s.Attributes)
				for _, e := range s.Events {
					nanos(e.TimeUnixNano)
					attributesOf(e.Attributes)
				}
				traces[s.TraceID], spans[s.SpanID] = true, true
				if s.ParentSpanID == "" {
					roots++
				} else {
					parents[s.ParentSpanID] = true
				}
			}
		}
	}
	for p := range parents {
		if !spans[p] {
			t.Errorf("no span %s, which is a parent", p)
		}
	}
	if len(traces) != 1 || roots != 1 || len(spans) < 1+min(attempts, 1) {
		t.Errorf("%d traces, %d roots, %d spans for %d attempts", len(traces), roots, len(spans), attempts)
	}
}

// checkChrome: events are of known phases, those of one thread lie within each other or
// apart, and every process and thread has a name.
func checkChrome(t *testing.T, text []byte, attempts int) {
	t.Helper()
	var file struct {
		TraceEvents []struct {
			Name, Cat, Ph, S string
			Ts, Dur          *int64
			Pid, Tid         *int
			Args             map[string]any
		}
		DisplayTimeUnit string
		OtherData       map[string]any
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&file); err != nil {
		t.Error(err)
		return
	}
	named, used := map[string]bool{}, map[string]bool{}
	threads := map[[2]int][][2]int64{}
	complete := 0
	for _, e := range file.TraceEvents {
		if e.Name == "" || e.Ts == nil || *e.Ts < 0 || e.Pid == nil || e.Tid == nil {
			t.Errorf("event %+v", e)
			continue
		}
		process, thread := fmt.Sprint("process_name", *e.Pid), fmt.Sprint("thread_name", *e.Pid, ".", *e.Tid)
		switch e.Ph {
		case "M":
			if e.Name == "process_name" {
				named[process] = true
			} else {
				named[thread] = true
			}
			if text, ok := e.Args["name"].(string); !ok || text == "" {
				t.Errorf("%s names nothing: %v", e.Name, e.Args)
			}
		case "i":
			used[process] = true
			if e.S != "p" {
				t.Errorf("scope %q", e.S)
			}
		case "X":
			used[process], used[thread] = true, true
			if e.Dur == nil || *e.Dur < 0 {
				t.Errorf("event %+v lasts", e)
				continue
			}
			complete++
			on := [2]int{*e.Pid, *e.Tid}
			threads[on] = append(threads[on], [2]int64{*e.Ts, *e.Ts + *e.Dur})
		default:
			t.Errorf("phase %q", e.Ph)
		}
	}
	for name := range used {
		if !named[name] {
			t.Errorf("%s has no name", name)
		}
	}
	for on, list := range threads {
		for i, x := range list {
			for _, y := range list[:i] {
				if apart, within := x[0] >= y[1] || y[0] >= x[1], x[0] >= y[0] && x[1] <= y[1] || y[0] >= x[0] && y[1] <= x[1]; !apart && !within {
					t.Errorf("on %v %v and %v overlap", on, x, y)
				}
			}
		}
	}
	if complete < 1+attempts || file.DisplayTimeUnit != "ms" {
		t.Errorf("%d complete events for %d attempts, unit %q", complete, attempts, file.DisplayTimeUnit)
	}
}
