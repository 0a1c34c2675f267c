package crewtest

import (
	"errors"
	"fmt"
	"net"
	"os"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/gateway/desk"
	"github.com/skein-project/skein/scheduler/stream"
)

// patience bounds what is waited for; mutants that answer nothing need not be waited for so
// long.
var patience = func() time.Duration {
	if d, err := time.ParseDuration(os.Getenv("SKEIN_MUTANT_PATIENCE")); err == nil {
		return d
	}
	return 30 * time.Second
}()

// Crew is one crew, seen from two gateways and by its holders.
type Crew struct {
	// Doors are the same crew; a store in memory has the same twice.
	Doors [2]desk.Crew
	// Dial opens the stream of a holder, before its Hello.
	Dial func(holder cluster.NodeID) net.Conn
	// Heard is all that workers were told; Note is to be called with each push.
	*Heard
}

// Heard is what workers were told.
type Heard struct {
	mu  sync.Mutex
	all map[cluster.NodeID][]desk.Push
}

// NewHeard returns a Heard of nothing.
func NewHeard() *Heard { return &Heard{all: map[cluster.NodeID][]desk.Push{}} }

// Note takes in a push.
func (h *Heard) Note(p desk.Push) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.all[p.Worker] = append(h.all[p.Worker], p)
}

// Taken returns what a worker was told, and forgets it.
func (h *Heard) Taken(id cluster.NodeID) []desk.Push {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := h.all[id]
	delete(h.all, id)
	return out
}

// Await returns the next push to a worker, which it forgets.
func (h *Heard) Await(t *testing.T, id cluster.NodeID) desk.Push {
	t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(time.Millisecond) {
		h.mu.Lock()
		if list := h.all[id]; len(list) > 0 {
			h.all[id] = list[1:]
			h.mu.Unlock()
			return list[0]
		}
		h.mu.Unlock()
	}
	t.Fatalf("%s is told nothing", id)
	return desk.Push{}
}

// Silent checks that nothing waits that a worker was told.
func (h *Heard) Silent(t *testing.T, id cluster.NodeID) {
	t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.all[id]) > 0 {
		t.Errorf("%s is told more: %+v", id, h.all[id])
	}
}

// Holder is the other end of a stream.
type Holder struct {
	t    *testing.T
	conn net.Conn
	enc  stream.Encoder
	in   *stream.Decoder
	term cluster.Term
}

// Hold opens the stream of a holder.
func (c *Crew) Hold(t *testing.T, holder cluster.NodeID, term cluster.Term) *Holder {
	t.Helper()
	conn := c.Dial(holder)
	h := &Holder{t: t, conn: conn, in: stream.NewCrewDecoder(conn), term: term}
	t.Cleanup(func() { _ = conn.Close() })
	h.Say(stream.Frame{Hello: &stream.Hello{Term: term, Holder: holder}})
	return h
}

// Welcomed waits until it is served.
func (h *Holder) Welcomed() *Holder {
	h.t.Helper()
	if f := h.Hear(); f.Welcome == nil || !f.Welcome.Crew {
		h.t.Fatalf("%+v, want a welcome", f)
	}
	return h
}

// Refused waits until it is refused, or its stream ends.
func (h *Holder) Refused() {
	h.t.Helper()
	for {
		_ = h.conn.SetReadDeadline(time.Now().Add(patience))
		f, err := h.in.Read()
		if e, ok := errors.AsType[net.Error](err); ok && e.Timeout() {
			h.t.Fatal("a stream that must end goes on")
		}
		if err != nil || f.Refused != nil {
			return
		}
	}
}

// Say sends a frame.
func (h *Holder) Say(f stream.Frame) {
	h.t.Helper()
	_ = h.conn.SetWriteDeadline(time.Now().Add(patience))
	b, err := h.enc.Append(nil, f)
	if err == nil {
		_, err = h.conn.Write(b)
	}
	if err != nil {
		h.t.Fatal(err)
	}
}

// Hear returns the next frame that is not the host's own status.
func (h *Holder) Hear() stream.Frame {
	h.t.Helper()
	for {
		_ = h.conn.SetReadDeadline(time.Now().Add(patience))
		f, err := h.in.Read()
		if err != nil {
			h.t.Fatal(err)
		}
		if f.Status == nil || f.Worker != "" {
			return f
		}
	}
}

// ID is the id of the worker number i.
func ID(i int) cluster.NodeID { return cluster.OutsideID([]byte{byte(i), byte(i >> 8), 'w'}) }

// Attaching is what it says that attaches.
func Attaching(i int) desk.Attach {
	return desk.Attach{Worker: ID(i), Owner: fmt.Sprintf("user:u%d", i), Slots: 2, Room: 4, MemoryBytes: 1 << 30, Executors: []string{job.ExecutorWASM}}
}

// Jobs of the suite.
const (
	jobA job.ID = "jaaaaaaaaaaaaaaaaaaaaaaaaaa"
	jobB job.ID = "jbbbbbbbbbbbbbbbbbbbbbbbbbb"
)

func ref(j job.ID, chunk int) job.Attempt { return job.Attempt{Job: j, Chunk: chunk, Number: 1} }

func refs(j job.ID, from, to int) (out []job.Attempt) {
	for c := from; c < to; c++ {
		out = append(out, ref(j, c))
	}
	return out
}

// Spec is that of a job.
func Spec(j job.ID) job.Spec {
	return job.Spec{Key: "k", Executor: job.ExecutorWASM, Artefact: cluster.Hash{1, byte(j[1])}, Config: cluster.Hash{2, byte(j[1])}, Iterations: 100_000, Chunk: 10, Seed: 7, Attempts: 3, TimeoutSeconds: 60, MemoryBytes: 64 << 20}
}

// Give assigns chunks.
func (h *Holder) Give(to cluster.NodeID, j job.ID, seq uint64, chunks ...int) {
	h.t.Helper()
	a := stream.Assign{Term: h.term, Seq: seq, Job: j, Spec: Spec(j), Owner: "user:ann"}
	for _, c := range chunks {
		a.Chunks = append(a.Chunks, job.Attempt{Chunk: c, Number: 1})
	}
	h.Say(stream.Frame{Worker: to, Assign: &a})
}

// has asks what a worker has and keeps.
func (h *Holder) has(of cluster.NodeID) (refs, kept []job.Attempt) {
	h.t.Helper()
	h.Say(stream.Frame{Worker: of, Query: &stream.Ping{Term: h.term, Nonce: 9}})
	for {
		if f := h.Hear(); f.Assigned != nil && f.Worker == of && f.Assigned.Nonce == 9 {
			return f.Assigned.Refs, f.Assigned.Kept
		}
	}
}

func (h *Holder) joins(i int) stream.Join {
	h.t.Helper()
	f := h.Hear()
	if f.Join == nil || f.Worker != ID(i) {
		h.t.Fatalf("%+v, want the join of worker %d", f, i)
	}
	return *f.Join
}

func (h *Holder) result(r job.Attempt) {
	h.t.Helper()
	if f := h.Hear(); f.Result == nil || f.Result.Attempt != r {
		h.t.Fatalf("%+v, want the result of %v", f, r)
	}
}

func attach(t *testing.T, d desk.Crew, a desk.Attach) (desk.Seat, desk.State) {
	t.Helper()
	s, st, err := d.Attach(a)
	if err != nil {
		t.Fatal(err)
	}
	return s, st
}

// Result is one of an attempt.
func Result(r job.Attempt) stream.Result {
	return stream.Result{Attempt: r, Seconds: 0.25, Result: &job.ChunkResult{Iterations: 10, Metrics: map[string]job.Metric{"x": {N: 10, Mean: 0.1, M2: 0.3, Min: -1, Max: 1e300}}}}
}

func complete(t *testing.T, s desk.Seat, want desk.Verdict, list ...job.Attempt) {
	t.Helper()
	var all []stream.Result
	for _, r := range list {
		all = append(all, Result(r))
	}
	got, err := s.Complete(all)
	if err != nil || len(got) != len(list) || slices.ContainsFunc(got, func(v desk.Verdict) bool { return v != want }) {
		t.Errorf("results of %v: %v, %v, want %s", list, got, err, want)
	}
}

func same(t *testing.T, what string, got, want []job.Attempt) {
	t.Helper()
	if len(got)+len(want) > 0 && !reflect.DeepEqual(got, want) {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

// chunks waits for a push of chunks.
func (c *Crew) chunks(t *testing.T, id cluster.NodeID, j job.ID, want ...job.Attempt) {
	t.Helper()
	p := c.Await(t, id)
	if p.Kind != desk.PushChunks || p.Chunks.Spec == nil || !reflect.DeepEqual(*p.Chunks.Spec, Spec(j)) {
		t.Fatalf("%+v, want chunks of %s", p, j)
	}
	same(t, "chunks", p.Chunks.Refs, want)
}

// about waits for a push about attempts.
func (c *Crew) about(t *testing.T, id cluster.NodeID, kind desk.PushKind, want ...job.Attempt) {
	t.Helper()
	p := c.Await(t, id)
	if p.Kind != kind {
		t.Fatalf("%+v, want %s", p, kind)
	}
	same(t, string(kind), p.Refs, want)
}

// Run runs the suite; each case has a crew of its own from start, which has room for so many
// results as Result makes them, and not much more.
func Run(t *testing.T, start func(t *testing.T, results int) *Crew) {
	for name, run := range map[string]func(*testing.T, *Crew){
		"chunk": chunkOfItsOwn, "sessions": sessions, "beats": beats, "claims": claims, "holders": holders, "cancel": cancel,
		"drop": drop, "leave": leave, "room": room, "again": again, "twice": twice, "shared": sharedJob, "bad": bad,
	} {
		t.Run(name, func(t *testing.T) { run(t, start(t, 1000)) })
	}
	t.Run("full", func(t *testing.T) { full(t, start(t, 4)) })
}

// chunkOfItsOwn: the way of a chunk, the worker asking at either gateway.
func chunkOfItsOwn(t *testing.T, c *Crew) {
	h := c.Hold(t, "n1", 1).Welcomed()
	s, st := attach(t, c.Doors[0], Attaching(1))
	if st.Session == 0 || st.Seq != 0 || len(st.Chunks) != 0 || st.Term != 1 {
		t.Errorf("%+v", st)
	}
	j := h.joins(1)
	if want := Attaching(1); j.Session != st.Session || j.Owner != want.Owner || j.Slots != 2 || j.Room != 4 || j.MemoryBytes != 1<<30 ||
		!slices.Equal(j.Executors, want.Executors) || j.Draining || len(j.Assigned) != 0 {
		t.Errorf("%+v", j)
	}
	h.Give(ID(1), jobA, 1, 3, 4)
	c.chunks(t, ID(1), jobA, refs(jobA, 3, 5)...)
	other, err := c.Doors[1].Seat(ID(1), st.Session)
	if err != nil {
		t.Fatal(err)
	}
	got, err := other.Assigned()
	if err != nil || got.Seq != 1 || got.Term != 1 || len(got.Chunks) != 1 || !reflect.DeepEqual(*got.Chunks[0].Spec, Spec(jobA)) {
		t.Fatalf("%+v, %v", got, err)
	}
	same(t, "assigned", got.Chunks[0].Refs, refs(jobA, 3, 5))
	for _, d := range c.Doors {
		if !d.Names(ID(1), Spec(jobA).Artefact) || !d.Names(ID(1), Spec(jobA).Config) || d.Names(ID(1), cluster.Hash{9}) || d.Names(ID(2), Spec(jobA).Artefact) {
			t.Error("it may fetch other artefacts than its chunks need")
		}
	}
	complete(t, other, desk.Taken, ref(jobA, 3))
	f := h.Hear()
	if want := Result(ref(jobA, 3)); f.Result == nil || !reflect.DeepEqual(*f.Result, want) || f.Worker != ID(1) {
		t.Fatalf("%+v, want %+v", f, want)
	}
	complete(t, s, desk.Duplicate, ref(jobA, 3))
	if seq, err := s.Beat(desk.Beat{Have: []desk.Progress{{Attempt: ref(jobA, 3)}, {Attempt: ref(jobA, 4)}}}); err != nil || seq != 1 {
		t.Errorf("a beat that names what is done: push %d, %v", seq, err)
	}
	if f := h.Hear(); f.Status == nil {
		t.Fatalf("%+v", f)
	}
	complete(t, s, desk.Unknown, ref(jobA, 5), ref(jobB, 4))
	has, kept := h.has(ID(1))
	same(t, "has", has, refs(jobA, 4, 5))
	same(t, "keeps", kept, refs(jobA, 3, 4))
	h.Say(stream.Frame{Worker: ID(1), Accepted: &stream.Accepted{Term: 1, Refs: refs(jobA, 3, 4)}})
	c.about(t, ID(1), desk.PushSettled, ref(jobA, 3))
	complete(t, s, desk.Unknown, ref(jobA, 3))
	complete(t, s, desk.Taken, ref(jobA, 4))
	h.result(ref(jobA, 4))
	h.Give(ID(1), jobB, 1, 1)
	c.chunks(t, ID(1), jobB, ref(jobB, 1))
	h.Say(stream.Frame{Worker: ID(1), Accepted: &stream.Accepted{Term: 1, Refs: refs(jobB, 1, 2)}}) // another was faster
	c.about(t, ID(1), desk.PushSettled, ref(jobB, 1))
	has, _ = h.has(ID(1))
	same(t, "has", has, nil)
	if c.Doors[0].Names(ID(1), Spec(jobA).Artefact) {
		t.Error("it may fetch what it needs no more")
	}
	c.Silent(t, ID(1))
}

// sessions: the latest one counts, at whichever gateway it began.
func sessions(t *testing.T, c *Crew) {
	h := c.Hold(t, "n1", 1).Welcomed()
	s, first := attach(t, c.Doors[0], Attaching(1))
	h.joins(1)
	h.Give(ID(1), jobA, 1, 1)
	c.chunks(t, ID(1), jobA, ref(jobA, 1))
	b := Attaching(1)
	b.Running = refs(jobA, 1, 2)
	next, second := attach(t, c.Doors[1], b)
	if second.Session <= first.Session || len(second.Chunks) != 1 {
		t.Errorf("%+v after %+v", second, first)
	}
	if p := c.Await(t, ID(1)); p.Kind != desk.PushGone || p.Session != first.Session || p.Reason != stream.DropReplaced || p.After < first.Session {
		t.Errorf("%+v", p)
	}
	if j := h.joins(1); j.Session != second.Session || !slices.Equal(j.Assigned, refs(jobA, 1, 2)) {
		t.Errorf("%+v", j)
	}
	for name, err := range map[string]error{
		"beat": errOf(s.Beat(desk.Beat{})), "complete": errOf(s.Complete(nil)), "assigned": errOf(s.Assigned()), "bye": s.Bye(), "lose": s.Lose(),
	} {
		if !errors.Is(err, desk.ErrSession) {
			t.Errorf("%s: %v", name, err)
		}
	}
	a := Attaching(1)
	a.After = second.Session + 1<<40
	_, third := attach(t, c.Doors[0], a)
	if third.Session <= a.After {
		t.Errorf("session %d, one of %d is known elsewhere", third.Session, a.After)
	}
	if _, err := next.Assigned(); !errors.Is(err, desk.ErrSession) {
		t.Errorf("%v", err)
	}
	if _, fourth := attach(t, c.Doors[1], Attaching(1)); fourth.Session <= third.Session {
		t.Errorf("session %d after %d", fourth.Session, third.Session)
	}
	nobody, err := c.Doors[0].Seat(ID(7), 1)
	if err == nil {
		_, err = nobody.Beat(desk.Beat{})
	}
	if !errors.Is(err, desk.ErrUnknown) {
		t.Errorf("nobody's session: %v", err)
	}
}

func errOf[T any](_ T, err error) error { return err }

// beats: what a worker lacks it is told again after two beats, what it should not have it is
// to stop; the holder hears how far it is.
func beats(t *testing.T, c *Crew) {
	h := c.Hold(t, "n1", 1).Welcomed()
	s, _ := attach(t, c.Doors[0], Attaching(1))
	h.joins(1)
	h.Give(ID(1), jobA, 1, 1, 2)
	c.chunks(t, ID(1), jobA, refs(jobA, 1, 3)...)
	h.Give(ID(1), jobB, 1, 1)
	c.chunks(t, ID(1), jobB, ref(jobB, 1))
	beat := func(want uint64, have ...desk.Progress) stream.Status {
		t.Helper()
		seq, err := s.Beat(desk.Beat{Have: have, Kept: 2, Ready: true})
		if err != nil || seq != want {
			t.Errorf("a beat: push %d, %v, want %d", seq, err, want)
		}
		f := h.Hear()
		if f.Status == nil || f.Worker != ID(1) || f.Status.Kept != 2 || !f.Status.Ready || f.Status.Draining {
			t.Fatalf("%+v, want a status", f)
		}
		return *f.Status
	}
	one := desk.Progress{Attempt: ref(jobA, 1), Done: 1<<53 + 1}
	st := beat(2, one)
	same(t, "running", st.Running, refs(jobA, 1, 2))
	if len(st.Progress) != 1 || st.Progress[0].Attempt != one.Attempt || st.Progress[0].Done != one.Done {
		t.Errorf("%+v", st.Progress)
	}
	c.Silent(t, ID(1))
	one.Done = 5 // it does not fall
	if st := beat(4, one); st.Progress[0].Done != 1<<53+1 {
		t.Errorf("%+v", st.Progress)
	}
	c.chunks(t, ID(1), jobA, ref(jobA, 2))
	c.chunks(t, ID(1), jobB, ref(jobB, 1))
	all := []desk.Progress{one, {Attempt: ref(jobA, 2)}, {Attempt: ref(jobB, 1)}}
	beat(4, all...)
	st = beat(5, append(all, desk.Progress{Attempt: ref(jobB, 9)}, all[0])...)
	same(t, "running", st.Running, []job.Attempt{ref(jobA, 1), ref(jobA, 2), ref(jobB, 1)})
	c.about(t, ID(1), desk.PushStop, ref(jobB, 9))
	beat(5, one)
	beat(5, all...) // missed once, and not twice in a row
	beat(5, one)
	c.Silent(t, ID(1))
	if _, err := s.Beat(desk.Beat{Draining: true}); err != nil {
		t.Fatal(err)
	}
	if f := h.Hear(); f.Status == nil || !f.Status.Draining {
		t.Errorf("%+v", f)
	}
	if j := c.Hold(t, "n2", 2).Welcomed().joins(1); !j.Draining {
		t.Errorf("%+v", j)
	}
}

// claims: what a worker brings from elsewhere it has, until two beats do not name it.
func claims(t *testing.T, c *Crew) {
	h := c.Hold(t, "n1", 1).Welcomed()
	a := Attaching(1)
	a.Running, a.Kept = refs(jobA, 1, 3), refs(jobA, 5, 6)
	s, st := attach(t, c.Doors[0], a)
	if len(st.Chunks) != 0 || len(st.Stop) != 0 {
		t.Errorf("%+v", st)
	}
	same(t, "joins", h.joins(1).Assigned, append(refs(jobA, 1, 3), ref(jobA, 5)))
	complete(t, s, desk.Taken, ref(jobA, 5))
	h.result(ref(jobA, 5))
	h.Give(ID(1), jobA, 1, 2) // it has it already
	_, _ = h.has(ID(1))
	c.Silent(t, ID(1))
	for range 2 {
		if _, err := s.Beat(desk.Beat{}); err != nil {
			t.Fatal(err)
		}
	}
	c.chunks(t, ID(1), jobA, ref(jobA, 2)) // that one it is to have
	has, _ := h.has(ID(1))
	same(t, "has", has, refs(jobA, 2, 3))
	b := Attaching(2)
	b.Running = refs(jobA, 100, 100+desk.MaxRefs)
	attach(t, c.Doors[0], b)
	b.Running = refs(jobB, 1, 3)
	_, st = attach(t, c.Doors[1], b)
	same(t, "stop", st.Stop, refs(jobB, 1, 3))
}
