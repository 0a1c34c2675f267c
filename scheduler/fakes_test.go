package scheduler

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/eventlog/state"
	"github.com/skein-project/skein/scheduler/plan"
	"github.com/skein-project/skein/scheduler/stream"
)

// memLog is a log in memory. Stability can be withheld and appends refused.
type memLog struct {
	mu      sync.Mutex
	src     event.SourceID
	events  []event.Event
	st      *state.State
	held    bool          // nothing becomes stable
	changed chan struct{} // closed and replaced by every change
	refuse  error
	full    bool // takes only what is essential
	// slow: the next append that accepts a result fails, and is written before the
	// one after it all the same.
	slow bool
	late []event.Draft
}

func newMemLog(node cluster.NodeID) *memLog {
	return &memLog{src: event.SourceID{Node: node, Inc: 1}, st: state.New(), changed: make(chan struct{})}
}

func (l *memLog) Append(_ context.Context, drafts []event.Draft) ([]event.Event, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.refuse != nil {
		return nil, l.refuse
	}
	if l.full && slices.ContainsFunc(drafts, func(d event.Draft) bool { return !d.Kind.Essential() }) {
		return nil, errors.New("disk full")
	}
	if l.slow && slices.ContainsFunc(drafts, func(d event.Draft) bool { return d.Kind == event.KindChunksAccepted }) {
		l.slow, l.late = false, drafts
		return nil, errors.New("outcome unknown")
	}
	if len(l.late) > 0 {
		late := l.late
		l.late = nil
		if _, err := l.write(late); err != nil {
			return nil, err
		}
	}
	return l.write(drafts)
}

func (l *memLog) write(drafts []event.Draft) ([]event.Event, error) {
	var out []event.Event
	for _, d := range drafts {
		b, err := json.Marshal(d.Body)
		if err != nil {
			return nil, err
		}
		n := len(l.events) + 1
		e := event.Event{Source: l.src, Seq: uint64(n), HLC: cluster.NewHLC(time.Now(), 0) + cluster.HLC(n), Term: d.Term, Kind: d.Kind, Body: b}
		l.events = append(l.events, e)
		if l.st.Apply(e) {
			panic("rebuild")
		}
		out = append(out, e)
	}
	return out, nil
}

func (l *memLog) hold(on bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held = on
	close(l.changed)
	l.changed = make(chan struct{})
}

func (l *memLog) WaitStable(ctx context.Context, _ uint64) (int, error) {
	for {
		l.mu.Lock()
		held, changed := l.held, l.changed
		l.mu.Unlock()
		if !held {
			return 3, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return 1, ctx.Err()
		}
	}
}

func (l *memLog) TakesWork() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.full
}

func (l *memLog) View(f func(*state.State)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f(l.st)
}

func (l *memLog) len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.events)
}

// last returns the last event of a kind.
func (l *memLog) last(kind event.Kind) (e event.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, o := range l.events {
		if o.Kind == kind {
			e = o
		}
	}
	return e
}

func (l *memLog) count(kind event.Kind) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for _, e := range l.events {
		if e.Kind == kind {
			n++
		}
	}
	return n
}

// accepted counts the results that were accepted.
func (l *memLog) accepted() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for _, e := range l.events {
		var b event.ChunksAccepted
		if e.Kind == event.KindChunksAccepted && json.Unmarshal(e.Body, &b) == nil {
			n += len(b.Accepts)
		}
	}
	return n
}

// fakeWorker speaks the worker's side over a pipe. It outlives its streams.
type fakeWorker struct {
	node  cluster.NodeID
	slots int
	// answer makes the frames that end an attempt; nil: a good result.
	answer func(r job.Attempt, n uint64) []stream.Frame
	// raw, if set, is written instead of the welcome.
	raw []byte
	// hostile, if set, has the stream after the welcome, until it returns.
	hostile func(net.Conn, *stream.Decoder)

	delay time.Duration // run time of a chunk
	asks  bool          // its chunks get on, and ask for more time
	saves *job.Checkpoint
	// accept is told in the welcome; nil: of an earlier version.
	accept *job.Acceptance
	memory uint64                                // as well
	crew   interface{ dial() (net.Conn, error) } // not nil: the host lets outside workers in

	mu     sync.Mutex
	down   bool
	deaf   bool          // never confirms that it stopped
	thaw   chan struct{} // not nil: everything stands still until it is closed
	term   cluster.Term
	conn   net.Conn
	out    chan stream.Frame
	queue  []work
	busy   int
	kept   []stream.Frame
	ran    map[job.Attempt]int
	owners []string // of the chunks that it was given
	resume []stream.Resume
	forgot int // results that the holder let it drop
	dials  int
	asked  int // queries
}

type work struct {
	ref job.Attempt
	n   uint64
}

func newFakeWorker(node cluster.NodeID, slots int) *fakeWorker {
	return &fakeWorker{node: node, slots: slots, delay: time.Second, ran: make(map[job.Attempt]int)}
}

func goodResult(r job.Attempt, n uint64) stream.Frame {
	return stream.Frame{Result: &stream.Result{Attempt: r, Seconds: 1, Result: &job.ChunkResult{
		Iterations: n, Metrics: map[string]job.Metric{"x": {N: n, Mean: float64(r.Chunk), Min: float64(r.Chunk), Max: float64(r.Chunk)}},
	}}}
}

func failure(r job.Attempt, why string) stream.Frame {
	return stream.Frame{Result: &stream.Result{Attempt: r, Error: why}}
}

var errDown = errors.New("host is down")

func (w *fakeWorker) dial() (net.Conn, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.dials++
	if w.down {
		return nil, errDown
	}
	ours, theirs := net.Pipe()
	go w.serve(ours)
	return theirs, nil
}

// kill makes the host vanish with what it runs; it keeps no results.
func (w *fakeWorker) kill() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.down, w.queue, w.kept = true, nil, nil
	if w.conn != nil {
		w.conn.Close()
	}
}

// cut ends the stream only.
func (w *fakeWorker) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.conn != nil {
		w.conn.Close()
	}
}

// pause waits while the host hangs.
func (w *fakeWorker) pause() {
	w.mu.Lock()
	thaw := w.thaw
	w.mu.Unlock()
	if thaw != nil {
		<-thaw
	}
}

func (w *fakeWorker) serve(conn net.Conn) {
	defer conn.Close()
	w.pause()
	in := stream.NewDecoder(conn)
	f, err := in.Read()
	if err != nil || f.Hello == nil {
		return
	}
	w.mu.Lock()
	if f.Hello.Term < w.term {
		known := w.term
		w.mu.Unlock()
		_ = stream.Write(conn, stream.Frame{Refused: &stream.Refused{MaxTerm: known, Reason: "stale term"}})
		return
	}
	if w.raw != nil {
		w.mu.Unlock()
		_, _ = conn.Write(w.raw)
		return
	}
	w.term, w.conn = f.Hello.Term, conn
	out := make(chan stream.Frame, 4096)
	w.out = out
	has := []job.Attempt{}
	for _, q := range w.queue {
		has = append(has, q.ref)
	}
	out <- stream.Frame{Welcome: &stream.Welcome{Slots: w.slots, Executors: []string{job.ExecutorWASM}, Assigned: has, Accept: w.accept, MemoryBytes: w.memory, Crew: w.crew != nil, Features: []string{stream.FeatureFiles}}}
	for _, k := range w.kept {
		out <- k
	}
	w.mu.Unlock()
	if w.hostile != nil {
		if stream.Write(conn, <-out) == nil { // the welcome
			w.hostile(conn, in)
		}
		return
	}
	done := make(chan struct{})
	defer close(done)
	go w.write(conn, out, done)
	for {
		f, err := in.Read()
		if err != nil {
			return
		}
		w.pause()
		w.on(f)
	}
}

func (w *fakeWorker) write(conn net.Conn, out <-chan stream.Frame, done <-chan struct{}) {
	defer conn.Close()
	status := time.NewTicker(2 * time.Second)
	defer status.Stop()
	for {
		f := stream.Frame{Status: &stream.Status{Running: w.runs(), Ready: true}}
		for _, ref := range f.Status.Running {
			if w.asks {
				f.Status.Progress = append(f.Status.Progress, stream.Progress{Attempt: ref, Done: 1, Ask: &stream.Ask{Number: 1, Seconds: 1e300, Reason: "it is large"}})
			}
		}
		for _, ref := range f.Status.Running {
			if w.saves != nil {
				f.Status.Progress = append(f.Status.Progress, stream.Progress{Attempt: ref, Done: w.saves.Done, Saved: w.saves})
			}
		}
		select {
		case f = <-out:
		case <-status.C:
		case <-done:
			return
		}
		w.pause()
		if err := stream.Write(conn, f); err != nil {
			return
		}
	}
}

func (w *fakeWorker) runs() (refs []job.Attempt) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, q := range w.queue {
		refs = append(refs, q.ref)
	}
	return refs
}

func (w *fakeWorker) on(f stream.Frame) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case f.Assign != nil:
		for _, c := range f.Assign.Chunks {
			_, n := f.Assign.Spec.ChunkRange(c.Chunk)
			w.owners = append(w.owners, f.Assign.Owner)
			w.queue = append(w.queue, work{job.Attempt{Job: f.Assign.Job, Chunk: c.Chunk, Number: c.Number}, n})
		}
		w.resume = append(w.resume, f.Assign.Resume...)
		w.start()
	case f.Cancel != nil && w.deaf:
	case f.Cancel != nil:
		hit := func(r job.Attempt) bool {
			return r.Job == f.Cancel.Job && (len(f.Cancel.Chunks) == 0 ||
				slices.Contains(f.Cancel.Chunks, job.Attempt{Chunk: r.Chunk, Number: r.Number}))
		}
		w.queue = slices.DeleteFunc(w.queue, func(q work) bool { return hit(q.ref) })
		w.kept = slices.DeleteFunc(w.kept, func(k stream.Frame) bool { return hit(k.Result.Attempt) })
		select {
		case w.out <- stream.Frame{Stopped: &stream.Stopped{Job: f.Cancel.Job, Seq: f.Cancel.Seq}}:
		default:
		}
	case f.Query != nil:
		a := stream.Assigned{Nonce: f.Query.Nonce, Refs: []job.Attempt{}, Kept: []job.Attempt{}}
		for _, q := range w.queue {
			a.Refs = append(a.Refs, q.ref)
		}
		for _, k := range w.kept {
			a.Kept = append(a.Kept, k.Result.Attempt)
		}
		w.asked++
		w.out <- stream.Frame{Assigned: &a}
	case f.Accepted != nil:
		for _, r := range f.Accepted.Refs {
			before := len(w.kept)
			w.kept = slices.DeleteFunc(w.kept, func(k stream.Frame) bool { return k.Result.Attempt == r })
			w.forgot += before - len(w.kept)
		}
	}
}

// start runs what there are slots for; the first of the queue run.
func (w *fakeWorker) start() {
	for w.busy < w.slots && w.busy < len(w.queue) {
		q := w.queue[w.busy]
		w.busy++
		time.AfterFunc(w.delay, func() { w.finish(q) })
	}
}

func (w *fakeWorker) finish(q work) {
	w.pause()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.busy--
	defer w.start()
	i := slices.Index(w.queue, q)
	if i < 0 {
		return // cancelled or killed
	}
	w.queue = slices.Delete(w.queue, i, i+1)
	w.ran[q.ref]++
	frames := []stream.Frame{goodResult(q.ref, q.n)}
	if w.answer != nil {
		frames = w.answer(q.ref, q.n)
	}
	for _, f := range frames {
		w.kept = append(w.kept, f)
		if w.out != nil {
			w.out <- f
		}
	}
}

func (w *fakeWorker) keeps() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.kept)
}

// rig is a scheduler with its surroundings.
type rig struct {
	t       *testing.T
	s       *Scheduler
	log     *memLog
	reg     *prometheus.Registry
	workers map[cluster.NodeID]*fakeWorker
	mayAct  func(cluster.Term) bool
	start   time.Time
	unaware atomic.Pointer[cluster.NodeID] // of any kind; nil: nobody is
}

func newRig(t *testing.T, log *memLog, workers ...*fakeWorker) *rig {
	t.Helper()
	r := &rig{
		t: t, log: log, reg: prometheus.NewRegistry(), workers: make(map[cluster.NodeID]*fakeWorker),
		mayAct: func(cluster.Term) bool { return true }, start: time.Now(),
	}
	var names []cluster.NodeID
	for _, w := range workers {
		r.workers[w.node] = w
		names = append(names, w.node)
	}
	var err error
	r.s, err = New(Options{
		Self: workers[0].node, Log: log, MayAct: func(term cluster.Term) bool { return r.mayAct(term) },
		Dial:     func(_ context.Context, to cluster.NodeID) (net.Conn, error) { return r.workers[to].dial() },
		DialCrew: func(_ context.Context, to cluster.NodeID) (net.Conn, error) { return r.workers[to].crew.dial() },
		Now:      func() time.Duration { return time.Since(r.start) }, Logger: zerolog.Nop(), Registerer: r.reg,
		Unaware: func(event.Kind) []cluster.NodeID {
			if n := r.unaware.Load(); n != nil {
				return []cluster.NodeID{*n}
			}
			return nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	r.s.SetWorkers(names)
	return r
}

// run schedules under a term until stop is called.
func (r *rig) run(term cluster.Term) (stop func() error) {
	ctx, cancel := context.WithCancel(r.t.Context())
	done := make(chan error, 1)
	go func() { done <- r.s.Run(ctx, term) }()
	synctest.Wait()
	return func() error {
		cancel()
		return <-done
	}
}

func testSpec(key string, chunks int) job.Spec {
	return job.Spec{Key: key, Artefact: cluster.Hash{1}, Iterations: 10 * uint64(chunks), Chunk: 10, TimeoutSeconds: 30}
}

func (r *rig) submit(key string, chunks int) job.ID {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), time.Minute)
	defer cancel()
	got, err := r.s.Submit(ctx, testSpec(key, chunks), "uid:1", WaitStable, false)
	if err != nil {
		r.t.Fatal(err)
	}
	return got.Job
}

func (r *rig) job(id job.ID) state.Job {
	var j state.Job
	r.log.View(func(s *state.State) { j, _ = s.Job(id) })
	return j
}

// until lets fake time pass until ok, at most limit.
func (r *rig) until(limit time.Duration, what string, ok func() bool) {
	r.t.Helper()
	for start := time.Now(); !ok(); time.Sleep(50 * time.Millisecond) {
		if time.Since(start) > limit {
			r.t.Fatalf("after %s: %s not yet", limit, what)
		}
	}
}

func (r *rig) ended(id job.ID, limit time.Duration) state.Job {
	r.t.Helper()
	r.until(limit, "end of the job", func() bool { return r.job(id).State.Final() })
	return r.job(id)
}

func (r *rig) metric(name string) float64 {
	r.t.Helper()
	fams, err := r.reg.Gather()
	if err != nil {
		r.t.Fatal(err)
	}
	sum := 0.0
	for _, f := range fams {
		if f.GetName() == name {
			for _, m := range f.GetMetric() {
				sum += m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
	}
	return sum
}

// view is a worker as the running term sees it.
func (r *rig) view(n cluster.NodeID) plan.WorkerView {
	for _, v := range r.s.Workers() {
		if v.Worker == n {
			return v
		}
	}
	return plan.WorkerView{}
}
