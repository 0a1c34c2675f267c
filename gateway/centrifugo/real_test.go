package centrifugo

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/centrifugal/centrifuge-go"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/gateway/auth"
	"github.com/skein-project/skein/internal/require"
	"github.com/skein-project/skein/internal/servertest"
	"github.com/skein-project/skein/internal/servertest/redistest"
)

// real is a Centrifugo that was started with what File says, its Redis, and an office that it
// asks.
type real struct {
	*office
	*servertest.Centrifugo
	ws     string
	file   string // with its configuration
	signer auth.Signer
}

func startReal(t *testing.T) *real {
	t.Helper()
	require.Need(t, require.Centrifugo)
	redis, base := redistest.Start(t)
	r := &real{signer: auth.Signer{Cluster: "c1", Gateway: "n1", Key: signingKey}}
	ports, err := servertest.Ports(2)
	if err != nil {
		t.Fatal(err)
	}
	ws, inner := "ws://"+ports[0]+"/connection/websocket", "http://"+ports[1]+"/api"
	r.office = newOffice(t, inner)
	r.ws = ws
	r.file = filepath.Join(base, "centrifugo.json")
	text, err := File(Settings{
		Cluster: "c1", Gateway: "https://gw.example.org", Proxy: r.office.url, API: inner, Clients: ws, Key: strings.ReplaceAll(apiKey, " ", "-"), Secret: oldSecret,
		Redis: Redis{Addresses: []string{"unix://" + redis.Socket}, Prefix: "sk"},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(r.file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	if r.Centrifugo, err = servertest.StartCentrifugo(t.Context(), base, r.file); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Centrifugo.Stop() })
	r.begin()
	return r
}

// guest is a worker that is connected.
type guest struct {
	*centrifuge.Client
	id     cluster.NodeID
	ended  chan uint32 // codes
	pushed chan api.WorkPush
	heard  chan error // of its own channel: nil is that it listens
}

// connect connects as a worker, by a token.
func (r *real) connect(worker cluster.NodeID, token string) *guest {
	r.t.Helper()
	g := &guest{id: worker, ended: make(chan uint32, 10), pushed: make(chan api.WorkPush, 100), heard: make(chan error, 10)}
	g.Client = centrifuge.NewJsonClient(r.ws, centrifuge.Config{Token: token, ReadTimeout: 10 * time.Second, HandshakeTimeout: 10 * time.Second})
	r.t.Cleanup(g.Close)
	g.OnDisconnected(func(e centrifuge.DisconnectedEvent) { g.ended <- e.Code })
	sub, err := g.NewSubscription(api.WorkChannel + string(worker))
	if err != nil {
		r.t.Fatal(err)
	}
	sub.OnSubscribed(func(centrifuge.SubscribedEvent) { g.heard <- nil })
	sub.OnUnsubscribed(func(e centrifuge.UnsubscribedEvent) { g.heard <- &centrifuge.Error{Code: e.Code, Message: e.Reason} })
	sub.OnPublication(func(e centrifuge.PublicationEvent) {
		var p api.WorkPush
		if err := json.Unmarshal(e.Data, &p); err != nil {
			r.t.Error(err)
		}
		g.pushed <- p
	})
	if err := sub.Subscribe(); err != nil {
		r.t.Fatal(err)
	}
	if err := g.Connect(); err != nil {
		r.t.Fatal(err)
	}
	return g
}

func (r *real) token(worker cluster.NodeID) string {
	r.t.Helper()
	token, _, err := r.signer.Mint(worker, "id", time.Now())
	if err != nil {
		r.t.Fatal(err)
	}
	return token
}

func await[T any](t *testing.T, what string, from <-chan T) (x T) {
	t.Helper()
	select {
	case x = <-from:
	case <-time.After(20 * time.Second):
		t.Fatalf("%s: nothing", what)
	}
	return x
}

// ends waits for the code by which it is disconnected.
func (g *guest) ends(t *testing.T, what string, want uint32) {
	t.Helper()
	if got := await(t, what, g.ended); got != want {
		t.Errorf("%s: disconnected by %d, want %d", what, got, want)
	}
}

// TestReal: the real server takes what File says without a word of complaint, and workers
// connect, ask, listen and are told things through it as at a gateway itself.
func TestReal(t *testing.T) {
	r := startReal(t)
	g := r.connect(mine, r.token(mine))
	if err := await(t, "it listens", g.heard); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	got, err := g.RPC(ctx, api.RPCBeat, []byte(`{"session":"1"}`))
	if err != nil || string(got.Data) != `{"seq":"7"}` {
		t.Errorf("%s, %v", got.Data, err)
	}
	r.answers(func() (any, *api.Problem) { return nil, api.Errorf(api.CodeNotReady, "later") })
	if _, err := g.RPC(ctx, api.RPCBeat, []byte(`{}`)); err == nil || err.Error() != "1503: later" {
		t.Errorf("a problem: %v", err)
	}
	for i := uint64(1); i <= 20; i++ {
		r.Push(mine, api.WorkPush{V: 1, Type: "stop", Session: 1 << 60, Seq: i, At: time.Now()})
	}
	for i := uint64(1); i <= 20; i++ {
		if p := await(t, "a push", g.pushed); p.Seq != i || p.Session != 1<<60 {
			t.Fatalf("push %d: %+v", i, p)
		}
	}

	other, err := g.NewSubscription(api.WorkChannel + string(others))
	if err != nil {
		t.Fatal(err)
	}
	refused := make(chan uint32, 1)
	other.OnUnsubscribed(func(e centrifuge.UnsubscribedEvent) { refused <- e.Code })
	if err := other.Subscribe(); err != nil {
		t.Fatal(err)
	}
	if code := await(t, "another's channel", refused); code != 103 {
		t.Errorf("another's channel: %d", code)
	}
	if _, err := g.Publish(ctx, api.WorkChannel+string(mine), []byte(`{}`)); err == nil {
		t.Error("a client publishes")
	}

	// Who has no token of this cluster is not let in.
	r.connect(mine, "").ends(t, "no token", 3500)
	r.connect(mine, r.token(mine)[1:]).ends(t, "a token that is cut off", 3500)
	of := r.signer
	of.Cluster = "c2"
	token, _, err := of.Mint(mine, "id", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	r.connect(mine, token).ends(t, "a token of another cluster", 3500)

	// Shut out: at once, and by the token not again.
	r.shutOut(mine, &api.Disconnect{Code: api.DisconnectRevoked, Reason: "revoked"})
	began := time.Now()
	r.End(auth.OfWorker(mine), "", api.Disconnect{Code: api.DisconnectRevoked, Reason: "revoked"})
	g.ends(t, "shut out", 4501)
	t.Logf("disconnected after %v", time.Since(began))
	if took := time.Since(began); took > time.Second {
		t.Errorf("disconnected after %v", took)
	}
	r.connect(mine, r.token(mine)).ends(t, "once more", 4501)

	text, err := r.Output()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(text) {
		if strings.Contains(line, "unknown key") || strings.Contains(line, "[WRN]") || strings.Contains(line, `"level":"warn"`) {
			t.Errorf("Centrifugo says: %s", line)
		}
	}
	if !strings.Contains(text, "serving") {
		t.Errorf("its log is not read:\n%s", text)
	}
}

// TestRealRestart: what is told while Centrifugo is away is told when it is back, and a
// client is there again by itself.
func TestRealRestart(t *testing.T) {
	r := startReal(t)
	g := r.connect(mine, r.token(mine))
	if err := await(t, "it listens", g.heard); err != nil {
		t.Fatal(err)
	}
	if err := r.Centrifugo.Stop(); err != nil {
		t.Fatal(err)
	}
	r.Push(mine, api.WorkPush{V: 1, Type: "stop", Seq: 1})
	if err := r.Centrifugo.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := await(t, "it listens again", g.heard); err != nil {
		t.Fatal(err)
	}
	if p := await(t, "what was told meanwhile", g.pushed); p.Seq != 1 {
		t.Errorf("%+v", p)
	}
}
