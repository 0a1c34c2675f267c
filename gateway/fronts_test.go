package gateway

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
	"testing"
	"time"

	"github.com/centrifugal/centrifuge-go"
	"github.com/rs/zerolog"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/gateway/centrifugo"
	"github.com/skein-project/skein/gateway/desk"
	"github.com/skein-project/skein/internal/require"
	"github.com/skein-project/skein/internal/servertest"
	"github.com/skein-project/skein/internal/servertest/redistest"
	"github.com/skein-project/skein/scheduler/stream"
	"github.com/skein-project/skein/store/redis"
)

// TestFronts: what a client may rely on holds alike whoever keeps its connection and what is
// known of it: this process and its memory, this process and a Redis, a real Centrifugo.
func TestFronts(t *testing.T) {
	for name, open := range map[string]func(*testing.T) *floor{
		"embedded, memory": func(t *testing.T) *floor {
			t.Helper()
			c := newCinema()
			f := startFloorWith(t, desk.Options{}, c.at)
			f.cinema = c
			return f
		},
		"embedded, Redis":   func(t *testing.T) *floor { t.Helper(); return startShared(t, false) },
		"Centrifugo, Redis": func(t *testing.T) *floor { t.Helper(); return startShared(t, true) },
	} {
		t.Run(name, func(t *testing.T) {
			f := open(t)
			for i, c := range []struct {
				what string
				does func(p *pair)
			}{
				{"a chunk, from its assignment until it is settled", (*pair).chunk},
				{"who has an access token hears how its jobs are", (*pair).listens},
				{"who was away is told what it missed", (*pair).misses},
				{"what it hears is of a bounded size", (*pair).bounded},
				{"who listens hears its own alone, and says nothing", (*pair).alone},
				{"an access token is revoked", (*pair).withdrawn},
				{"what cannot be done has its code", (*pair).codes},
				{"it hears its own channel alone, and says nothing there", (*pair).channels},
				{"by HTTP it is the same session", (*pair).byHTTP},
				{"pushes come in their order", (*pair).order},
				{"a later session ends the one before", (*pair).later},
				{"who says goodbye has nothing any more", (*pair).bye},
				{"what is too long", (*pair).long},
				{"tokens that are none", (*pair).tokens},
				{"who asks too often", (*pair).often},
				{"a fifth connection", (*pair).fifth},
				{"revoked", (*pair).revoked},
			} {
				p := &pair{floor: f}
				p.id, p.token = f.hired(byte(10 + i))
				f.pass(2 * time.Second)                // limits are full again
				if !t.Run(c.what, func(t *testing.T) { //nolint:thelper // the case itself
					was := f.t
					f.t = t
					defer func() { f.t = was }()
					p.c, p.pushes = f.listen(p.id, p.token)
					c.does(p)
					p.c.Close()
				}) && t.Context().Err() != nil {
					return
				}
			}
		})
	}
}

// startShared is a floor whose workers are in a Redis, and connected to it or to a Centrifugo.
func startShared(t *testing.T, fugo bool) *floor {
	t.Helper()
	if fugo {
		require.Need(t, require.Centrifugo)
	}
	server, base := redistest.Start(t)
	at := []string{"unix://" + server.Socket}
	store := func(self cluster.NodeID) *redis.Store {
		s, err := redis.New(redis.Options{Server: redis.Server{Addresses: at, Prefix: "sk"}, Cluster: "c1", Self: self, Logger: zerolog.Nop()})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	run := func(s *redis.Store) {
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan struct{})
		go func() { defer close(ended); _ = s.Run(ctx) }() // says that it was cancelled
		t.Cleanup(func() { cancel(); <-ended })
		for end := time.Now().Add(30 * time.Second); s.Why() != nil; time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatal(s.Why())
			}
		}
	}
	gateway, holder := store("n1"), store("n2")
	f := &floor{shelf: &shelf{dir: t.TempDir()}, cinema: newCinema()}
	var with Centrifugo
	secret := filepath.Join(base, "secret")
	if fugo {
		if err := os.WriteFile(secret, []byte(strings.Repeat("secret", 5)), 0o600); err != nil {
			t.Fatal(err)
		}
		ports, err := servertest.Ports(2)
		if err != nil {
			t.Fatal(err)
		}
		inner, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		f.ws = "ws://" + ports[0] + "/connection/websocket"
		with = Centrifugo{
			Ears: gateway,
			API:  "http://" + ports[1] + "/api", Clients: f.ws, KeyFile: secret, SecretFile: secret,
			Open: func(context.Context) (net.Listener, error) { return inner, nil },
		}
		text, err := centrifugo.File(centrifugo.Settings{
			Cluster: "c1", Gateway: "https://" + name, Proxy: "http://" + inner.Addr().String(), API: with.API, Clients: f.ws,
			Key: strings.Repeat("secret", 5), Secret: strings.Repeat("secret", 5), Redis: centrifugo.Redis{Addresses: at, Prefix: "sk"},
		})
		file := filepath.Join(base, "centrifugo.json")
		if err == nil {
			err = os.WriteFile(file, text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		started, err := servertest.StartCentrifugo(t.Context(), base, file)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = started.Stop() })
	}
	f.world = start(t, func(o *Options) {
		o.Crew, o.Artefacts, o.Centrifugo = gateway, f.shelf, with
		f.cinema.at(o)
	})
	f.ready()
	run(gateway)
	run(holder)
	conn, err := holder.Dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	f.hold(conn)
	return f
}

// pair is a worker that is connected, and the gateway, whose holder is the test.
type pair struct {
	*floor
	id     cluster.NodeID
	token  string
	c      *centrifuge.Client
	pushes <-chan api.WorkPush
}

// asks asks over the connection what must succeed.
func (p *pair) asks(method string, in, out any) {
	p.t.Helper()
	if code, _, says := over(p.t, p.c, method, in, out); code != 0 {
		p.t.Fatalf("%s: %d %s", method, code, says)
	}
}

// refuses asks over the connection what must not.
func (p *pair) refuses(what, method string, in any, code uint32, again bool, part string) {
	p.t.Helper()
	if got, temporary, says := over(p.t, p.c, method, in, nil); got != code || temporary != again || !strings.Contains(says, part) {
		p.t.Errorf("%s: %d %v %q, want %d %v %q", what, got, temporary, says, code, again, part)
	}
}

// attach begins a session, of which the holder hears.
func (p *pair) attach() (st api.WorkState) {
	p.t.Helper()
	p.asks(api.RPCAttach, attaching(), &st)
	p.hear(func(x stream.Frame) bool { return x.Join != nil && x.Worker == p.id && x.Join.Session == st.Session })
	return st
}

// of is a chunk of this worker's own job, so that cases do not meet.
func (p *pair) of(chunk int) job.Attempt {
	return job.Attempt{Job: job.NewID("user:ann", string(p.id)), Chunk: chunk, Number: 1}
}

// gives has the holder give it chunks.
func (p *pair) gives(chunks ...int) {
	p.t.Helper()
	var bare []job.Attempt
	for _, c := range chunks {
		bare = append(bare, job.Attempt{Chunk: c, Number: 1})
	}
	p.assigns(bare...)
}

func (p *pair) assigns(bare ...job.Attempt) {
	p.t.Helper()
	p.seq++
	p.say(stream.Frame{Worker: p.id, Assign: &stream.Assign{Term: 5, Seq: p.seq, Job: p.of(0).Job, Spec: p.spec(), Owner: "user:ann", Chunks: bare}})
}

func (p *pair) result(session uint64, chunks ...int) api.WorkResults {
	out := api.WorkResults{WorkSession: api.WorkSession{Session: session}}
	for _, c := range chunks {
		out.Results = append(out.Results, api.WorkResult{Attempt: p.of(c), Seconds: 1, Output: output})
	}
	return out
}

func (p *pair) chunk() {
	st := p.attach()
	if st.Session == 0 || st.Term != 5 || len(st.Chunks) != 0 {
		p.t.Errorf("%+v", st)
	}
	p.gives(0, 7)
	push := next(p.t, p.pushes)
	if push.V != 1 || push.Type != "chunk" || push.Session != st.Session || push.Seq != st.Seq+1 || push.Term != 5 || !slices.Equal(push.Chunks.Refs, []job.Attempt{p.of(0), p.of(7)}) {
		p.t.Fatalf("%+v %+v", push, push.Chunks)
	}
	if text, err := json.Marshal(push); err != nil || strings.Contains(string(text), "secret") || !strings.Contains(string(text), `"seed":"18446744073709551615"`) {
		p.t.Errorf("%s %v", text, err)
	}
	var seq api.WorkSeq
	p.asks(api.RPCBeat, api.WorkBeat{WorkSession: api.WorkSession{Session: st.Session}, Have: []api.WorkProgress{{Attempt: p.of(0), Done: 1 << 49}, {Attempt: p.of(7)}}, Ready: true}, &seq)
	if seq.Seq != push.Seq {
		p.t.Errorf("a beat says %d, want %d", seq.Seq, push.Seq)
	}
	results := p.result(st.Session, 0, 7, 9)
	results.Results[1].Output = `{"iterations":1}`
	var v api.WorkVerdicts
	p.asks(api.RPCComplete, results, &v)
	if !slices.Equal(v.Verdicts, []string{"taken", "invalid", "unknown"}) {
		p.t.Errorf("%v", v.Verdicts)
	}
	p.asks(api.RPCComplete, results, &v)
	if !slices.Equal(v.Verdicts, []string{"duplicate", "duplicate", "unknown"}) {
		p.t.Errorf("again: %v", v.Verdicts)
	}
	for left := 2; left > 0; left-- {
		r := p.hear(func(x stream.Frame) bool { return x.Result != nil && x.Worker == p.id }).Result
		switch r.Attempt {
		case p.of(0):
			if r.Result.Iterations != 1<<50 || r.Result.Metrics["x"] != (job.Metric{N: 3, Mean: 0.1, M2: 0.02, Max: 0.30000000000000004}) {
				p.t.Errorf("%+v", r.Result)
			}
		case p.of(7):
			if r.Class != job.FailedWork {
				p.t.Errorf("%+v", r)
			}
		default:
			p.t.Errorf("%+v", r)
		}
	}
	p.say(stream.Frame{Worker: p.id, Accepted: &stream.Accepted{Term: 5, Refs: []job.Attempt{p.of(0), p.of(7)}}})
	if push := next(p.t, p.pushes); push.Type != "settled" || len(push.Refs) != 2 || push.Seq != st.Seq+2 {
		p.t.Errorf("%+v", push)
	}
	var state api.WorkState
	p.asks(api.RPCAssigned, api.WorkSession{Session: st.Session}, &state)
	if state.Session != st.Session || state.Seq != st.Seq+2 || len(state.Chunks) != 0 {
		p.t.Errorf("what it is to have: %+v", state)
	}
}

func (p *pair) codes() {
	p.refuses("before it attached", api.RPCBeat, api.WorkBeat{WorkSession: api.WorkSession{Session: 1}}, 1409, false, "session is over")
	st := p.attach()
	session := api.WorkSession{Session: st.Session}
	negative := p.result(st.Session, 0)
	negative.Results[0].Seconds = -1
	old := attaching()
	old.Client = 0
	p.refuses("no method", "steal", session, 1404, false, "no method")
	p.refuses("another session", api.RPCBye, api.WorkSession{Session: 1}, 1409, false, "session")
	p.refuses("unknown field", api.RPCBeat, map[string]any{"session": fmt.Sprint(st.Session), "owner": "user:bob"}, 1400, false, "unknown field")
	p.refuses("a negative time", api.RPCComplete, negative, 1400, false, "")
	p.refuses("too many results", api.RPCComplete, p.result(st.Session, make([]int, 65)...), 1400, false, "65 results")
	p.refuses("no object", api.RPCBeat, []int{1}, 1400, false, "")
	p.refuses("too old", api.RPCAttach, old, 1400, false, "client 0 is too old")
	var seq api.WorkSeq
	p.asks(api.RPCBeat, api.WorkBeat{WorkSession: session}, &seq) // its session is as it was
}

func (p *pair) channels() {
	for channel, want := range map[string]uint32{
		api.WorkChannel + string(cluster.OutsideID([]byte("x"))): 103, api.WorkChannel: 103, "cluster": 103, "job:1": 102, "user:ann": 102, "user:#u:ann": 103, "x": 102,
		"job:" + string(job.NewID("user:ann", "x")): 103,
	} {
		sub, err := p.c.NewSubscription(channel)
		if err != nil {
			p.t.Fatal(err)
		}
		said := make(chan uint32, 10)
		sub.OnUnsubscribed(func(e centrifuge.UnsubscribedEvent) { said <- e.Code })
		sub.OnSubscribed(func(centrifuge.SubscribedEvent) { said <- 0 })
		if err := sub.Subscribe(); err != nil {
			p.t.Fatal(err)
		}
		p.says("listening to "+channel, said, want)
	}
	ctx, cancel := context.WithTimeout(p.t.Context(), 20*time.Second)
	defer cancel()
	if _, err := p.c.Publish(ctx, api.WorkChannel+string(p.id), []byte(`{}`)); err == nil {
		p.t.Error("a client publishes")
	}
	p.attach() // and its connection is good still
}

func (p *pair) byHTTP() {
	st := p.attach()
	p.gives(3)
	next(p.t, p.pushes)
	var seq api.WorkSeq
	if status, prob := p.rpc(p.token, api.RPCBeat, api.WorkBeat{WorkSession: api.WorkSession{Session: st.Session}, Have: []api.WorkProgress{{Attempt: p.of(3)}}, Ready: true}, &seq); status != 200 || seq.Seq != st.Seq+1 {
		p.t.Errorf("%d %+v %+v", status, prob, seq)
	}
	var v api.WorkVerdicts
	if status, prob := p.rpc(p.token, api.RPCComplete, p.result(st.Session, 3), &v); status != 200 || !slices.Equal(v.Verdicts, []string{"taken"}) {
		p.t.Errorf("%d %+v %v", status, prob, v.Verdicts)
	}
	p.asks(api.RPCComplete, p.result(st.Session, 3), &v)
	if !slices.Equal(v.Verdicts, []string{"duplicate"}) {
		p.t.Errorf("over the connection: %v", v.Verdicts)
	}
	if status, prob := p.rpc(p.token, "steal", struct{}{}, nil); status != 404 {
		p.t.Errorf("%d %+v", status, prob)
	}
}

func (p *pair) order() {
	st := p.attach()
	const n = 50
	for i := range n {
		bare := job.Attempt{Chunk: i % 8, Number: 1 + i/8}
		p.assigns(bare)
		p.say(stream.Frame{Worker: p.id, Cancel: &stream.Cancel{Term: 5, Job: p.of(0).Job, Chunks: []job.Attempt{bare}}})
	}
	for i := range uint64(2 * n) {
		push := next(p.t, p.pushes)
		if want := []string{"chunk", "stop"}[i%2]; push.Seq != st.Seq+1+i || push.Session != st.Session || push.Type != want {
			p.t.Fatalf("push %d: %+v, want %s", i, push, want)
		}
	}
}

func (p *pair) later() {
	first := p.attach()
	p.gives(1)
	next(p.t, p.pushes)
	p.pass(2 * time.Second)
	second := p.attach()
	if second.Session <= first.Session || len(second.Chunks) != 1 || !slices.Equal(second.Chunks[0].Refs, []job.Attempt{p.of(1)}) {
		p.t.Errorf("%+v, then %+v", first, second)
	}
	p.refuses("the session before", api.RPCBeat, api.WorkBeat{WorkSession: api.WorkSession{Session: first.Session}}, 1409, false, "session")
	var v api.WorkVerdicts
	p.asks(api.RPCComplete, p.result(second.Session, 1), &v)
	if !slices.Equal(v.Verdicts, []string{"taken"}) {
		p.t.Errorf("%v", v.Verdicts)
	}
}

func (p *pair) bye() {
	st := p.attach()
	p.gives(1)
	next(p.t, p.pushes)
	p.asks(api.RPCBye, api.WorkSession{Session: st.Session}, nil)
	if x := p.hear(func(x stream.Frame) bool { return x.Part != nil && x.Worker == p.id }); !x.Part.Gone {
		p.t.Errorf("%+v", x.Part)
	}
	p.refuses("after it", api.RPCBeat, api.WorkBeat{WorkSession: api.WorkSession{Session: st.Session}}, 1409, false, "session")
}

func (p *pair) long() {
	p.refuses("a request", api.RPCComplete, json.RawMessage(`"`+strings.Repeat("x", api.MaxCall)+`"`), 1413, false, "/v1/rpc/complete")
	ended := make(chan uint32, 10)
	p.c.OnConnecting(func(e centrifuge.ConnectingEvent) { ended <- e.Code })
	p.c.OnDisconnected(func(e centrifuge.DisconnectedEvent) { ended <- e.Code })
	ctx, cancel := context.WithTimeout(p.t.Context(), 20*time.Second)
	defer cancel()
	if _, err := rpcOver(ctx, p.c, api.RPCComplete, []byte(`"`+strings.Repeat("x", 100<<10)+`"`)); err == nil {
		p.t.Error("a message that is too long is answered")
	}
	select {
	case code := <-ended:
		if code >= 3500 {
			p.t.Errorf("it is told not to come again: %d", code)
		}
	case <-time.After(20 * time.Second):
		p.t.Error("a message that is too long is read on")
	}
}

func (p *pair) tokens() {
	for what, token := range map[string]string{"cut off": p.token[:len(p.token)-2], "an owner's": p.floor.world.token("user:ann", "work")} {
		_, said := p.dial(token)
		p.says(what, said, 3500)
	}
	past, _, err := p.g.key.Load().Mint(p.id, "id", time.Now().Add(-time.Hour))
	if err != nil {
		p.t.Fatal(err)
	}
	_, late := p.dial(past)
	p.says("one that has ended", late, 109) // by which clients get another
}

func (p *pair) often() {
	c, said := p.dial(p.token)
	p.says("it connects", said, 0)
	ctx, cancel := context.WithTimeout(p.t.Context(), 2*time.Minute)
	defer cancel()
	for range 400 { // one after the other; the clock of rates stands still
		_, err := rpcOver(ctx, c, api.RPCBeat, []byte("{}"))
		if _, answered := errors.AsType[*centrifuge.Error](err); !answered {
			break // all others are refused
		}
	}
	p.says("it asks too often", said, uint32(api.DisconnectLimit))
}

func (p *pair) fifth() {
	for range 3 {
		_, said := p.dial(p.token)
		p.says("another connection", said, 0)
	}
	_, said := p.dial(p.token)
	select {
	case code := <-said:
		if code == 0 {
			p.t.Error("a fifth connection is taken")
		}
	case <-time.After(20 * time.Second):
		p.t.Error("a fifth connection: nothing")
	}
}

func (p *pair) revoked() {
	p.attach()
	_, said := p.dial(p.token)
	p.says("it connects", said, 0)
	p.add("n1", event.KindWorkerRevoked, event.WorkerRevoked{Worker: p.id, Actor: "uid:0@n1"})
	began := time.Now()
	p.says("revoked", said, uint32(api.DisconnectRevoked))
	p.t.Logf("disconnected after %v", time.Since(began))
	if took := time.Since(began); took > time.Second {
		p.t.Errorf("disconnected after %v", took)
	}
	if status, prob := p.rpc(p.token, api.RPCAttach, attaching(), nil); status != 403 {
		p.t.Errorf("by HTTP: %d %+v", status, prob)
	}
	// By its token it is not let in again, or put out by the first thing that it asks.
	c, again := p.dial(p.token)
	for {
		select {
		case code := <-again:
			if code == 0 { // Centrifugo may let it in
				ctx, cancel := context.WithTimeout(p.t.Context(), 20*time.Second)
				_, _ = rpcOver(ctx, c, api.RPCBeat, []byte("{}")) // it is put out
				cancel()
				continue
			}
			if code != uint32(api.DisconnectRevoked) {
				p.t.Errorf("once more: %d", code)
			}
		case <-time.After(20 * time.Second):
			p.t.Error("once more: nothing")
		}
		return
	}
}
