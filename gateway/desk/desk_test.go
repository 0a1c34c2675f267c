package desk

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/scheduler/stream"
)

var (
	ann = cluster.OutsideID([]byte("ann"))
	bob = cluster.OutsideID([]byte("bob"))
)

var wall = time.UnixMilli(1_000_000)

func attaching(n cluster.NodeID) Attach {
	return Attach{Worker: n, Owner: "visitor:a", Slots: 2, Room: 4, Executors: []string{job.ExecutorWASM}}
}

func ref(chunk int) job.Attempt { return job.Attempt{Job: "j", Chunk: chunk, Number: 1} }

func spec() job.Spec {
	return job.Spec{Key: "k", Artefact: cluster.Hash{1}, Iterations: 1000, Chunk: 1}.WithDefaults()
}

// table is a Desk as its two sides see it.
type table struct {
	*Desk
	t   *testing.T
	now time.Duration
}

func newTable(t *testing.T) *table { return &table{Desk: New(Options{}), t: t, now: time.Hour} }

func (d *table) attach(a Attach) State {
	d.t.Helper()
	st, err := d.Attach(a, d.now, wall)
	if err != nil {
		d.t.Fatal(err)
	}
	return st
}

func (d *table) frame(f stream.Frame) {
	d.t.Helper()
	if err := d.Frame(f); err != nil {
		d.t.Fatal(err)
	}
}

func (d *table) assign(n cluster.NodeID, seq uint64, chunks ...int) {
	d.t.Helper()
	a := &stream.Assign{Term: d.Term(), Seq: seq, Job: "j", Spec: spec()}
	for _, c := range chunks {
		a.Chunks = append(a.Chunks, job.Attempt{Chunk: c, Number: 1})
	}
	d.frame(stream.Frame{Worker: n, Assign: a})
}

// holder is what the holder hears, in words.
func (d *table) holder(want ...string) {
	d.t.Helper()
	var got []string
	for {
		frames := d.Frames()
		if len(frames) == 0 {
			break
		}
		for _, f := range frames {
			got = append(got, strings.TrimSpace(short(f.Worker)+" "+say(f)))
		}
	}
	if len(got)+len(want) > 0 && !slices.Equal(got, want) {
		d.t.Errorf("the holder hears %q, want %q", got, want)
	}
}

func short(n cluster.NodeID) string {
	return map[cluster.NodeID]string{ann: "ann", bob: "bob"}[n]
}

func say(f stream.Frame) string {
	switch {
	case f.Join != nil:
		return fmt.Sprintf("join %d %v", f.Join.Session&0xffff, f.Join.Assigned)
	case f.Part != nil:
		return fmt.Sprintf("part %d %t", f.Part.Session&0xffff, f.Part.Gone)
	case f.Result != nil:
		return fmt.Sprintf("result %s %s", f.Result.Attempt, f.Result.Class)
	case f.Status != nil:
		return fmt.Sprintf("status %v %t", f.Status.Running, f.Status.Ready)
	case f.Assigned != nil:
		return fmt.Sprintf("has %v %v", f.Assigned.Refs, f.Assigned.Kept)
	case f.Pong != nil:
		return "pong"
	}
	return "?"
}

// workers is what workers hear, in words.
func (d *table) workers(want ...string) {
	d.t.Helper()
	var got []string
	for _, p := range d.Pushes() {
		refs := p.Refs
		if p.Kind == PushChunks {
			refs = p.Chunks.Refs
		}
		got = append(got, fmt.Sprintf("%s %d %s %v%s", short(p.Worker), p.Seq, p.Kind, refs, p.Reason))
	}
	if len(got)+len(want) > 0 && !slices.Equal(got, want) {
		d.t.Errorf("workers hear %q, want %q", got, want)
	}
}

func good(chunk int) stream.Result {
	return stream.Result{Attempt: ref(chunk), Seconds: 1, Result: &job.ChunkResult{Iterations: 1, Metrics: map[string]job.Metric{"x": {N: 1}}}}
}

func (d *table) complete(n cluster.NodeID, session uint64, chunks ...int) []Verdict {
	d.t.Helper()
	var rs []stream.Result
	for _, c := range chunks {
		rs = append(rs, good(c))
	}
	v, err := d.Complete(n, session, rs, d.now)
	if err != nil {
		d.t.Fatal(err)
	}
	return v
}

// TestLife: a worker attaches, is given chunks, does them, and is told that they count.
func TestLife(t *testing.T) {
	d := newTable(t)
	st := d.attach(attaching(ann))
	d.holder()
	d.Open(3)
	d.holder("ann join 1 []")
	d.assign(ann, 1, 0, 1)
	d.assign(ann, 1, 0, 1) // the same again
	d.workers("ann 1 chunk [j/0#1 j/1#1]")
	if seq, err := d.Beat(ann, st.Session, Beat{Have: []Progress{{ref(0), 5}, {ref(1), 0}}, Ready: true}, d.now); seq != 1 || err != nil {
		t.Errorf("%d, %v", seq, err)
	}
	d.holder("ann status [j/0#1 j/1#1] true")
	if v := d.complete(ann, st.Session, 0, 0, 7); !slices.Equal(v, []Verdict{Taken, Duplicate, Unknown}) {
		t.Errorf("%v", v)
	}
	d.frame(stream.Frame{Worker: ann, Query: &stream.Ping{Term: 3, Nonce: 1}})
	d.holder("ann result j/0#1", "ann has [j/1#1] [j/0#1]")
	d.frame(stream.Frame{Worker: ann, Accepted: &stream.Accepted{Term: 3, Refs: []job.Attempt{ref(0)}}})
	d.workers("ann 2 settled [j/0#1]")
	if s := d.Stats(); s != (Stats{Workers: 1, Attached: 1}) {
		t.Errorf("%+v", s)
	}
	d.frame(stream.Frame{Worker: ann, Cancel: &stream.Cancel{Term: 3, Seq: 2, Job: "j"}})
	d.assign(ann, 1, 1) // late
	d.workers("ann 3 stop [j/1#1]")
	d.frame(stream.Frame{Ping: &stream.Ping{Term: 3, Nonce: 1}})
	if err := d.Bye(ann, st.Session, d.now); err != nil {
		t.Fatal(err)
	}
	d.holder("pong", "ann part 1 true")
	if _, err := d.Beat(ann, st.Session, Beat{}, d.now); !errors.Is(err, ErrUnknown) || d.Stats() != (Stats{}) {
		t.Errorf("%v, %+v", err, d.Stats())
	}
}

// TestHolders: every holder is told all again, also what came while there was none.
func TestHolders(t *testing.T) {
	d := newTable(t)
	a, b := d.attach(attaching(ann)), d.attach(attaching(bob))
	d.Open(3)
	d.holder("ann join 1 []", "bob join 2 []")
	d.assign(ann, 1, 0, 1)
	d.assign(bob, 2, 2)
	d.Close()
	if err := d.Frame(stream.Frame{Worker: ann, Query: &stream.Ping{Term: 3}}); !errors.Is(err, ErrHolder) {
		t.Errorf("without a stream: %v", err)
	}
	d.complete(ann, a.Session, 1)
	d.complete(bob, b.Session, 2)
	if err := d.Lose(bob, b.Session, d.now); err != nil {
		t.Fatal(err)
	}
	d.holder()
	d.Open(4)
	// bob is lost, and what it did is told all the same.
	d.holder("ann join 1 [j/0#1]", "ann result j/1#1", "bob join 2 []", "bob result j/2#1", "bob part 2 true")
	for _, term := range []cluster.Term{3, 5, 0} {
		if err := d.Frame(stream.Frame{Worker: ann, Query: &stream.Ping{Term: term}}); !errors.Is(err, ErrHolder) {
			t.Errorf("term %d: %v", term, err)
		}
	}
	d.frame(stream.Frame{Worker: bob, Accepted: &stream.Accepted{Term: 4, Refs: []job.Attempt{ref(2)}}})
	if s := d.Stats(); s.Workers != 1 || s.Results != 1 {
		t.Errorf("%+v", s)
	}
	d.Pushes()
	d.frame(stream.Frame{Worker: bob, Accepted: &stream.Accepted{Term: 4, Refs: []job.Attempt{ref(2)}}})
	d.holder()
	d.workers()
}

// TestSessions: the latest is the one, and higher than any that is known elsewhere.
func TestSessions(t *testing.T) {
	d := newTable(t)
	d.Open(1)
	first := d.attach(attaching(ann))
	again := attaching(ann)
	again.Running, again.Kept = []job.Attempt{ref(5)}, []job.Attempt{ref(6)}
	second := d.attach(again)
	d.workers("ann 1 replaced []replaced")
	d.holder("ann join 1 []", "ann join 2 [j/5#1 j/6#1]")
	if second.Session <= first.Session {
		t.Errorf("%d after %d", second.Session, first.Session)
	}
	if _, err := d.Complete(ann, first.Session, nil, d.now); !errors.Is(err, ErrSession) {
		t.Errorf("%v", err)
	}
	if v := d.complete(ann, second.Session, 6, 7); !slices.Equal(v, []Verdict{Taken, Unknown}) {
		t.Errorf("what it told it has: %v", v)
	}
	d.frame(stream.Frame{Worker: ann, Drop: &stream.Drop{Term: 1, Session: first.Session, Reason: stream.DropReplaced}})
	d.workers() // it attached anew
	d.frame(stream.Frame{Worker: ann, Drop: &stream.Drop{Term: 1, Session: second.Session + 1000, Reason: stream.DropStale}})
	p := d.Pushes()
	if len(p) != 1 || p[0].Kind != PushGone || p[0].Reason != stream.DropStale || p[0].After != second.Session+1000 || p[0].Session != second.Session {
		t.Fatalf("%+v", p)
	}
	if s := d.Stats(); s != (Stats{}) {
		t.Errorf("%+v", s)
	}
	third := attaching(ann)
	third.After = p[0].After
	if st := d.attach(third); st.Session != p[0].After+1 {
		t.Errorf("session %d, want the one after %d", st.Session, p[0].After)
	}
}

// TestBeats: what a worker lacks it is told again after two beats, what it brought and
// lacks is forgotten, and what nobody gave it, it stops.
func TestBeats(t *testing.T) {
	d := newTable(t)
	d.Open(1)
	a := attaching(ann)
	a.Running = []job.Attempt{ref(9)}
	st := d.attach(a)
	d.assign(ann, 1, 0, 1)
	d.Pushes()
	d.Frames()
	beat := func(have ...Progress) {
		t.Helper()
		if _, err := d.Beat(ann, st.Session, Beat{Have: have, Ready: true}, d.now); err != nil {
			t.Fatal(err)
		}
	}
	beat(Progress{ref(0), 1}, Progress{ref(0), 1})
	d.workers()
	beat(Progress{ref(0), 1}, Progress{ref(44), 0})
	d.workers("ann 2 stop [j/44#1]", "ann 3 chunk [j/1#1]")
	d.holder("ann status [j/0#1] true", "ann status [j/0#1] true")
	d.frame(stream.Frame{Worker: ann, Query: &stream.Ping{Term: 1}})
	d.holder("ann has [j/0#1 j/1#1] []")
	d.complete(ann, st.Session, 0)
	beat(Progress{ref(0), 1}) // it crossed its result
	d.workers()
	now, err := d.Assigned(ann, st.Session, d.now)
	if err != nil || now.Seq != 3 || len(now.Chunks) != 1 || !slices.Equal(now.Chunks[0].Refs, []job.Attempt{ref(1)}) || now.Chunks[0].Spec.Key != "k" {
		t.Errorf("%+v, %v", now, err)
	}
}

// TestTimes: who is silent is lost, who is lost is forgotten, later if it did something
// that the holder has not settled.
func TestTimes(t *testing.T) {
	d := newTable(t)
	d.Open(1)
	st := d.attach(attaching(ann))
	d.attach(attaching(bob))
	d.assign(ann, 1, 0)
	d.complete(ann, st.Session, 0)
	d.Frames()
	d.Pushes()
	d.now += Silent - 1
	d.Tick(d.now)
	d.holder()
	d.now++
	d.Tick(d.now)
	d.holder("ann part 1 false", "bob part 2 false")
	d.workers("ann 2 replaced []stale_session", "bob 1 replaced []stale_session")
	d.now += Linger
	d.Tick(d.now)
	if s := d.Stats(); s.Workers != 1 || s.Results != 1 {
		t.Errorf("%+v, want ann's alone", s)
	}
	d.now += KeepResults - Linger
	d.Tick(d.now)
	if s := d.Stats(); s != (Stats{}) {
		t.Errorf("%+v", s)
	}
}

// TestBounds: what is too much or wrong is refused, and changes nothing.
func TestBounds(t *testing.T) {
	d := &table{Desk: New(Options{Workers: 2, ResultBytes: 4000}), t: t, now: time.Hour}
	many := make([]job.Attempt, MaxRefs+1)
	for i := range many {
		many[i] = ref(i)
	}
	for name, change := range map[string]func(*Attach){
		"a host":        func(a *Attach) { a.Worker = "n1" },
		"no owner":      func(a *Attach) { a.Owner = "" },
		"no slots":      func(a *Attach) { a.Slots = 0 },
		"65 slots":      func(a *Attach) { a.Slots = 65 },
		"no room":       func(a *Attach) { a.Room = 0 },
		"too much room": func(a *Attach) { a.Room = 5 },
		"executor":      func(a *Attach) { a.Executors = []string{strings.Repeat("x", 65)} },
		"attempt":       func(a *Attach) { a.Running = []job.Attempt{{Job: "j", Chunk: -1, Number: 1}} },
		"of others":     func(a *Attach) { a.Kept = []job.Attempt{{Job: "j", Number: 1, Worker: bob}} },
		"257 attempts":  func(a *Attach) { a.Running, a.Kept = many[:200], many[200:] },
	} {
		a := attaching(ann)
		change(&a)
		if _, err := d.Attach(a, d.now, wall); !errors.Is(err, ErrInvalid) || d.Stats() != (Stats{}) {
			t.Errorf("%s: %v, %+v", name, err, d.Stats())
		}
	}
	st := d.attach(attaching(ann))
	d.attach(attaching(bob))
	if _, err := d.Attach(attaching(cluster.OutsideID(nil)), d.now, wall); !errors.Is(err, ErrBusy) {
		t.Errorf("a third: %v", err)
	}
	d.Open(1)
	d.assign(ann, 1, 0, 1, 2, 3)
	have := make([]Progress, MaxRefs+1)
	for i := range have {
		have[i] = Progress{Attempt: ref(i)}
	}
	for name, b := range map[string]Beat{"257": {Have: have}, "negative": {Kept: -1}, "attempt": {Have: []Progress{{}}}} {
		if _, err := d.Beat(ann, st.Session, b, d.now); !errors.Is(err, ErrInvalid) {
			t.Errorf("beat %s: %v", name, err)
		}
	}
	bad := good(0)
	bad.Error = "both"
	for name, rs := range map[string][]stream.Result{"65": make([]stream.Result, 65), "both": {good(1), bad}, "neither": {{Attempt: ref(0)}}} {
		if _, err := d.Complete(ann, st.Session, rs, d.now); !errors.Is(err, ErrInvalid) || d.Stats().Results > 0 {
			t.Errorf("complete %s: %v", name, err)
		}
	}
	if _, err := d.Complete(ann, st.Session, []stream.Result{good(0), good(1), good(2)}, d.now); !errors.Is(err, ErrBusy) || d.Stats().Results > 0 {
		t.Errorf("too many bytes: %v", err)
	}
	if v := d.complete(ann, st.Session, 0, 1); !slices.Equal(v, []Verdict{Taken, Taken}) {
		t.Errorf("%v", v)
	}
	// A holder that gives more than any may have gets it back.
	d.Frames()
	for i := range MaxRefs + 3 {
		d.assign(bob, uint64(10+i), 100+i)
	}
	if back := d.Frames(); len(back) != 3 || back[0].Result == nil || back[0].Result.Class != job.HandedBack || back[0].Worker != bob {
		t.Errorf("%+v", back)
	}
}

// TestShare: one worker's results leave room for those of others.
func TestShare(t *testing.T) {
	d := &table{Desk: New(Options{ResultBytes: 4 * (sizeOf(new(good(0))) + 1)}), t: t, now: time.Hour}
	a := d.attach(attaching(ann))
	b := d.attach(attaching(bob))
	d.Open(1)
	d.assign(ann, 1, 0, 1, 2)
	d.assign(bob, 2, 3)
	d.complete(ann, a.Session, 0)
	if _, err := d.Complete(ann, a.Session, []stream.Result{good(1)}, d.now); !errors.Is(err, ErrBusy) {
		t.Errorf("more than a quarter: %v", err)
	}
	if v := d.complete(bob, b.Session, 3); !slices.Equal(v, []Verdict{Taken}) {
		t.Errorf("another worker: %v", v)
	}
	d.frame(stream.Frame{Worker: ann, Accepted: &stream.Accepted{Term: 1, Refs: []job.Attempt{ref(0)}}})
	if v := d.complete(ann, a.Session, 1); !slices.Equal(v, []Verdict{Taken}) {
		t.Errorf("after one was settled: %v", v)
	}
}

// FuzzDesk: whatever workers and holders do in whatever order, no attempt is both open
// and done, what is kept adds up, each worker's frames begin with its Join, and what the
// holder is told can be said on its stream.
func FuzzDesk(f *testing.F) {
	f.Add([]byte{0, 1, 0, 3, 0, 10, 4, 0, 0, 5, 0, 1, 6, 0, 0, 20, 0, 0})
	f.Add([]byte{3, 0, 0, 0, 0, 0, 0, 1, 0, 4, 0, 0, 4, 1, 1, 8, 0, 0, 9, 0, 0, 3, 0, 0, 5, 0, 0})
	f.Fuzz(func(t *testing.T, ops []byte) {
		d := New(Options{ResultBytes: 4000})
		now, term, seq := time.Hour, cluster.Term(1), uint64(0)
		sessions := map[cluster.NodeID]uint64{}
		joined := map[cluster.NodeID]bool{}
		var enc stream.Encoder
		names := []cluster.NodeID{ann, bob}
		for ; len(ops) >= 3; ops = ops[3:] {
			n, x := names[int(ops[1])%2], int(ops[2])%8
			to := func(f stream.Frame) { f.Worker = n; _ = d.Frame(f) }
			seq++
			switch ops[0] % 14 {
			case 0:
				a := attaching(n)
				for i := range x {
					a.Running = append(a.Running, ref(i))
				}
				if st, err := d.Attach(a, now, wall); err == nil {
					if st.Session <= sessions[n] {
						t.Fatalf("session %d after %d", st.Session, sessions[n])
					}
					sessions[n] = st.Session
				}
			case 1:
				_, _ = d.Beat(n, sessions[n], Beat{Have: []Progress{{ref(x), uint64(x)}}}, now)
			case 2:
				_, _ = d.Complete(n, sessions[n], []stream.Result{good(x), good(x + 1)}, now)
			case 3:
				term++
				d.Open(term)
				clear(joined)
				enc = stream.Encoder{}
			case 4:
				to(stream.Frame{Assign: &stream.Assign{Term: term, Seq: seq, Job: "j", Spec: spec(), Chunks: []job.Attempt{{Chunk: x, Number: 1}, {Chunk: x + 1, Number: 1}}}})
			case 5:
				to(stream.Frame{Assign: &stream.Assign{Term: term, Seq: uint64(x), Job: "j", Spec: spec(), Chunks: []job.Attempt{{Chunk: x, Number: 1}}}})
			case 6:
				to(stream.Frame{Accepted: &stream.Accepted{Term: term, Refs: []job.Attempt{ref(x), ref(x + 1)}}})
			case 7:
				to(stream.Frame{Cancel: &stream.Cancel{Term: term, Seq: seq, Job: "j", Chunks: []job.Attempt{{Chunk: x, Number: 1}}}})
			case 8:
				_ = d.Lose(n, sessions[n], now)
			case 9:
				_ = d.Bye(n, sessions[n], now)
			case 10:
				now += time.Duration(x) * time.Minute
				d.Tick(now)
			case 11:
				to(stream.Frame{Drop: &stream.Drop{Term: term, Session: sessions[n] + uint64(x) - 2, Reason: stream.DropStale}})
			case 12:
				to(stream.Frame{Query: &stream.Ping{Term: term, Nonce: seq}})
			case 13:
				d.Close()
				clear(joined)
			}
			bytes := 0
			for _, r := range d.of {
				for k, res := range r.results {
					bytes += res.size
					if r.has[k] != nil {
						t.Fatalf("%s is open and done", k)
					}
				}
				if len(r.has) > MaxRefs {
					t.Fatalf("%d open", len(r.has))
				}
			}
			if bytes != d.bytes || bytes > 4000 {
				t.Fatalf("%d bytes are kept, and counted as %d", bytes, d.bytes)
			}
			for _, f := range d.Frames() {
				if _, err := enc.Append(nil, f); err != nil || f.Validate() != nil {
					t.Fatalf("%+v: %v, %v", f, err, f.Validate())
				}
				if f.Join != nil {
					joined[f.Worker] = true
				} else if !joined[f.Worker] && f.Result == nil && f.Assigned == nil {
					t.Fatalf("%+v of a worker that did not join", f)
				}
				if f.Part != nil {
					delete(joined, f.Worker)
				}
			}
			d.Pushes()
		}
	})
}
