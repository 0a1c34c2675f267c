package scheduler

import (
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/scheduler/stream"
)

// fakeGateway is the host's side of stream.CrewProto, which says what a test lets it
// say and keeps what it hears.
type fakeGateway struct {
	mu    sync.Mutex
	conn  net.Conn
	out   chan stream.Frame
	heard []stream.Frame
	dials int
	// on, if set, answers a frame; it runs while nothing else is heard.
	on func(f stream.Frame) []stream.Frame
}

func (g *fakeGateway) dial() (net.Conn, error) {
	ours, theirs := net.Pipe()
	g.mu.Lock()
	defer g.mu.Unlock()
	g.dials++
	if g.conn != nil {
		g.conn.Close()
	}
	g.conn, g.out = ours, make(chan stream.Frame, 4096)
	go g.serve(ours, g.out)
	return theirs, nil
}

func (g *fakeGateway) serve(conn net.Conn, out chan stream.Frame) {
	defer conn.Close()
	in := stream.NewCrewDecoder(conn)
	if f, err := in.Read(); err != nil || f.Hello == nil {
		return
	}
	done := make(chan struct{})
	defer close(done)
	go func() {
		var enc stream.Encoder
		status := time.NewTicker(2 * time.Second)
		defer status.Stop()
		b, _ := enc.Append(nil, stream.Frame{Welcome: &stream.Welcome{Crew: true}})
		for {
			if _, err := conn.Write(b); err != nil {
				return
			}
			f := stream.Frame{Status: &stream.Status{}}
			select {
			case f = <-out:
			case <-status.C:
			case <-done:
				return
			}
			var err error
			if b, err = enc.Append(b[:0], f); err != nil {
				panic(err)
			}
		}
	}()
	for {
		f, err := in.Read()
		if err != nil {
			return
		}
		g.mu.Lock()
		g.heard = append(g.heard, f)
		on := g.on
		g.mu.Unlock()
		if on != nil {
			for _, a := range on(f) {
				out <- a
			}
		}
	}
}

func (g *fakeGateway) say(frames ...stream.Frame) {
	g.mu.Lock()
	out := g.out
	g.mu.Unlock()
	for _, f := range frames {
		out <- f
	}
	time.Sleep(time.Second)
}

// took returns what was heard of a kind.
func (g *fakeGateway) took(kind func(stream.Frame) bool) (out []stream.Frame) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, f := range g.heard {
		if kind(f) {
			out = append(out, f)
		}
	}
	return out
}

func (g *fakeGateway) dialled() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.dials
}

func (g *fakeGateway) cut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.conn != nil {
		g.conn.Close()
	}
}

func drops(f stream.Frame) bool   { return f.Drop != nil }
func assigns(f stream.Frame) bool { return f.Assign != nil }

func joinOf(n cluster.NodeID, session uint64, owner string) stream.Frame {
	return stream.Frame{Worker: n, Join: &stream.Join{Session: session, Owner: owner, Slots: 1, Room: 2, Executors: []string{job.ExecutorWASM}}}
}

// honest answers each assignment with good results.
func honest(f stream.Frame) (out []stream.Frame) {
	if f.Assign == nil {
		return nil
	}
	for _, c := range f.Assign.Chunks {
		_, n := f.Assign.Spec.ChunkRange(c.Chunk)
		r := goodResult(job.Attempt{Job: f.Assign.Job, Chunk: c.Chunk, Number: c.Number}, n)
		r.Worker = f.Worker
		out = append(out, r)
	}
	return out
}

// inCrew runs f with hosts a, b and c, of which a and b let outside workers in.
func inCrew(t *testing.T, f func(t *testing.T, r *rig, a, b *fakeGateway)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		a, b, c := newFakeWorker("a", 2), newFakeWorker("b", 2), newFakeWorker("c", 2)
		ga, gb := &fakeGateway{on: honest}, &fakeGateway{on: honest}
		a.crew, b.crew = ga, gb
		r := newRig(t, newMemLog("a"), a, b, c)
		f(t, r, ga, gb)
		for _, w := range r.workers {
			w.kill()
		}
		ga.cut()
		gb.cut()
	})
}

func (r *rig) submitOutside(key string, chunks int) job.ID {
	r.t.Helper()
	spec := testSpec(key, chunks)
	spec.Permission.Outside = true
	got, err := r.s.Submit(r.t.Context(), spec, "uid:1", WaitStable, false)
	if err != nil {
		r.t.Fatal(err)
	}
	return got.Job
}

// TestCrew: outside workers are workers of their own, which get what is for them, over
// the one stream of the host that lets them in. Each chunk counts once.
func TestCrew(t *testing.T) {
	inCrew(t, func(t *testing.T, r *rig, a, b *fakeGateway) {
		stop := r.run(1)
		time.Sleep(time.Second)
		var names []cluster.NodeID
		for i := range 20 {
			n := cluster.OutsideID([]byte{byte(i)})
			names = append(names, n)
			a.say(joinOf(n, 5, fmt.Sprintf("visitor:%d", i)))
		}
		home := r.submit("home", 30)
		wantDone(t, r.ended(home, time.Minute))
		if got := a.took(assigns); len(got) > 0 {
			t.Fatalf("strangers get chunks of a job that does not go outside: %+v", got[0])
		}
		out := r.submitOutside("out", 300)
		j := r.ended(out, 5*time.Minute)
		wantDone(t, j)
		if n := r.log.accepted(); n != 330 {
			t.Errorf("%d accepts logged, want 330", n)
		}
		strange := 0
		for _, w := range j.Workers {
			if slices.Contains(names, w.Worker) {
				strange++
			}
		}
		if strange == 0 {
			t.Errorf("no outside worker did any of it: %+v", j.Workers)
		}
		if n := len(b.took(assigns)); n > 0 {
			t.Errorf("%d assignments went to the other host", n)
		}
		for _, f := range a.took(assigns) {
			if !slices.Contains(names, f.Worker) || f.Assign.Job != out {
				t.Errorf("assigned: %+v", f)
			}
		}
		for _, k := range []event.Kind{event.KindWorkerUp, event.KindWorkerDown} {
			if e := r.log.last(k); e.Kind == k && slices.ContainsFunc(names, func(n cluster.NodeID) bool { return strings.Contains(string(e.Body), string(n)) }) {
				t.Errorf("the log hears of a stranger that comes or goes: %s", e.Body)
			}
		}
		// A query of each, in time, and its answer.
		if got := a.took(func(f stream.Frame) bool { return f.Query != nil }); len(got) == 0 {
			t.Error("nobody was asked what it has")
		}
		_ = stop()
	})
}

// TestCrewSessions: a worker moves, and the host that it left is told; what that host
// still says of it is void.
func TestCrewSessions(t *testing.T) {
	inCrew(t, func(t *testing.T, r *rig, a, b *fakeGateway) {
		stop := r.run(1)
		time.Sleep(time.Second)
		n := cluster.OutsideID(nil)
		a.say(joinOf(n, 5, "visitor:1"))
		b.say(joinOf(n, 4, "visitor:1"))
		if d := b.took(drops); len(d) != 1 || d[0].Worker != n || *d[0].Drop != (stream.Drop{Term: 1, Session: 5, Reason: stream.DropStale}) {
			t.Errorf("an earlier session: %+v", d)
		}
		b.say(joinOf(n, 6, "visitor:1"))
		if d := a.took(drops); len(d) != 1 || *d[0].Drop != (stream.Drop{Term: 1, Session: 5, Reason: stream.DropReplaced}) {
			t.Errorf("a later session elsewhere: %+v", d)
		}
		a.say(stream.Frame{Worker: n, Part: &stream.Part{Session: 5}})
		if v := r.view(n); !v.Connected {
			t.Errorf("%+v, want it at b", v)
		}
		b.cut()
		time.Sleep(20 * time.Millisecond)
		if v := r.view(n); v.Connected {
			// The view is at most a tick old.
			time.Sleep(200 * time.Millisecond)
			if v = r.view(n); v.Connected {
				t.Errorf("%+v, and its stream is gone", v)
			}
		}
		time.Sleep(5 * time.Second)
		b.say(joinOf(n, 6, "visitor:1"))
		if v := r.view(n); !v.Connected || v.Health != "" && v.Health != cluster.Alive || v.Trusted {
			t.Errorf("%+v, want it back as a stranger", v)
		}
		_ = stop()
	})
}

// TestCrewOffences: what one worker does wrong ends no stream, of it or of a host.
func TestCrewOffences(t *testing.T) {
	inCrew(t, func(t *testing.T, r *rig, a, b *fakeGateway) {
		stop := r.run(1)
		time.Sleep(time.Second)
		bad, good := cluster.OutsideID([]byte("bad")), cluster.OutsideID([]byte("good"))
		a.say(joinOf(bad, 5, "visitor:1"), joinOf(good, 5, "visitor:2"))
		id := r.submitOutside("k", 400)
		r.s.SetHealth("b", cluster.Suspect)
		wrong := goodResult(job.Attempt{Job: id, Chunk: 100000, Number: 1}, 10)
		wrong.Worker = bad
		a.say(wrong)
		if d := a.took(drops); len(d) != 1 || d[0].Worker != bad || d[0].Drop.Reason != stream.DropOffence {
			t.Errorf("drops %+v", d)
		}
		if v := r.view(bad); v.Connected {
			t.Errorf("it is still there: %+v", v)
		}
		if v := r.view(good); !v.Connected || a.dialled() != 1 {
			t.Errorf("the other one suffers: %+v, %d streams", v, a.dialled())
		}
		// What no host may say ends the stream, and another is opened.
		a.say(stream.Frame{Worker: good, Cancel: &stream.Cancel{Term: 1, Job: id}})
		time.Sleep(5 * time.Second)
		if a.dialled() < 2 {
			t.Errorf("%d streams, want another", a.dialled())
		}
		r.s.SetHealth("b", cluster.Alive)
		wantDone(t, r.ended(id, 10*time.Minute))
		_ = stop()
	})
}

// TestCrewStops: nobody waits for a stranger, and those that were lost with a holder
// leave.
func TestCrewStops(t *testing.T) {
	inCrew(t, func(t *testing.T, r *rig, a, b *fakeGateway) {
		a.on, b.on = nil, nil // they never answer
		for _, w := range r.workers {
			w.delay = time.Hour
		}
		stop := r.run(1)
		time.Sleep(time.Second)
		n := cluster.OutsideID(nil)
		a.say(joinOf(n, 5, "visitor:1"))
		id := r.submitOutside("k", 200)
		time.Sleep(time.Second)
		if len(a.took(assigns)) == 0 {
			t.Fatal("it got nothing")
		}
		if err := r.s.Stop(t.Context(), id, "uid:1", ""); err != nil {
			t.Fatal(err)
		}
		if j := r.ended(id, 3*time.Second); j.State != job.Cancelled || strings.Contains(j.Reason, string(n)) {
			t.Errorf("%+v", j)
		}
		other := r.submitOutside("l", 200)
		time.Sleep(time.Second)
		_ = stop()
		stop = r.run(2)
		time.Sleep(115 * time.Second)
		if v := r.view(n); v.Worker != n {
			t.Error("the worker that the log names is not known to the next holder")
		}
		time.Sleep(10 * time.Second)
		if v := r.view(n); v.Worker == n {
			t.Errorf("it did not come, and is still there: %+v", v)
		}
		if err := r.s.Stop(t.Context(), other, "uid:1", ""); err != nil {
			t.Fatal(err)
		}
		r.ended(other, 3*time.Second)
		_ = stop()
	})
}

// TestCrewRegistry: whose a worker is says the log, and when it says something else the
// worker is told to come again, or not to.
func TestCrewRegistry(t *testing.T) {
	inCrew(t, func(t *testing.T, r *rig, a, _ *fakeGateway) {
		stop := r.run(1)
		time.Sleep(time.Second)
		ann := event.UserSet{Name: "ann", Role: "submitter", Actor: "uid:0"}
		if err := r.s.Set(t.Context(), ann); err != nil {
			t.Fatal(err)
		}
		key := make([]byte, 32)
		n := cluster.OutsideID(key)
		enrol := event.WorkerEnrolled{Worker: n, Key: key, Owner: "user:ann", Trusted: true, Actor: "uid:0"}
		a.say(joinOf(n, 5, "visitor:1"))
		if v := r.view(n); v.Trusted || v.Owner != "visitor:1" {
			t.Errorf("%+v", v)
		}
		if err := r.s.Set(t.Context(), enrol); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if d := a.took(drops); len(d) != 1 || d[0].Drop.Reason != stream.DropStale || d[0].Drop.Session != 5 {
			t.Fatalf("enrolled while it is there: %+v", d)
		}
		a.say(joinOf(n, 6, "visitor:1"))
		if v := r.view(n); !v.Trusted || v.Owner != "user:ann" {
			t.Errorf("%+v, want it ann's and trusted", v)
		}
		// So it is while its owner may do nothing, and of its owner alone.
		for i, u := range []event.UserSet{{Name: "bob", Role: "viewer", Disabled: true}, {Name: "ann", Role: "submitter", Disabled: true}, ann} {
			if err := r.s.Set(t.Context(), u); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
			if d, want := a.took(drops), 1+min(i, 1); len(d) != want || d[want-1].Drop.Reason != []stream.DropReason{stream.DropStale, stream.DropRevoked}[want-1] {
				t.Fatalf("%+v: %+v", u, d)
			}
		}
		a.say(joinOf(n, 7, "visitor:1"))
		if v := r.view(n); v.Worker != n || v.Owner != "user:ann" {
			t.Errorf("its owner may do things again: %+v", v)
		}
		if err := r.s.Set(t.Context(), event.WorkerRevoked{Worker: n, Actor: "uid:0"}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if d := a.took(drops); len(d) != 3 || d[2].Drop.Reason != stream.DropRevoked {
			t.Fatalf("revoked: %+v", d)
		}
		a.say(joinOf(n, 8, "visitor:1"))
		if d := a.took(drops); len(d) != 4 || d[3].Drop.Reason != stream.DropRevoked {
			t.Fatalf("it comes again: %+v", d)
		}
		if v := r.view(n); v.Worker == n {
			t.Errorf("%+v", v)
		}
		_ = stop()
	})
}

// TestLeftWithoutStream: a host that leaves while it has no stream leaves nothing behind.
func TestLeftWithoutStream(t *testing.T) {
	in(t, func(t *testing.T, r *rig, _, _, c *fakeWorker) {
		stop := r.run(1)
		time.Sleep(time.Second)
		c.kill()
		time.Sleep(time.Second)
		if v := r.view("c"); v.Worker != "c" || v.Connected {
			t.Fatalf("%+v", v)
		}
		r.s.SetWorkers([]cluster.NodeID{"a", "b"})
		time.Sleep(2 * time.Second)
		if v := r.view("c"); v.Worker == "c" {
			t.Errorf("it left, and is still there: %+v", v)
		}
		_ = stop()
	})
}
