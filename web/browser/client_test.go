package browser

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/skein-project/skein/api"
	names "github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/gateway/auth"
	"github.com/skein-project/skein/gateway/channel"
	"github.com/skein-project/skein/gateway/crew"
	"github.com/skein-project/skein/gateway/push"
	"github.com/skein-project/skein/gateway/rpc"
	"github.com/skein-project/skein/internal/wasmtest"
	"github.com/skein-project/skein/scheduler/stream"
)

// floor is a page that works at a gateway, and the holder, which is the test.
type floor struct {
	*office
	node    *push.Node
	worker  names.NodeID
	conn    net.Conn
	enc     stream.Encoder
	heard   chan stream.Frame
	seq     uint64
	jobs    int
	deaf    atomic.Bool  // the next push is lost
	long    atomic.Int64 // results that came by HTTP
	expired atomic.Bool  // the next token has ended
	// shut is why the page may not stay.
	shut    atomic.Pointer[api.Disconnect]
	mu      sync.Mutex
	sockets []net.Conn
}

// work is a job of the holder's.
type work struct {
	id job.ID
	job.Spec
}

func (w work) refs(chunks ...int) []job.Attempt {
	out := make([]job.Attempt, len(chunks))
	for i, c := range chunks {
		out[i] = job.Attempt{Job: w.id, Chunk: c, Number: 1}
	}
	return out
}

func newFloor(t *testing.T, also ...func(*floor, *http.ServeMux)) *floor {
	t.Helper()
	f := &floor{worker: names.OutsideID([]byte("page")), heard: make(chan stream.Frame, 10_000)}
	began := time.Now()
	c, err := crew.New(crew.Options{Now: func() time.Duration { return time.Since(began) }, Logger: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var node *push.Node
	service := rpc.New(rpc.Options{
		Crew: rpc.InMemory(c), Wall: time.Now,
		Owner: func(names.NodeID) (string, error) { return "user:ann", nil },
		End:   func(w names.NodeID, conn string, why api.Disconnect) { node.End(auth.OfWorker(w), conn, why) },
		Push: func(w names.NodeID, p api.WorkPush) {
			if !f.deaf.CompareAndSwap(true, false) {
				node.Push(w, p)
			}
		},
	})
	who := func(token string, _ []byte) (auth.Client, time.Time, error) {
		if f.expired.CompareAndSwap(true, false) {
			return "", time.Time{}, push.ErrExpired
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		if token != "token of "+string(f.worker) {
			return "", time.Time{}, errors.New("no token")
		}
		return auth.OfWorker(f.worker), time.Now().Add(time.Hour), nil
	}
	node, err = push.New(push.Options{
		Who: who, Stays: f.stays, Listen: func(client auth.Client, name string) *channel.Error {
			worker, _ := client.Worker()
			return channel.Listen(channel.Listener{Worker: worker}, name, nil)
		}, Ended: func(api.DisconnectCode) {}, Gone: service.Gone, Origin: func(*http.Request) bool { return true }, Logger: zerolog.Nop(),
		Now: func() time.Duration { return time.Since(began) },
		Call: func(w names.NodeID, conn, method string, text []byte) (any, *api.Problem) {
			out, err := service.Call(rpc.Caller{Worker: w, Conn: conn}, method, text)
			if err == nil {
				return out, nil
			}
			p, ok := errors.AsType[*api.Problem](err)
			if !ok {
				p = api.Errorf(api.CodeInternal, "%v", err)
			}
			return nil, p
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	ours, theirs := net.Pipe()
	f.conn, f.node = ours, node
	var all sync.WaitGroup
	if err := node.Start(); err != nil {
		t.Fatal(err)
	}
	all.Go(func() { <-ctx.Done(); node.Stop() })
	all.Go(func() { _ = c.Run(ctx) })
	all.Go(func() { c.Serve(ctx, "n1", theirs) })
	all.Go(func() {
		in := stream.NewCrewDecoder(ours)
		for {
			x, err := in.Read()
			if err != nil {
				return // the end of the test
			}
			f.heard <- x
		}
	})
	t.Cleanup(func() {
		cancel()
		_ = ours.Close()
		all.Wait()
		service.Close()
	})
	f.office = newOffice(t, func(mux *http.ServeMux) {
		for _, more := range also {
			more(f, mux)
		}
		mux.HandleFunc("GET /v1/realtime", func(w http.ResponseWriter, r *http.Request) {
			f.mu.Lock()
			f.sockets = append(f.sockets, r.Context().Value(connOf{}).(net.Conn))
			f.mu.Unlock()
			node.ServeHTTP(w, r)
		})
		mux.HandleFunc("POST /v1/rpc/{method}", func(w http.ResponseWriter, r *http.Request) {
			f.long.Add(1)
			client, _, err := who(strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "), nil)
			text, _ := io.ReadAll(r.Body) // a short body is refused below
			if err != nil {
				http.Error(w, "{}", http.StatusUnauthorized)
				return
			}
			worker, _ := client.Worker()
			out, err := service.Call(rpc.Caller{Worker: worker}, r.PathValue("method"), text)
			if err != nil {
				t.Errorf("%s by HTTP: %v", r.PathValue("method"), err)
			}
			_ = json.NewEncoder(w).Encode(out) // the page may have gone
		})
	})
	f.say(stream.Frame{Hello: &stream.Hello{Term: 5, Holder: "n1"}})
	f.hear("a welcome", func(x stream.Frame) bool { return x.Welcome != nil })
	return f
}

func (f *floor) stays(auth.Client) error {
	if why := f.shut.Load(); why != nil {
		return why
	}
	return nil
}

// cut ends the connections of workers from outside.
func (f *floor) cut() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range f.sockets {
		_ = c.Close() // it may be closed
	}
	f.sockets = nil
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
func (f *floor) hear(what string, want func(stream.Frame) bool) stream.Frame {
	f.t.Helper()
	end := time.After(patience)
	for {
		select {
		case x := <-f.heard:
			if want(x) {
				return x
			}
		case <-end:
			var status json.RawMessage
			if f.tab != nil {
				f.value("window.client?.status() ?? null", &status)
			}
			f.t.Fatalf("no %s; the page says %s", what, status)
		}
	}
}

func (f *floor) give(w work, chunks ...int) {
	f.t.Helper()
	f.seq++
	a := stream.Assign{Term: 5, Seq: f.seq, Job: w.id, Spec: w.Spec, Owner: "user:ann", Chunks: w.refs(chunks...)}
	for i := range a.Chunks {
		a.Chunks[i].Job = "" // the frame says it
	}
	f.say(stream.Frame{Worker: f.worker, Assign: &a})
}

// result returns the next result, which must be of one of the chunks.
func (f *floor) result(w work, chunks ...int) stream.Result {
	f.t.Helper()
	r := *f.hear("result", func(x stream.Frame) bool { return x.Result != nil }).Result
	if !slices.Contains(w.refs(chunks...), r.Attempt) {
		f.t.Fatalf("a result of %s: %+v, want one of %s %v", r.Attempt, r.Error, w.id, chunks)
	}
	return r
}

func (f *floor) settle(w work, chunks ...int) {
	f.t.Helper()
	f.say(stream.Frame{Worker: f.worker, Accepted: &stream.Accepted{Term: 5, Refs: w.refs(chunks...)}})
}

func (f *floor) job(module []byte, chunk uint64) work {
	f.put(module)
	f.jobs++
	return work{
		job.ID("j" + strings.Repeat(string(rune('a'+f.jobs)), 26)),
		job.Spec{Key: "k", Executor: job.ExecutorWASM, Artefact: sha256.Sum256(module), Iterations: 100*chunk - 1, Chunk: chunk, Seed: 1<<64 - 1, MemoryBytes: 64 << 20}.WithDefaults(),
	}
}

// TestPageWorksAtAGateway: it is told chunks and computes what a host computes; nothing is
// lost with a connection or a push, and what it cannot do it says.
func TestPageWorksAtAGateway(t *testing.T) {
	f, h := newFloor(t), newChild(t)
	var ok bool
	f.value(fmt.Sprintf("begin(%q, 2)", f.worker), &ok)
	join := f.hear("join", func(x stream.Frame) bool { return x.Join != nil }).Join
	if join.Owner != "user:ann" || join.Slots != 2 || join.Room != 4 || join.MemoryBytes != 1<<30 || !slices.Equal(join.Executors, []string{job.ExecutorWASM}) {
		t.Errorf("%+v", join)
	}

	pi := f.job(piGuest(t), 1000)
	for _, chunks := range [][]int{{0, 3, 7}, {99}} {
		f.give(pi, chunks...)
		for range chunks {
			r := f.result(pi, chunks...)
			offset, n := pi.ChunkRange(r.Chunk)
			want, err := job.DecodeResult(h.compute(chunk{module: piGuest(t), seed: pi.Seed, offset: offset, n: n, number: r.Chunk}).Output)
			if err != nil {
				t.Fatal(err)
			}
			if r.Error != "" || r.Result == nil || !reflect.DeepEqual(*r.Result, want) {
				t.Errorf("chunk %d: %+v, want %+v", r.Chunk, r, want)
			}
		}
		f.settle(pi, chunks...)
	}
	f.until("all is settled", "client.status().kept === 0 && client.status().done === 4")

	long := f.job(wasmtest.Assemble(wasmtest.GoodResult+strings.Repeat(" ", 60<<10), wasmtest.Write(1)), 10)
	f.give(long, 1)
	if r := f.result(long, 1); r.Result == nil || r.Result.Metrics["x"].Mean != 2 || f.long.Load() != 1 {
		t.Errorf("a long result: %+v, %d by HTTP", r, f.long.Load())
	}
	bad := f.job(wasmtest.Assemble("no luck\n", wasmtest.Write(2), wasmtest.Exit(3)), 10)
	f.give(bad, 1)
	if r := f.result(bad, 1); r.Class != job.FailedWork || r.Error != "exit code 3; standard error: no luck" {
		t.Errorf("a guest that fails: %+v", r)
	}
	gone := f.job([]byte("x"), 10)
	gone.Artefact = names.Hash{1}
	f.give(gone, 1)
	if r := f.result(gone, 1); r.Class != job.FailedInfra || !strings.Contains(r.Error, "status 404") {
		t.Errorf("no module: %+v", r)
	}
	f.settle(long, 1)
	f.settle(bad, 1)
	f.settle(gone, 1)
	f.until("failures are settled", "client.status().kept === 0")

	f.deaf.Store(true) // that it missed one it sees by the next one
	f.give(pi, 10)
	f.give(pi, 11)
	one, two := f.result(pi, 10, 11), f.result(pi, 10, 11)
	if one.Chunk == two.Chunk {
		t.Errorf("after a lost push chunk %d twice", one.Chunk)
	}

	f.deaf.Store(true)
	f.settle(pi, 10)
	endless := f.job(wasmtest.Assemble("", wasmtest.Forever()), 10)
	f.give(endless, 20)
	f.until("it runs, and of two results one is settled", "client.status().running === 1 && client.status().kept === 1")
	f.cut()
	join = f.hear("join after a cut", func(x stream.Frame) bool { return x.Join != nil }).Join
	if !slices.Equal(join.Assigned, endless.refs(20)) {
		t.Errorf("it says it has %v", join.Assigned)
	}
	f.result(pi, 11) // what is not settled comes again
	f.settle(pi, 11)
	f.until("they are settled", "client.status().kept === 0")

	f.seq++
	f.say(stream.Frame{Worker: f.worker, Cancel: &stream.Cancel{Term: 5, Seq: f.seq, Job: endless.id}})
	f.until("it is stopped", "client.status().running === 0")
	f.wait("client.close().then(() => true)", &ok)
	if x := f.hear("part", func(x stream.Frame) bool { return x.Part != nil && x.Part.Gone }); x.Worker != f.worker {
		t.Errorf("%+v", x.Part)
	}
}

// TestPageIsSentAway: it comes again where it may, and else stops.
func TestPageIsSentAway(t *testing.T) {
	f := newFloor(t)
	var ok bool
	f.value(fmt.Sprintf("begin(%q, 1)", f.worker), &ok)
	join := func() *stream.Join {
		return f.hear("join", func(x stream.Frame) bool { return x.Join != nil }).Join
	}
	first := join()
	f.say(stream.Frame{Worker: f.worker, Drop: &stream.Drop{Term: 5, Session: first.Session + 1<<20, Reason: stream.DropStale}})
	second := join()
	if second.Session <= first.Session+1<<20 {
		t.Errorf("sessions %d, %d", first.Session, second.Session)
	}
	f.say(stream.Frame{Worker: f.worker, Drop: &stream.Drop{Term: 5, Session: second.Session, Reason: stream.DropFlood}})
	third := join()
	endless := f.job(wasmtest.Assemble("", wasmtest.Forever()), 10)
	f.give(endless, 1)
	f.until("it runs", "client.status().running === 1")
	f.say(stream.Frame{Worker: f.worker, Drop: &stream.Drop{Term: 5, Session: third.Session, Reason: stream.DropRevoked}})
	f.until("it has stopped", `client.status().over === "revoked" && client.status().running === 0 && !client.status().attached && !client.status().connected`)
}

// TestPageIsDisconnected: after a code below 4500 it connects again, says why meanwhile, and
// goes on with what it has; after another it stops, and knows why.
func TestPageIsDisconnected(t *testing.T) {
	f := newFloor(t)
	var ok bool
	begin := func() { f.value(fmt.Sprintf("begin(%q, 1)", f.worker), &ok) }
	join := func(x stream.Frame) bool { return x.Join != nil }
	begin()
	f.hear("join", join)
	endless := f.job(wasmtest.Assemble("", wasmtest.Forever()), 10)
	f.give(endless, 1)
	f.until("it runs", "client.status().running === 1")
	for code, reason := range map[api.DisconnectCode]string{api.DisconnectStopping: "the gateway stops", api.DisconnectLimit: "asks too often"} {
		f.node.End(auth.OfWorker(f.worker), "", api.Disconnect{Code: code, Reason: reason})
		f.until("it says why", fmt.Sprintf("client.status().trouble === %q", reason))
		if again := f.hear("join again", join).Join; !slices.Equal(again.Assigned, endless.refs(1)) {
			t.Errorf("after %d it says it has %v", code, again.Assigned)
		}
		f.until("it says that no more", "client.status().trouble === undefined && client.status().running === 1")
	}
	f.expired.Store(true) // as after a sleep
	f.cut()
	f.hear("join by another token", join)
	f.shut.Store(&api.Disconnect{Code: api.DisconnectRevoked, Reason: "revoked: its owner may do nothing at present"})
	f.node.End(auth.OfWorker(f.worker), "", *f.shut.Load())
	f.until("it has stopped", `client.status().over === "revoked" && client.status().running === 0 && !client.status().connected`)
	begin()
	f.until("it is not let in again", `client.status().over === "revoked"`)
	f.shut.Store(nil)
	for code, want := range map[api.DisconnectCode]string{api.DisconnectReplaced: "replaced", api.DisconnectTooOld: "old", 4999: "something new"} {
		begin()
		f.hear("join", join)
		f.node.End(auth.OfWorker(f.worker), "", api.Disconnect{Code: code, Reason: "something new"})
		f.until(fmt.Sprint("disconnected by ", code), fmt.Sprintf("client.status().over === %q", want))
	}
}
