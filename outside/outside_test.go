package outside

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/eventlog/state"
	gate "github.com/skein-project/skein/gateway"
	"github.com/skein-project/skein/gateway/crew"
	"github.com/skein-project/skein/gateway/desk"
	"github.com/skein-project/skein/gateway/registry"
	gwrpc "github.com/skein-project/skein/gateway/rpc"
	"github.com/skein-project/skein/scheduler/stream"
	"github.com/skein-project/skein/worker/executor"
)

const patience = 60 * time.Second

const testJob job.ID = "jaaaaaaaaaaaaaaaaaaaaaaaaaa"

func ref(chunk int) job.Attempt { return job.Attempt{Job: testJob, Chunk: chunk, Number: 1} }

var spec = func() job.Spec {
	s := job.Spec{Key: "k", Executor: job.ExecutorWASM, Artefact: cluster.Hash{1}, Iterations: 1000, Chunk: 1, Seed: 7}
	return s.WithDefaults()
}()

// hall is a cluster: a log, and a holder that a test plays at one gateway at a time.
type hall struct {
	t      *testing.T
	change func(*gate.Options) // of gateways; nil: nothing
	beat   time.Duration       // of computers

	mu  sync.Mutex
	st  *state.State
	seq uint64
}

func newHall(t *testing.T) *hall {
	h := &hall{t: t, st: state.New()}
	h.add(event.KindTermStart, event.TermStart{Term: 1})
	h.add(event.KindUserSet, event.UserSet{Name: "ann", Role: "submitter"})
	return h
}

func (h *hall) View(fn func(*state.State)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	fn(h.st)
}

func (h *hall) add(kind event.Kind, body any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	text, err := json.Marshal(body)
	if err != nil {
		h.t.Error(err)
	}
	h.seq++
	h.st.Apply(event.Event{Source: event.SourceID{Node: "n1", Inc: 1}, Seq: h.seq, HLC: cluster.HLC(uint64(time.Now().UnixMilli())<<16 | h.seq), Term: 1, Kind: kind, Body: text})
}

func (h *hall) OwnWorker(_ context.Context, token api.Secret, id cluster.NodeID, key []byte, name string) (api.OutsideWorker, error) {
	a, ok := registry.New(h).Access(token.Reveal(), time.Now())
	if !ok {
		return api.OutsideWorker{}, errors.New("refused")
	}
	h.add(event.KindWorkerEnrolled, event.WorkerEnrolled{Worker: id, Key: key, Owner: a.Owner, Name: name, Actor: "token:x@n1"})
	return api.OutsideWorker{Worker: id, State: api.StateEnrolled}, nil
}

func (h *hall) OwnWorkers(string, int) []api.OutsideWorker { return nil }

func (h *hall) Fetch(context.Context, cluster.Hash, []cluster.NodeID) error {
	return errors.New("none")
}
func (h *hall) Open(cluster.Hash) (*os.File, int64, error) { return nil, 0, errors.New("none") }

func (h *hall) token() api.Secret {
	t := registry.NewToken("")
	h.add(event.KindAccessSet, event.AccessSet{ID: t.ID, Hash: t.Hash(), Owner: "user:ann", Roles: []string{"work"}, Expires: time.Now().Add(time.Hour).Unix(), Actor: "uid:0@n1"})
	return api.Secret(t.Text())
}

// front is a gateway of the hall and the holder's stream to it.
type front struct {
	h    *hall
	url  string
	crew *crew.Crew
	stop func()
	reg  *prometheus.Registry // of its metrics
	conn net.Conn
	enc  stream.Encoder
	in   *stream.Decoder
	seq  uint64
	term cluster.Term
}

// open opens a gateway; address may be empty.
func (h *hall) open(address string) *front {
	h.t.Helper()
	l, err := new(net.ListenConfig).Listen(h.t.Context(), "tcp", "127.0.0.1:0")
	if address != "" {
		_ = l.Close()
		l, err = new(net.ListenConfig).Listen(h.t.Context(), "tcp", strings.TrimPrefix(address, "http://"))
	}
	if err != nil {
		h.t.Fatal(err)
	}
	began := time.Now()
	now := func() time.Duration { return time.Since(began) + time.Hour }
	d := &front{h: h, url: "http://" + l.Addr().String(), reg: prometheus.NewRegistry()}
	if d.crew, err = crew.New(crew.Options{Now: now, Logger: zerolog.Nop()}); err != nil {
		h.t.Fatal(err)
	}
	o := gate.Options{
		Cluster: "c1", Self: "n1", Dir: h.t.TempDir(), Log: h, Owners: h, Now: now, Crew: gwrpc.InMemory(d.crew), Artefacts: h,
		Logger: zerolog.Nop(), Registerer: d.reg,
		Announce: func(_ context.Context, b event.GatewayOpened) error { h.add(event.KindGatewayOpened, b); return nil },
		HTTP:     gate.HTTP{URL: d.url, MaxClients: 1000, Open: func(context.Context) (net.Listener, error) { return l, nil }},
	}
	if h.change != nil {
		h.change(&o)
	}
	g, err := gate.New(o)
	if err != nil {
		h.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- g.Run(ctx) }()
	<-g.Up()
	d.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			h.t.Error(err)
		}
		if d.conn != nil {
			_ = d.conn.Close()
		}
	})
	h.t.Cleanup(d.stop)
	ready, err := newGateway(d.url, make([]byte, 64), nil, nil)
	if err != nil {
		h.t.Fatal(err)
	}
	for until := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		var out struct{}
		if err = ready.do(h.t.Context(), "GET", "/readyz", nil, nil, &out); err == nil {
			return d
		}
		if time.Now().After(until) {
			h.t.Fatal(err)
		}
	}
}

// hold has a holder open a stream in a term.
func (d *front) hold(term cluster.Term) {
	d.h.t.Helper()
	ours, theirs := net.Pipe()
	done := make(chan struct{})
	go func() { defer close(done); d.crew.Serve(context.Background(), "n1", theirs) }()
	d.h.t.Cleanup(func() { _ = ours.Close(); <-done })
	d.conn, d.in, d.enc, d.term = ours, stream.NewCrewDecoder(ours), stream.Encoder{}, term
	d.say(stream.Frame{Hello: &stream.Hello{Term: term, Holder: "n1"}})
	d.hear(func(f stream.Frame) bool { return f.Welcome != nil })
}

func (d *front) say(f stream.Frame) {
	d.h.t.Helper()
	b, err := d.enc.Append(nil, f)
	if err == nil {
		_ = d.conn.SetWriteDeadline(time.Now().Add(patience))
		_, err = d.conn.Write(b)
	}
	if err != nil {
		d.h.t.Fatal(err)
	}
}

func (d *front) hear(want func(stream.Frame) bool) stream.Frame {
	d.h.t.Helper()
	for {
		_ = d.conn.SetReadDeadline(time.Now().Add(patience))
		f, err := d.in.Read()
		if err != nil {
			d.h.t.Fatal(err)
		}
		if want(f) {
			return f
		}
	}
}

func joined(f stream.Frame) bool { return f.Join != nil }

// result waits for one of an attempt.
func (d *front) result(of job.Attempt) stream.Result {
	d.h.t.Helper()
	return *d.hear(func(f stream.Frame) bool { return f.Result != nil && f.Result.Attempt == of }).Result
}

func (d *front) give(to cluster.NodeID, chunks ...int) {
	d.h.t.Helper()
	d.seq++
	a := stream.Assign{Term: d.term, Seq: d.seq, Job: testJob, Spec: spec, Owner: "user:ann"}
	for _, c := range chunks {
		a.Chunks = append(a.Chunks, job.Attempt{Chunk: c, Number: 1})
	}
	d.say(stream.Frame{Worker: to, Assign: &a})
}

func (d *front) settle(of cluster.NodeID, refs ...job.Attempt) {
	d.h.t.Helper()
	d.say(stream.Frame{Worker: of, Accepted: &stream.Accepted{Term: d.term, Refs: refs}})
}

// steps is an executor whose attempts end when a test says so.
type steps struct {
	begun chan executor.Task
	end   chan error
}

func newSteps() *steps {
	return &steps{begun: make(chan executor.Task, 100), end: make(chan error, 100)}
}

func (s *steps) Run(ctx context.Context) error { <-ctx.Done(); return nil }

func (s *steps) Execute(ctx context.Context, _ int, t executor.Task) (job.ChunkResult, error) {
	s.begun <- t
	select {
	case err := <-s.end:
		return job.ChunkResult{Iterations: 1, Metrics: map[string]job.Metric{"x": {N: 1, Mean: 0.1, Min: 0.1, Max: 0.1}}}, err
	case <-ctx.Done():
		return job.ChunkResult{}, ctx.Err()
	}
}

func (s *steps) begins(t *testing.T) job.Attempt {
	t.Helper()
	select {
	case task := <-s.begun:
		return task.Attempt
	case <-time.After(patience):
		t.Fatal("nothing begins")
		return job.Attempt{}
	}
}

// home is a computer that runs.
type home struct {
	*steps
	said  chan string
	stop  context.CancelFunc
	ended chan error
}

func (h *hall) work(dir string, token api.Secret, urls ...string) *home {
	h.t.Helper()
	x := &home{steps: newSteps(), said: make(chan string, 100), ended: make(chan error, 1)}
	var ctx context.Context
	ctx, x.stop = context.WithCancel(context.Background())
	o := Options{Gateways: urls, Token: token, Dir: dir, Name: "attic", Slots: 1, Logger: zerolog.New(zerolog.NewTestWriter(h.t)), Say: func(s string) { x.said <- s }, Executor: x.steps, beat: h.beat}
	go func() { x.ended <- Run(ctx, o) }()
	h.t.Cleanup(func() {
		x.stop()
		_ = x.over(h.t) // how, its test has looked at
	})
	return x
}

// over waits until the computer has ended.
func (x *home) over(t *testing.T) error {
	t.Helper()
	select {
	case err := <-x.ended:
		x.ended <- err
		return err
	case <-time.After(patience):
		t.Fatal("it does not end")
		return nil
	}
}

func (d *front) join() (cluster.NodeID, *stream.Join) {
	d.h.t.Helper()
	f := d.hear(joined)
	return f.Worker, f.Join
}

// TestWork: a computer enrols by a token, does what it is given, keeps each result until it
// is settled, and leaves when it is stopped.
func TestWork(t *testing.T) {
	h := newHall(t)
	d := h.open("")
	d.hold(5)
	x := h.work(t.TempDir(), h.token(), d.url)
	id, join := d.join()
	if join.Owner != "user:ann" || join.Slots != 1 || join.Room != 2 || !slices.Equal(join.Executors, []string{job.ExecutorWASM}) || join.MemoryBytes != executor.DefaultMemoryCap {
		t.Errorf("%+v", join)
	}
	d.give(id, 0, 1)
	if got := x.begins(t); got != ref(0) {
		t.Errorf("%v begins", got)
	}
	x.end <- nil
	r := d.result(ref(0))
	if r.Result == nil || r.Result.Metrics["x"] != (job.Metric{N: 1, Mean: 0.1, Min: 0.1, Max: 0.1}) {
		t.Errorf("%+v", r)
	}
	x.begins(t)
	x.end <- errors.New("exit code 3")
	if r := d.result(ref(1)); r.Error != "exit code 3" || r.Class != job.FailedWork {
		t.Errorf("%+v", r)
	}
	d.settle(id, ref(0), ref(1))
	d.give(id, 2, 3)
	x.begins(t)
	x.stop()
	back := map[int]job.FailureClass{}
	for len(back) < 2 {
		r := d.hear(func(f stream.Frame) bool { return f.Result != nil }).Result
		back[r.Chunk] = r.Class
	}
	if back[2] != job.HandedBack || back[3] != job.HandedBack {
		t.Errorf("%v", back)
	}
	if f := d.hear(func(f stream.Frame) bool { return f.Part != nil }); !f.Part.Gone {
		t.Errorf("%+v", f.Part)
	}
	if err := x.over(t); err != nil {
		t.Error(err)
	}
	// Many computers may begin at one address, which has but few bad proofs.
	if n := d.count("skein_gateway_auth_failures_total"); n != 0 {
		t.Errorf("%v bad proofs of a computer that did all right", n)
	}
}

// count is a metric of the gateway.
func (d *front) count(name string) float64 {
	d.h.t.Helper()
	families, err := d.reg.Gather()
	if err != nil {
		d.h.t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name {
			return f.GetMetric()[0].GetCounter().GetValue()
		}
	}
	d.h.t.Fatal("no metric ", name)
	return 0
}

// TestClaimCode: without a token the person hears a code, and once it was claimed the
// computer works.
func TestClaimCode(t *testing.T) {
	h := newHall(t)
	d := h.open("")
	d.hold(5)
	dir := t.TempDir()
	x := h.work(dir, "", d.url)
	select {
	case s := <-x.said:
		if !strings.Contains(s, "claim code") || !strings.Contains(s, "fingerprint") {
			t.Error(s)
		}
	case <-time.After(patience):
		t.Fatal("no code")
	}
	k, _, err := keyOf(filepath.Join(dir, KeyFile))
	if err != nil {
		t.Fatal(err)
	}
	g, err := newGateway(d.url, k, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	h.add(event.KindWorkerEnrolled, event.WorkerEnrolled{Worker: g.id, Key: k[32:], Owner: "user:ann", Actor: "token:x@n1"})
	if id, _ := d.join(); id != g.id {
		t.Error(id)
	}
}

// TestGatewayLost: what a computer does while its gateway is gone it goes on with, and tells
// the next one: nothing runs twice, no result is lost.
func TestGatewayLost(t *testing.T) {
	h := newHall(t)
	a, b := h.open(""), h.open("")
	a.hold(5)
	x := h.work(t.TempDir(), h.token(), a.url, b.url)
	id, first := a.join()
	a.give(id, 0, 1)
	x.begins(t)
	a.stop()
	x.end <- nil
	if got := x.begins(t); got != ref(1) {
		t.Errorf("%v begins", got)
	}
	b.hold(6)
	id, join := b.join()
	if join.Session <= first.Session || !slices.Contains(join.Assigned, ref(1)) {
		t.Errorf("%+v", join)
	}
	if r := b.result(ref(0)); r.Result == nil {
		t.Errorf("%+v", r)
	}
	b.give(id, 1) // as a holder does that knows of it
	x.end <- nil
	if r := b.result(ref(1)); r.Result == nil {
		t.Errorf("%+v", r)
	}
	select {
	case task := <-x.begun:
		t.Errorf("%v runs again", task.Attempt)
	default:
	}
}

// TestKilled: a computer that begins again has the results that were not settled.
func TestKilled(t *testing.T) {
	h := newHall(t)
	d := h.open("")
	d.hold(5)
	dir, token := t.TempDir(), h.token()
	x := h.work(dir, token, d.url)
	id, _ := d.join()
	d.give(id, 0)
	x.begins(t)
	x.end <- nil
	d.result(ref(0))
	x.stop()
	if err := x.over(t); err != nil {
		t.Fatal(err)
	}
	d.stop() // which knew of the result
	d = h.open("")
	d.hold(6)
	h.work(dir, token, d.url)
	if again, _ := d.join(); again != id {
		t.Errorf("%s, was %s", again, id)
	}
	if r := d.result(ref(0)); r.Result == nil {
		t.Errorf("%+v", r)
	}
	if _, err := durableTwice(dir); err == nil {
		t.Error("two work in one directory")
	}
}

func durableTwice(dir string) (int, error) {
	return 0, Run(context.Background(), Options{Gateways: []string{"http://127.0.0.1:1"}, Dir: dir, Executor: newSteps()})
}

// TestOver: what the end of a session means.
func TestOver(t *testing.T) {
	for reason, want := range map[stream.DropReason]string{
		stream.DropReplaced: "another computer", stream.DropRevoked: "shut out", stream.DropDistrusted: "may be broken",
	} {
		t.Run(string(reason), func(t *testing.T) {
			h := newHall(t)
			d := h.open("")
			d.hold(5)
			x := h.work(t.TempDir(), h.token(), d.url)
			id, join := d.join()
			d.say(stream.Frame{Worker: id, Drop: &stream.Drop{Term: 5, Session: join.Session, Reason: reason}})
			if err := x.over(t); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v", err)
			}
		})
	}
	t.Run("stale", func(t *testing.T) {
		h := newHall(t)
		d := h.open("")
		d.hold(5)
		h.work(t.TempDir(), h.token(), d.url)
		id, join := d.join()
		later := join.Session + 1<<40
		d.say(stream.Frame{Worker: id, Drop: &stream.Drop{Term: 5, Session: later, Reason: stream.DropStale}})
		if _, again := d.join(); again.Session <= later {
			t.Errorf("session %d after %d", again.Session, later)
		}
	})
}

// TestDisconnected: what a gateway ends a connection with ends a computer for good where to
// come again would not help, in words that say what to do, and else it comes again.
func TestDisconnected(t *testing.T) {
	for code, want := range map[api.DisconnectCode]string{
		api.DisconnectReplaced: "state directory of its own", api.DisconnectRevoked: "shut out by its owner", api.DisconnectTooOld: "update skein", 4999: "(4999)",
	} {
		if err := disconnected(code, "something"); !final(err) || !strings.Contains(err.Error(), want) {
			t.Errorf("%d: %v", code, err)
		}
	}
	for _, code := range []api.DisconnectCode{1, 3000, 3005, invalidToken, api.DisconnectStopping, api.DisconnectLimit, 4499, 5000} {
		if err := disconnected(code, "the reason"); final(err) || !strings.Contains(err.Error(), "the reason") {
			t.Errorf("%d: %v", code, err)
		}
	}
	for what, shut := range map[string]struct {
		kind event.Kind
		body func(cluster.NodeID) any
	}{
		"revoked":            {event.KindWorkerRevoked, func(id cluster.NodeID) any { return event.WorkerRevoked{Worker: id, Actor: "uid:0@n1"} }},
		"of a disabled user": {event.KindUserSet, func(cluster.NodeID) any { return event.UserSet{Name: "ann", Role: "submitter", Disabled: true} }},
	} {
		t.Run(what, func(t *testing.T) {
			h := newHall(t)
			d := h.open("")
			d.hold(5)
			x := h.work(t.TempDir(), h.token(), d.url)
			id, _ := d.join()
			d.give(id, 0)
			x.begins(t)
			h.add(shut.kind, shut.body(id))
			if err := x.over(t); !final(err) || !strings.Contains(err.Error(), "shut out by its owner") {
				t.Errorf("%v", err)
			}
		})
	}
}

func final(err error) bool {
	_, ok := errors.AsType[*FinalError](err)
	return ok
}

// TestMissedPush: a push that did not come is noticed by the next one, or by the beats, and
// all is told again.
func TestMissedPush(t *testing.T) {
	s := &session{number: 9, heard: 3}
	if err := s.pushed(api.WorkPush{Session: 8, Seq: 77, Type: string(desk.PushSettled)}); err != nil || s.heard != 3 {
		t.Errorf("of an earlier session: %v", err)
	}
	if err := s.pushed(api.WorkPush{Session: 9, Seq: 4, Type: "of a newer gateway"}); err != nil || s.heard != 4 {
		t.Errorf("%v", err)
	}
	if err := s.pushed(api.WorkPush{Session: 9, Seq: 6, Type: string(desk.PushSettled)}); !errors.Is(err, errAgain) {
		t.Errorf("after a gap: %v", err)
	}
	if err := s.pushed(api.WorkPush{Session: 9, Seq: 5, Type: string(desk.PushChunks)}); err == nil {
		t.Error("a push of no chunks is taken")
	}
}

// discard is a connection that takes everything.
type discard struct{ net.Conn }

func (discard) Write(p []byte) (int, error)      { return len(p), nil }
func (discard) SetWriteDeadline(time.Time) error { return nil }

// TestPauses: who begins a session anew, or has another gateway, does so soon; who gets on
// nowhere, less and less often.
func TestPauses(t *testing.T) {
	for i, want := range []time.Duration{spread / 10, spread / 10, spread / 10, 4 * spread, 8 * spread, mostPause, mostPause} {
		if got := pauseUpTo(i+1, 2, true); got != want {
			t.Errorf("session %d that begins anew: %s, want %s", i+1, got, want)
		}
	}
	for i, want := range []time.Duration{spread, spread, 2 * spread, 4 * spread, 8 * spread, mostPause} {
		if got := pauseUpTo(i+1, 2, false); got != want {
			t.Errorf("session %d that failed: %s, want %s", i+1, got, want)
		}
	}
	if got := pauseUpTo(1_000_000, 1, false); got != mostPause {
		t.Error(got)
	}
	for _, c := range []struct {
		settled  bool
		attached time.Duration
		want     int
	}{{false, 0, 8}, {false, mostPause, 8}, {false, mostPause + 1, 1}, {true, 0, 1}} {
		if got := inRow(7, c.settled, c.attached); got != c.want {
			t.Errorf("%+v: %d in a row", c, got)
		}
	}
	s := &session{c: &computer{}, number: 9, conn: discard{}}
	if err := s.pushed(api.WorkPush{Session: 9, Seq: 1, Type: string(desk.PushSettled), Refs: []job.Attempt{ref(1)}}); err != nil || !s.c.settled {
		t.Errorf("%v, %v", s.c.settled, err)
	}
}

func TestBadOptions(t *testing.T) {
	for name, o := range map[string]Options{
		"no gateway": {},
		"65 slots":   {Gateways: []string{"https://a"}, Slots: 65},
		"no URL":     {Gateways: []string{"a.example.org"}},
		"ftp":        {Gateways: []string{"ftp://a"}},
		"path":       {Gateways: []string{"https://a/b"}},
		"password":   {Gateways: []string{"https://a:b@c"}},
	} {
		o.Dir, o.Executor = t.TempDir(), newSteps()
		if err := Run(t.Context(), o); err == nil {
			t.Error(name)
		}
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, KeyFile), []byte("no key"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Run(t.Context(), Options{Gateways: []string{"https://a"}, Dir: dir, Executor: newSteps()}); err == nil || !strings.Contains(err.Error(), KeyFile) {
		t.Errorf("%v", fmt.Sprint(err))
	}
}
