package seats

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/scheduler/plan/step"
	"github.com/skein-project/skein/scheduler/plan/trust"
	"github.com/skein-project/skein/scheduler/stream"
)

var (
	ann     = cluster.OutsideID([]byte("ann"))     // enrolled
	friend  = cluster.OutsideID([]byte("friend"))  // trusted
	former  = cluster.OutsideID([]byte("former"))  // revoked
	visitor = cluster.OutsideID([]byte("visitor")) // nobody knows it
)

func registry(n cluster.NodeID) (Enrolled, bool) {
	e, ok := map[cluster.NodeID]Enrolled{
		ann: {Owner: "user:ann"}, friend: {Owner: "group:friends", Zone: "osl", Trusted: true}, former: {Owner: "user:eve", Revoked: true},
	}[n]
	return e, ok
}

// room is Seats with all that was told of them.
type room struct {
	*Seats
	told []string
}

func newRoom() *room { return &room{Seats: New(registry)} }

func (r *room) tell(e step.Event) { r.told = append(r.told, e.String()) }

// took checks what was told since it was asked last.
func (r *room) took(t *testing.T, what string, want ...string) {
	t.Helper()
	if len(r.told)+len(want) > 0 && !reflect.DeepEqual(r.told, want) {
		t.Errorf("%s: the plan is told %q, want %q", what, r.told, want)
	}
	r.told = nil
}

func joins(session uint64) stream.Join {
	return stream.Join{Session: session, Owner: "visitor:a", Slots: 2, Room: 4, Executors: []string{"exec", job.ExecutorWASM}}
}

func (r *room) join(t *testing.T, host, worker cluster.NodeID, session uint64, now time.Duration, want ...Drop) {
	t.Helper()
	if got := r.Join(host, worker, joins(session), now, r.tell); len(got)+len(want) > 0 && !reflect.DeepEqual(got, want) {
		t.Errorf("session %d at %s: drops %v, want %v", session, host, got, want)
	}
}

// TestBelief: whose a worker is says the log; of whom it says nothing, that is a visitor.
func TestBelief(t *testing.T) {
	for name, c := range map[string]struct {
		worker cluster.NodeID
		owner  string
		want   step.WorkerConnected
		zone   string
		drop   stream.DropReason
	}{
		"visitor":                   {visitor, "visitor:a", step.WorkerConnected{Owner: "visitor:a", Stranger: true}, "outside", ""},
		"nobody's, and ann's":       {visitor, "user:ann", step.WorkerConnected{}, "", stream.DropRevoked},
		"nobody's, and a host's":    {visitor, "node:a", step.WorkerConnected{}, "", stream.DropRevoked},
		"ann's":                     {ann, "user:ann", step.WorkerConnected{Owner: "user:ann", Stranger: true}, "outside", ""},
		"ann's, and says eve's":     {ann, "user:eve", step.WorkerConnected{Owner: "user:ann", Stranger: true}, "outside", ""},
		"trusted":                   {friend, "visitor:a", step.WorkerConnected{Owner: "group:friends"}, "osl", ""},
		"revoked":                   {former, "user:eve", step.WorkerConnected{}, "", stream.DropRevoked},
		"revoked, says a visitor's": {former, "visitor:a", step.WorkerConnected{}, "", stream.DropRevoked},
	} {
		var told []step.Event
		j := joins(7)
		j.Owner = c.owner
		drops := New(registry).Join("g", c.worker, j, 0, func(e step.Event) { told = append(told, e) })
		if c.drop != "" {
			if len(told) != 0 || len(drops) != 1 || drops[0] != (Drop{"g", c.worker, 7, c.drop}) {
				t.Errorf("%s: told %v, drops %v; want it dropped as %s", name, told, drops, c.drop)
			}
			continue
		}
		c.want.Worker, c.want.Slots, c.want.Credits = c.worker, 2, 4
		c.want.Executors, c.want.Accept = []string{job.ExecutorWASM}, job.Acceptance{Accept: job.AcceptPublic}
		want := []step.Event{step.HostKnown{Worker: c.worker, Zone: c.zone}, c.want}
		if len(drops) != 0 || !reflect.DeepEqual(told, want) {
			t.Errorf("%s: told %v, drops %v; want %v", name, told, drops, want)
		}
	}
}

// TestGateways: a host carries workers that are at others; where each is can be seen.
func TestGateways(t *testing.T) {
	r := newRoom()
	j := joins(1)
	r.Join("h", visitor, j, 0, r.tell)
	if via := r.Via(visitor); via != "h" {
		t.Errorf("it is at %q", via)
	}
	j.Session, j.Gateway = 2, "g"
	r.Join("h", visitor, j, 0, r.tell)
	if at, _ := r.At(visitor); at != "h" || r.Via(visitor) != "g" {
		t.Errorf("%q carries it, and it is at %q", at, r.Via(visitor))
	}
	r.Lost("h", r.tell)
	if via := r.Via(visitor); via != "" {
		t.Errorf("one that was lost is at %q", via)
	}
}

// TestSessions: the highest is the one, wherever it is.
func TestSessions(t *testing.T) {
	r := newRoom()
	r.join(t, "g", visitor, 10, 0)
	r.told = nil
	r.join(t, "h", visitor, 9, 0, Drop{"h", visitor, 10, stream.DropStale})
	r.join(t, "h", visitor, 10, 0, Drop{"h", visitor, 10, stream.DropStale})
	r.took(t, "earlier sessions")
	if at, ok := r.At(visitor); !ok || at != "g" {
		t.Errorf("it is at %q", at)
	}
	r.join(t, "h", visitor, 11, time.Second, Drop{"g", visitor, 10, stream.DropReplaced})
	if at, _ := r.At(visitor); at != "h" {
		t.Errorf("it is at %q", at)
	}
	r.told = nil
	if r.Hear("g", visitor, time.Second, r.tell) || !r.Hear("h", visitor, time.Second, r.tell) || r.Hear("h", ann, time.Second, r.tell) {
		t.Error("it is heard where it is not, or not where it is")
	}
	r.Part("g", visitor, stream.Part{Session: 10}, r.tell)
	r.Part("h", visitor, stream.Part{Session: 10}, r.tell)
	r.Lost("g", r.tell)
	r.took(t, "the host that lost it")
	r.Lost("h", r.tell)
	r.took(t, "the stream is lost", "worker_disconnected "+string(visitor))
	r.Part("h", visitor, stream.Part{Session: 11}, r.tell)
	r.took(t, "said again")
	r.join(t, "g", visitor, 10, 2*time.Second, Drop{"g", visitor, 11, stream.DropStale})
	r.join(t, "h", visitor, 11, 2*time.Second) // the same, on a new stream
	r.told = nil
	r.Part("h", visitor, stream.Part{Session: 11, Gone: true}, r.tell)
	r.took(t, "gone", "worker_disconnected "+string(visitor), "health "+string(visitor)+" left")
	if r.Len() != 0 {
		t.Errorf("%d are left", r.Len())
	}
}

// TestHealth: a worker's clock is its own, and that of the host that carries it.
func TestHealth(t *testing.T) {
	is := func(h cluster.Health) string { return fmt.Sprintf("health %s %s", visitor, h) }
	gone := "worker_disconnected " + string(visitor)
	r := newRoom()
	r.join(t, "g", visitor, 1, 0)
	r.told = nil
	r.Look(SuspectAfter-time.Second, r.tell)
	r.took(t, "29 s")
	r.Look(SuspectAfter, r.tell)
	r.took(t, "30 s", is(cluster.Suspect))
	r.Hear("g", visitor, SuspectAfter+time.Second, r.tell)
	r.took(t, "heard", is(cluster.Alive))
	r.Believe("h", cluster.Suspect, 32*time.Second, r.tell)
	r.took(t, "another host is suspect")
	r.Believe("g", cluster.Suspect, 32*time.Second, r.tell)
	r.took(t, "its host is suspect", is(cluster.Suspect))
	r.Hear("g", visitor, 40*time.Second, r.tell)
	r.took(t, "heard over a host that is suspect")
	r.Believe("g", cluster.Alive, 41*time.Second, r.tell)
	r.took(t, "its host is alive", is(cluster.Alive))
	r.Lost("g", r.tell)
	r.Look(69*time.Second, r.tell)
	r.took(t, "without a stream", gone)
	r.Look(70*time.Second, r.tell)
	r.took(t, "30 s without", is(cluster.Suspect))
	r.Look(160*time.Second-1, r.tell)
	r.took(t, "119 s without")
	r.Look(160*time.Second+time.Second, r.tell)
	r.took(t, "120 s without", is(cluster.Dead))
	r.join(t, "h", visitor, 2, 200*time.Second) // h is suspect still
	if len(r.told) != 3 || r.told[1] != is(cluster.Suspect) {
		t.Errorf("it comes back: %q", r.told)
	}
	r.told = nil
	r.Look(200*time.Second+ForgetAfter-time.Second, r.tell)
	r.took(t, "long silent", is(cluster.Dead))
	r.Look(200*time.Second+ForgetAfter, r.tell)
	r.took(t, "forgotten", gone, is(cluster.Left))
}

// TestRestored: whom the log names and who does not come has left after 120 s; who comes
// has not.
func TestRestored(t *testing.T) {
	r := newRoom()
	r.Restore(visitor, 0)
	r.Restore(ann, 0)
	r.join(t, "g", ann, 1, time.Second)
	r.told = nil
	r.Restore(ann, time.Second)
	for at := range DeadAfter / time.Second {
		r.Hear("g", ann, at*time.Second, r.tell)
		r.Look(at*time.Second, r.tell)
	}
	r.took(t, "119 s", "health "+string(visitor)+" suspect")
	r.Look(DeadAfter, r.tell)
	r.took(t, "120 s", "worker_disconnected "+string(visitor), "health "+string(visitor)+" left")
	if r.Len() != 1 {
		t.Errorf("%d are there, want ann's", r.Len())
	}
}

// TestLiars: three wrong results, and it is detached and may not come back.
func TestLiars(t *testing.T) {
	r := newRoom()
	r.join(t, "g", visitor, 1, 0)
	r.join(t, "g", friend, 1, 0)
	r.told = nil
	for i := range trust.MaxWrong {
		r.Contradicted(friend, r.tell)
		r.Contradicted("g", r.tell)
		got := r.Contradicted(visitor, r.tell)
		if (len(got) > 0) != (i == trust.MaxWrong-1) || len(got) > 0 && got[0] != (Drop{"g", visitor, 1, stream.DropDistrusted}) {
			t.Errorf("wrong %d times: %v", i+1, got)
		}
	}
	r.took(t, "a liar", "worker_disconnected "+string(visitor))
	r.join(t, "h", visitor, 2, 0, Drop{"h", visitor, 2, stream.DropDistrusted})
	r.took(t, "a liar comes back")
	for i := range maxBarred { // as many others
		n := cluster.OutsideID(fmt.Appendf(nil, "%d", i))
		r.join(t, "g", n, 1, 0)
		for range trust.MaxWrong {
			r.Contradicted(n, r.tell)
		}
	}
	if len(r.barred) != maxBarred || len(r.line) != maxBarred || r.barred[visitor] {
		t.Errorf("%d are remembered, want %d", len(r.barred), maxBarred)
	}
}

func TestExpelled(t *testing.T) {
	r := newRoom()
	r.join(t, "g", visitor, 4, 0)
	r.told = nil
	if d := r.Expel(visitor, stream.DropFlood, r.tell); len(d) != 1 || d[0] != (Drop{"g", visitor, 4, stream.DropFlood}) {
		t.Errorf("%v", d)
	}
	r.took(t, "a flood", "worker_disconnected "+string(visitor))
	if d := append(r.Expel(visitor, stream.DropFlood, r.tell), r.Expel("nobody", stream.DropFlood, r.tell)...); len(d) != 0 {
		t.Errorf("who is not there: %v", d)
	}
	r.join(t, "g", visitor, 5, 0)
	r.told = nil
	if d := r.Review(visitor, r.tell); len(d) != 1 || d[0].Reason != stream.DropRevoked {
		t.Errorf("%v", d)
	}
	r.took(t, "revoked", "worker_disconnected "+string(visitor), "health "+string(visitor)+" left")
	r.join(t, "g", ann, 5, 0)
	if d := r.Review(ann, r.tell); len(d) != 1 || d[0] != (Drop{"g", ann, 5, stream.DropStale}) {
		t.Errorf("enrolled as another: %v", d)
	}
}

// TestQueries: strangers each 30 s, trusted ones as hosts, and only the latest answer
// counts.
func TestQueries(t *testing.T) {
	r := newRoom()
	r.join(t, "g", visitor, 1, 0)
	r.join(t, "g", friend, 1, 0)
	r.Restore(ann, 0)
	asked := map[cluster.NodeID]int{}
	for at := range 61 {
		for _, q := range r.Queries(time.Duration(at) * time.Second) {
			asked[q.Worker]++
			if r.Answers(q.Worker, q.Nonce+1) || !r.Answers(q.Worker, q.Nonce) || r.Answers(q.Worker, q.Nonce) {
				t.Errorf("at %d s: not the answer to the query of %s alone counts", at, q.Worker)
			}
		}
	}
	if asked[visitor] != 2 || asked[friend] != 6 || asked[ann] != 0 {
		t.Errorf("asked %v", asked)
	}
}

// TestQueriesSpread: of many that join at once few are asked at once.
func TestQueriesSpread(t *testing.T) {
	r := New(nil)
	const workers = 15_000
	for i := range workers {
		id := cluster.OutsideID([]byte{byte(i), byte(i >> 8)})
		r.Join("g", id, stream.Join{Session: 1, Owner: "visitor:x", Slots: 1, Room: 1}, 0, func(step.Event) {})
	}
	all := 0
	for at := range 31 {
		n := len(r.Queries(time.Duration(at) * time.Second))
		if all += n; n > 2*workers/15 {
			t.Errorf("%d of %d are asked after %d s", n, workers, at)
		}
	}
	if all != workers {
		t.Errorf("%d of %d are asked within 30 s", all, workers)
	}
}

// TestAwaited: nobody waits for a stranger.
func TestAwaited(t *testing.T) {
	r := newRoom()
	r.join(t, "g", visitor, 1, 0)
	r.join(t, "g", friend, 1, 0)
	if r.Awaited(visitor) || !r.Awaited(friend) || r.Awaited(ann) {
		t.Error("not the trusted one alone is waited for")
	}
	r.Look(DeadAfter, r.tell)
	if r.Awaited(friend) {
		t.Error("a dead one is waited for")
	}
}
