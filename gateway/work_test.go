package gateway

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/centrifugal/centrifuge-go"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/gateway/crew"
	"github.com/skein-project/skein/gateway/desk"
	"github.com/skein-project/skein/gateway/rpc"
	"github.com/skein-project/skein/scheduler/stream"
)

// shelf has artefacts.
type shelf struct {
	dir  string
	down error
}

func (s *shelf) Fetch(_ context.Context, h cluster.Hash, _ []cluster.NodeID) error {
	if s.down != nil {
		return s.down
	}
	_, err := os.Stat(filepath.Join(s.dir, h.String()))
	return err
}

func (s *shelf) Open(h cluster.Hash) (*os.File, int64, error) {
	f, err := os.Open(filepath.Join(s.dir, h.String()))
	return f, 0, err
}

func (s *shelf) put(t *testing.T, text string) (h cluster.Hash) {
	t.Helper()
	h[0] = byte(len(text))
	if err := os.WriteFile(filepath.Join(s.dir, h.String()), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return h
}

// floor is a gateway at which workers work, and its holder.
type floor struct {
	*world
	shelf *shelf
	crew  *crew.Crew
	conn  net.Conn
	enc   stream.Encoder
	in    chan stream.Frame // closed by its reader
	seq   uint64
	ws    string // where workers connect; empty: to the gateway itself
	// cinema is what its host shows; may be nil.
	cinema *cinema
}

// realtime is where workers connect.
func (f *floor) realtime() string { return cmp.Or(f.ws, "ws://"+f.addr+"/v1/realtime") }

func startFloor(t *testing.T) *floor {
	t.Helper()
	return startFloorWith(t, desk.Options{})
}

// startFloorWith has other bounds of what workers may do at once, and other options.
func startFloorWith(t *testing.T, bounds desk.Options, more ...func(*Options)) *floor {
	t.Helper()
	f := &floor{shelf: &shelf{dir: t.TempDir()}}
	f.world = start(t, func(o *Options) {
		c, err := crew.New(crew.Options{Desk: bounds, Now: o.Now, Logger: o.Logger})
		if err != nil {
			t.Fatal(err)
		}
		f.crew = c
		o.Crew, o.Artefacts = rpc.InMemory(c), f.shelf
		for _, change := range more {
			change(o)
		}
	})
	f.ready()
	ours, theirs := net.Pipe()
	done := make(chan struct{})
	go func() { defer close(done); f.crew.Serve(context.Background(), "n1", theirs) }()
	t.Cleanup(func() { _ = ours.Close(); <-done })
	f.hold(ours)
	return f
}

// hold makes the test the holder of those whom a stream leads to.
func (f *floor) hold(to net.Conn) {
	f.t.Helper()
	f.conn, f.in = to, make(chan stream.Frame, 10_000)
	go func() { // until the stream ends; who tells a holder does not wait long
		defer close(f.in)
		for in := stream.NewCrewDecoder(to); ; {
			x, err := in.Read()
			if err != nil {
				return
			}
			f.in <- x
		}
	}()
	f.say(stream.Frame{Hello: &stream.Hello{Term: 5, Holder: "n1"}})
	f.hear(func(x stream.Frame) bool { return x.Welcome != nil })
}

func (f *floor) say(x stream.Frame) {
	f.t.Helper()
	b, err := f.enc.Append(nil, x)
	if err == nil {
		_, err = f.conn.Write(b)
	}
	if err != nil {
		f.t.Fatal(err)
	}
}

// hear returns the next frame that is the one wanted.
func (f *floor) hear(want func(stream.Frame) bool) stream.Frame {
	f.t.Helper()
	for {
		select {
		case x, open := <-f.in:
			if !open {
				f.t.Fatal("the stream of the holder has ended")
			}
			if want(x) {
				return x
			}
		case <-time.After(30 * time.Second):
			f.t.Fatal("the holder hears nothing")
		}
	}
}

func (f *floor) give(to cluster.NodeID, spec job.Spec, chunks ...int) {
	f.t.Helper()
	f.seq++
	a := stream.Assign{Term: 5, Seq: f.seq, Job: testJob, Spec: spec, Owner: "user:ann"}
	for _, c := range chunks {
		a.Chunks = append(a.Chunks, job.Attempt{Chunk: c, Number: 1})
	}
	f.say(stream.Frame{Worker: to, Assign: &a})
}

const testJob job.ID = "jaaaaaaaaaaaaaaaaaaaaaaaaaa"

func ref(chunk int) job.Attempt { return job.Attempt{Job: testJob, Chunk: chunk, Number: 1} }

// hired is a worker of ann's with a token.
func (f *floor) hired(n byte) (cluster.NodeID, string) {
	f.t.Helper()
	c := newComputer(n)
	f.add("n1", event.KindWorkerEnrolled, event.WorkerEnrolled{Worker: c.id(), Key: c.public(), Owner: "user:ann", Name: fmt.Sprint("pc", n), Actor: "token:x@n1"})
	var out api.WorkerToken
	if status, p := f.do(c.signed(f.world, "/v1/workers/token", api.WorkerTokenRequest{Client: 1}, nil), &out); status != 200 {
		f.t.Fatalf("%d %+v", status, p)
	}
	return c.id(), out.Token.Reveal()
}

func (f *floor) rpc(token, method string, in, out any) (int, api.Problem) {
	f.t.Helper()
	return f.ask("POST", "/v1/rpc/"+method, token, in, out)
}

func attaching() api.WorkAttach {
	return api.WorkAttach{Slots: 1, Room: 2, MemoryBytes: 1 << 30, Executors: []string{job.ExecutorWASM}, Running: []job.Attempt{}, Kept: []job.Attempt{}, Client: 1}
}

// listen opens a connection and returns it and what is pushed.
func (f *floor) listen(id cluster.NodeID, token string) (*centrifuge.Client, <-chan api.WorkPush) {
	f.t.Helper()
	c := centrifuge.NewJsonClient(f.realtime(), centrifuge.Config{Token: token, HandshakeTimeout: 10 * time.Second, ReadTimeout: 10 * time.Second})
	f.t.Cleanup(c.Close)
	pushes, up := make(chan api.WorkPush, 100), make(chan error, 10)
	sub, err := c.NewSubscription(api.WorkChannel + string(id))
	if err != nil {
		f.t.Fatal(err)
	}
	sub.OnPublication(func(e centrifuge.PublicationEvent) {
		var p api.WorkPush
		if err := json.Unmarshal(e.Data, &p); err != nil {
			f.t.Error(err)
		}
		pushes <- p
	})
	sub.OnSubscribed(func(centrifuge.SubscribedEvent) { up <- nil })
	sub.OnError(func(e centrifuge.SubscriptionErrorEvent) { up <- e.Error })
	sub.OnUnsubscribed(func(e centrifuge.UnsubscribedEvent) { up <- fmt.Errorf("unsubscribed: %d", e.Code) })
	c.OnDisconnected(func(e centrifuge.DisconnectedEvent) { up <- fmt.Errorf("disconnected: %d", e.Code) })
	if err := errors.Join(sub.Subscribe(), c.Connect()); err != nil {
		f.t.Fatal(err)
	}
	select {
	case err := <-up:
		if err != nil {
			f.t.Fatal(err)
		}
	case <-time.After(20 * time.Second):
		f.t.Fatal("no connection")
	}
	// The server says that it is subscribed a moment before it is, and pushes nothing between; what
	// it is asked next it answers after that.
	ctx, cancel := context.WithTimeout(f.t.Context(), 20*time.Second)
	defer cancel()
	if _, err := sub.Presence(ctx); err == nil || ctx.Err() != nil {
		f.t.Fatalf("who else listens: %v, want that it cannot be asked", err)
	}
	return c, pushes
}

func next(t *testing.T, pushes <-chan api.WorkPush) api.WorkPush {
	t.Helper()
	select {
	case p := <-pushes:
		return p
	case <-time.After(20 * time.Second):
		t.Fatal("nothing is pushed")
		return api.WorkPush{}
	}
}

func (f *floor) spec() job.Spec {
	s := job.Spec{Key: "secret key", Name: "secret name", Executor: job.ExecutorWASM, Artefact: f.shelf.put(f.t, "module"), Config: f.shelf.put(f.t, "config of it"), Iterations: 1 << 53, Chunk: 1 << 50, Seed: 1<<64 - 1}
	return s.WithDefaults()
}

const output = `{"iterations":1125899906842624,"metrics":{"x":{"n":3,"mean":0.1,"m2":0.02,"min":0,"max":0.30000000000000004}}}`

// TestWork: a worker attaches, is told its chunks, fetches what they need and nothing else,
// and its results reach the holder to the bit; what is settled it is told.
func TestWork(t *testing.T) {
	f := startFloor(t)
	id, token := f.hired(1)
	_, pushes := f.listen(id, token)
	spec := f.spec()
	fetch := func(token, path, part string) (int, string, http.Header) {
		req, err := http.NewRequestWithContext(t.Context(), "GET", "http://"+f.addr+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+token)
		if part != "" {
			req.Header.Set("Range", part)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(text), resp.Header
	}
	module := "/v1/artefacts/" + spec.Artefact.String()
	if status, _, _ := fetch(token, module, ""); status != 404 {
		t.Errorf("a module of no chunk of its own: %d", status)
	}
	var st api.WorkState
	if status, p := f.rpc(token, api.RPCAttach, attaching(), &st); status != 200 || st.Session == 0 || st.Term != 5 || len(st.Chunks) != 0 {
		t.Fatalf("%d %+v %+v", status, p, st)
	}
	join := f.hear(func(x stream.Frame) bool { return x.Join != nil })
	if join.Worker != id || join.Join.Owner != "user:ann" || join.Join.Slots != 1 || join.Join.MemoryBytes != 1<<30 || join.Join.Session != st.Session {
		t.Errorf("%+v", join.Join)
	}
	f.give(id, spec, 0, 7)
	p := next(t, pushes)
	want := api.WorkSpec{
		Executor: job.ExecutorWASM, Artefact: spec.Artefact, Config: spec.Config, Iterations: 1 << 53, Chunk: 1 << 50, Seed: 1<<64 - 1,
		MemoryBytes: job.DefaultMemory, TimeoutSeconds: 600, HardTimeoutSeconds: 600,
	}
	if p.V != 1 || p.Type != "chunk" || p.Session != st.Session || p.Seq != st.Seq+1 || p.Term != 5 || p.Chunks.Spec != want || !slices.Equal(p.Chunks.Refs, []job.Attempt{ref(0), ref(7)}) {
		t.Errorf("%+v %+v", p, p.Chunks)
	}
	if text, err := json.Marshal(p); err != nil || strings.Contains(string(text), "secret") || !strings.Contains(string(text), `"seed":"18446744073709551615"`) {
		t.Errorf("%s %v", text, err)
	}
	status, text, h := fetch(token, module, "")
	if status != 200 || text != "module" || h.Get("ETag") != `"`+spec.Artefact.String()+`"` || !strings.Contains(h.Get("Cache-Control"), "immutable") {
		t.Errorf("%d %q %v", status, text, h)
	}
	if status, text, _ := fetch(token, "/v1/artefacts/"+spec.Config.String(), "bytes=2-5"); status != 206 || text != "nfig" {
		t.Errorf("a part: %d %q", status, text)
	}
	other, otherToken := f.hired(2)
	if status, _, _ := fetch(otherToken, module, ""); status != 404 {
		t.Errorf("another worker: %d", status)
	}
	if status, _, _ := fetch(f.token("user:ann", "work"), module, ""); status != 403 {
		t.Errorf("an owner: %d", status)
	}
	if status, _, _ := fetch(token, "/v1/artefacts/..%2f..%2fkey", ""); status != 404 {
		t.Errorf("no hash: %d", status)
	}
	f.shelf.down = errors.New("nobody has it")
	if status, _, _ := fetch(token, module, ""); status != 503 {
		t.Errorf("nobody has it: %d", status)
	}
	f.shelf.down = nil
	var seq api.WorkSeq
	beat := api.WorkBeat{WorkSession: api.WorkSession{Session: st.Session}, Have: []api.WorkProgress{{Attempt: ref(0), Done: 1 << 49}, {Attempt: ref(7)}}, Ready: true}
	if status, p := f.rpc(token, api.RPCBeat, beat, &seq); status != 200 || seq.Seq != st.Seq+1 {
		t.Errorf("%d %+v %+v", status, p, seq)
	}
	said := f.hear(func(x stream.Frame) bool { return x.Status != nil && x.Worker == id })
	if len(said.Status.Progress) != 2 || said.Status.Progress[0].Done != 1<<49 || !said.Status.Ready {
		t.Errorf("%+v", said.Status)
	}
	var verdicts api.WorkVerdicts
	results := api.WorkResults{WorkSession: api.WorkSession{Session: st.Session}, Results: []api.WorkResult{
		{Attempt: ref(0), Seconds: 1.5, Output: output}, {Attempt: ref(7), Output: `{"iterations":1}`}, {Attempt: ref(9), Output: output},
	}}
	if status, p := f.rpc(token, api.RPCComplete, results, &verdicts); status != 200 || !slices.Equal(verdicts.Verdicts, []string{"taken", "invalid", "unknown"}) {
		t.Fatalf("%d %+v %+v", status, p, verdicts)
	}
	r := f.hear(func(x stream.Frame) bool { return x.Result != nil }).Result
	if r.Attempt != ref(0) || r.Result.Iterations != 1<<50 || r.Result.Metrics["x"] != (job.Metric{N: 3, Mean: 0.1, M2: 0.02, Max: 0.30000000000000004}) {
		t.Errorf("%+v %+v", r, r.Result)
	}
	if r := f.hear(func(x stream.Frame) bool { return x.Result != nil }).Result; r.Attempt != ref(7) || r.Class != job.FailedWork || !strings.Contains(r.Error, "metrics") {
		t.Errorf("%+v", r)
	}
	if status, _ := f.rpc(token, api.RPCComplete, results, &verdicts); status != 200 || !slices.Equal(verdicts.Verdicts, []string{"duplicate", "duplicate", "unknown"}) {
		t.Errorf("again: %d %+v", status, verdicts)
	}
	f.say(stream.Frame{Worker: id, Accepted: &stream.Accepted{Term: 5, Refs: []job.Attempt{ref(0), ref(7)}}})
	if p := next(t, pushes); p.Type != "settled" || len(p.Refs) != 2 || p.Seq != st.Seq+2 {
		t.Errorf("%+v", p)
	}
	if status, p := f.rpc(otherToken, api.RPCBeat, beat, nil); status != 409 {
		t.Errorf("another's session: %d %+v of %s", status, p, other)
	}
	if status, p := f.rpc(token, api.RPCBye, api.WorkSession{Session: st.Session}, nil); status != 200 {
		t.Errorf("bye: %d %+v", status, p)
	}
	if x := f.hear(func(x stream.Frame) bool { return x.Part != nil }); x.Worker != id || !x.Part.Gone {
		t.Errorf("%+v", x.Part)
	}
	if status, _ := f.rpc(token, api.RPCBeat, beat, nil); status != 409 {
		t.Errorf("after bye: %d", status)
	}
	f.counted(map[string]float64{
		"skein_gateway_ready": 1, "skein_gateway_push_seconds": 2,
		"skein_gateway_calls_total answered attach": 1, "skein_gateway_calls_total answered beat": 1, "skein_gateway_calls_total refused beat": 2,
		"skein_gateway_calls_total answered complete": 2, "skein_gateway_calls_total answered bye": 1, "skein_gateway_calls_total answered assigned": 0,
		"skein_gateway_results_total taken": 1, "skein_gateway_results_total invalid": 1, "skein_gateway_results_total unknown": 2,
		"skein_gateway_results_total duplicate": 2,
	})
}

// counted waits until metrics are what they must be: by name and values of labels, of a
// histogram how much was observed.
func (f *floor) counted(want map[string]float64) {
	f.t.Helper()
	for end := time.Now().Add(20 * time.Second); ; {
		families, err := f.o.Registerer.(*prometheus.Registry).Gather()
		if err != nil {
			f.t.Fatal(err)
		}
		have := map[string]float64{}
		for _, x := range families {
			for _, m := range x.GetMetric() {
				name := x.GetName()
				for _, l := range slices.Backward(m.GetLabel()) {
					name += " " + l.GetValue()
				}
				have[name] = m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
			}
		}
		var wrong []string
		for name, n := range want {
			if got, ok := have[name]; !ok || got != n {
				wrong = append(wrong, fmt.Sprintf("%s: %v, want %v", name, got, n))
			}
		}
		if len(wrong) == 0 {
			return
		}
		if time.Now().After(end) {
			f.t.Error(strings.Join(wrong, "\n"))
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// TestRealtime: over a connection a worker asks as by HTTP, and is lost with it; it hears
// its own channel alone, and without a good token nothing.
func TestRealtime(t *testing.T) {
	f := startFloor(t)
	id, token := f.hired(1)
	c, pushes := f.listen(id, token)
	ask := func(method string, in, out any) error {
		text, err := json.Marshal(in)
		if err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		got, err := rpcOver(ctx, c, method, text)
		if err != nil {
			return err
		}
		return json.Unmarshal(got, out)
	}
	code := func(err error) uint32 {
		e, _ := errors.AsType[*centrifuge.Error](err)
		if e == nil {
			t.Errorf("%v", err)
			return 0
		}
		return e.Code
	}
	var st api.WorkState
	if err := ask(api.RPCAttach, attaching(), &st); err != nil || st.Session == 0 {
		t.Fatal(err)
	}
	f.hear(func(x stream.Frame) bool { return x.Join != nil })
	f.give(id, f.spec(), 3)
	if p := next(t, pushes); p.Type != "chunk" {
		t.Errorf("%+v", p)
	}
	if got := code(ask("no such", struct{}{}, nil)); got != 1404 {
		t.Errorf("no method: %d", got)
	}
	if got := code(ask(api.RPCBeat, map[string]any{"session": "1", "extra": 1}, nil)); got != 1400 {
		t.Errorf("unknown field: %d", got)
	}
	if got := code(ask(api.RPCBeat, api.WorkBeat{WorkSession: api.WorkSession{Session: 1}}, nil)); got != 1409 {
		t.Errorf("another session: %d", got)
	}
	old := attaching()
	old.Client = 0
	if err := ask(api.RPCAttach, old, nil); code(err) != 1400 || !strings.Contains(err.Error(), "too old") {
		t.Errorf("%v", err)
	}
	stranger, err := c.NewSubscription(api.WorkChannel + string(cluster.OutsideID([]byte("x"))))
	if err != nil {
		t.Fatal(err)
	}
	refused := make(chan uint32, 10)
	stranger.OnUnsubscribed(func(e centrifuge.UnsubscribedEvent) { refused <- e.Code })
	stranger.OnSubscribed(func(centrifuge.SubscribedEvent) { refused <- 0 })
	if err := stranger.Subscribe(); err != nil {
		t.Fatal(err)
	}
	if got := <-refused; got != 103 {
		t.Errorf("another's channel: %d", got)
	}
	bad := centrifuge.NewJsonClient("ws://"+f.addr+"/v1/realtime", centrifuge.Config{Token: token + "x", HandshakeTimeout: 10 * time.Second, ReadTimeout: 10 * time.Second})
	defer bad.Close()
	ended := make(chan uint32, 10)
	bad.OnDisconnected(func(e centrifuge.DisconnectedEvent) { ended <- e.Code })
	if err := bad.Connect(); err != nil {
		t.Fatal(err)
	}
	if got := <-ended; got != 3500 {
		t.Errorf("a bad token: %d", got)
	}
	for origin, want := range map[string]int{"https://" + name: 101, "": 101, "https://evil.example.org": 403, "null": 403} {
		req, err := http.NewRequestWithContext(t.Context(), "GET", "http://"+f.addr+"/v1/realtime", nil)
		if err != nil {
			t.Fatal(err)
		}
		for k, v := range map[string]string{"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==", "Origin": origin} {
			if v != "" {
				req.Header.Set(k, v)
			}
		}
		resp, err := http.DefaultTransport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		if _ = resp.Body.Close(); resp.StatusCode != want {
			t.Errorf("a page of %q: %d, want %d", origin, resp.StatusCode, want)
		}
	}
	c.Close()
	if x := f.hear(func(x stream.Frame) bool { return x.Part != nil }); x.Worker != id || x.Part.Gone || x.Part.Session != st.Session {
		t.Errorf("%+v", x.Part)
	}
	// A later session, by HTTP, is not ended by the end of the connection before.
	var again api.WorkState
	if status, p := f.rpc(token, api.RPCAttach, attaching(), &again); status != 200 || again.Session <= st.Session || len(again.Chunks) != 1 {
		t.Errorf("%d %+v %+v", status, p, again)
	}
}

// TestFlood: a connection is ended over which far more is asked than a worker may, even of
// what there is not.
func TestFlood(t *testing.T) {
	f := startFloor(t)
	id, token := f.hired(1)
	c, _ := f.listen(id, token)
	ended := make(chan struct{}, 10)
	c.OnConnecting(func(centrifuge.ConnectingEvent) { ended <- struct{}{} })
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	var asking sync.WaitGroup
	for range 20 {
		asking.Go(func() {
			for range 200 {
				if _, err := rpcOver(ctx, c, "no such", []byte("{}")); ctx.Err() != nil || err == nil {
					return
				}
			}
		})
	}
	select {
	case <-ended:
	case <-ctx.Done():
		t.Error("a flood was served")
	}
	c.Close()
	cancel()
	asking.Wait()
}

// TestBadRPC: what is malformed, too long or too much is refused and changes nothing.
func TestBadRPC(t *testing.T) {
	f := startFloor(t)
	_, token := f.hired(1)
	post := func(method, body string) (int, api.Problem) {
		req, err := http.NewRequestWithContext(t.Context(), "POST", "http://"+f.addr+"/v1/rpc/"+method, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+token)
		return f.do(req, nil)
	}
	for name, c := range map[string]struct {
		body string
		want int
	}{
		"empty":         {"", 400},
		"array":         {"[]", 400},
		"two":           {`{"client":1}{}`, 400},
		"unknown field": {`{"client":1,"owner":"user:bob"}`, 400},
		"no slots":      {`{"client":1,"room":1}`, 400},
		"65 slots":      {`{"client":1,"slots":65,"room":65}`, 400},
		"room":          {`{"client":1,"slots":1,"room":3}`, 400},
		"number":        {`{"client":1,"slots":1,"room":1,"memory_bytes":5}`, 400},
		"refs":          {`{"client":1,"slots":1,"room":1,"running":[` + strings.Repeat(`{"job":"jaaaaaaaaaaaaaaaaaaaaaaaaaa","chunk":1,"attempt":1},`, 256) + `{"job":"j","chunk":1,"attempt":1}]}`, 400},
		"of a host":     {`{"client":1,"slots":1,"room":1,"running":[{"job":"j","chunk":1,"attempt":1,"worker":"n1"}]}`, 400},
		"long":          {`{"client":1,` + strings.Repeat(" ", maxRPC) + `}`, 413},
	} {
		if status, p := post(api.RPCAttach, c.body); status != c.want {
			t.Errorf("%s: %d %+v", name, status, p)
		}
	}
	if n := f.o.Crew.Stats(); n.Workers != 0 {
		t.Errorf("%+v", n)
	}
	if n := f.g.reading.bytes(); n != 0 {
		t.Errorf("%d bytes are read for ever", n)
	}
	var st api.WorkState
	if status, p := f.rpc(token, api.RPCAttach, attaching(), &st); status != 200 {
		t.Fatalf("%d %+v", status, p)
	}
	many := api.WorkResults{WorkSession: api.WorkSession{Session: st.Session}, Results: make([]api.WorkResult, 65)}
	for i := range many.Results {
		many.Results[i] = api.WorkResult{Attempt: ref(i), Output: output}
	}
	if status, _ := f.rpc(token, api.RPCComplete, many, nil); status != 400 {
		t.Errorf("65 results: %d", status)
	}
	beats := 0
	for status := 200; status == 200 && beats < 1000; beats++ {
		status, _ = f.rpc(token, api.RPCBeat, api.WorkBeat{WorkSession: api.WorkSession{Session: st.Session}}, nil)
	}
	if beats > 100 {
		t.Errorf("%d beats at once", beats)
	}
	attached := 0
	for status := 200; status == 200 && attached < 1000; attached++ {
		status, _ = f.rpc(token, api.RPCAttach, attaching(), nil)
	}
	if attached > 100 {
		t.Errorf("%d sessions at once", attached)
	}
	f.add("n1", event.KindUserSet, event.UserSet{Name: "ann", Role: "submitter", Disabled: true})
	if status, p := f.rpc(token, api.RPCAssigned, api.WorkSession{Session: st.Session}, nil); status != 403 {
		t.Errorf("of a disabled user: %d %+v", status, p)
	}
}

// TestBytesAtOnce: what is read at once is bounded, whatever is promised.
func TestBytesAtOnce(t *testing.T) {
	f := startFloor(t)
	_, token := f.hired(1)
	_, other := f.hired(2)
	var all []func()
	for n := int64(0); n+maxReadingOf <= maxReading; n += maxReadingOf {
		leave, ok := f.g.reading.enter(fmt.Sprint(n), maxReadingOf)
		if !ok {
			t.Fatal("no room")
		}
		all = append(all, leave)
	}
	leave, ok := f.g.reading.enter("another", maxReading%maxReadingOf)
	if !ok {
		t.Fatal("no room")
	}
	all = append(all, leave)
	if status, p := f.ask("POST", "/v1/rpc/bye", token, api.WorkSession{}, nil); status != 503 {
		t.Errorf("%d %+v", status, p)
	}
	for _, leave := range all {
		leave()
	}
	if status, _ := f.ask("POST", "/v1/rpc/bye", token, api.WorkSession{}, nil); status != 409 {
		t.Errorf("%d", status)
	}
	// Bodies of one worker that do not come keep nothing of another out.
	until := time.Now().Add(20 * time.Second)
	for n := range int64(maxReadingOf / maxRPC) {
		conn, err := net.Dial("tcp", f.addr)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := fmt.Fprintf(conn, "POST /v1/rpc/complete HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nTransfer-Encoding: chunked\r\n\r\n", token); err != nil {
			t.Fatal(err)
		}
		for f.g.reading.bytes() < (n+1)*maxRPC {
			if time.Now().After(until) {
				t.Fatal("no body is waited for")
			}
			time.Sleep(time.Millisecond)
		}
	}
	if status, p := f.ask("POST", "/v1/rpc/bye", token, api.WorkSession{}, nil); status != 503 {
		t.Errorf("one more of the same: %d %+v", status, p)
	}
	if status, _ := f.ask("POST", "/v1/rpc/bye", other, api.WorkSession{}, nil); status != 409 {
		t.Errorf("another worker: %d", status)
	}
}
