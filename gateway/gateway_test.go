package gateway

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/skein-project/skein/access"
	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/eventlog/state"
	"github.com/skein-project/skein/gateway/auth"
	"github.com/skein-project/skein/gateway/guard/here"
	"github.com/skein-project/skein/gateway/registry"
)

const name = "gw.example.org" // by which signed requests name it

// world is a log, what its holder does, and a gateway in front of it.
type world struct {
	t    *testing.T
	mu   sync.Mutex
	st   *state.State
	seq  uint64
	now  time.Time
	mono time.Duration // the gateway's clock of rates: stands still but for pass
	down error         // of the holder

	g    *Gateway
	o    Options
	addr string
	stop func()
}

func (w *world) clock() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now
}

// pass lets time pass.
func (w *world) pass(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now, w.mono = w.now.Add(d), w.mono+d
}

func (w *world) ticks() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.mono
}

// fail has the holder answer with err.
func (w *world) fail(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.down = err
}

func (w *world) View(fn func(*state.State)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	fn(w.st)
}

func (w *world) add(node cluster.NodeID, kind event.Kind, body any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	text, err := json.Marshal(body)
	if err != nil {
		w.t.Error(err)
	}
	w.seq++
	w.st.Apply(event.Event{Source: event.SourceID{Node: node, Inc: 1}, Seq: w.seq, HLC: cluster.HLC(uint64(w.now.UnixMilli())<<16 | w.seq), Term: 1, Kind: kind, Body: text})
	if _, _, bad := w.st.Counts(); bad > 0 {
		w.t.Errorf("%s is malformed: %s", kind, text)
	}
}

// OwnWorker is the holder.
func (w *world) OwnWorker(_ context.Context, token api.Secret, id cluster.NodeID, key []byte, name string) (api.OutsideWorker, error) {
	w.mu.Lock()
	down := w.down
	w.mu.Unlock()
	if down != nil {
		return api.OutsideWorker{}, down
	}
	a, ok := registry.New(w).Access(token.Reveal(), w.clock())
	if !ok {
		return api.OutsideWorker{}, errors.New("the holder refuses it")
	}
	if len(key) == 0 {
		w.add("n1", event.KindWorkerRevoked, event.WorkerRevoked{Worker: id, Actor: "token:x@n1"})
		return api.OutsideWorker{Worker: id, State: api.StateRevoked}, nil
	}
	w.add("n1", event.KindWorkerEnrolled, event.WorkerEnrolled{Worker: id, Key: key, Owner: a.Owner, Name: name, Actor: "token:x@n1"})
	return api.OutsideWorker{Worker: id, State: api.StateEnrolled}, nil
}

func (w *world) OwnWorkers(owner string, limit int) (out []api.OutsideWorker) {
	w.View(func(s *state.State) {
		for x := range s.Outside().Workers("") {
			if x.Owner == owner && len(out) < limit {
				out = append(out, api.OutsideWorker{Worker: x.Worker, Owner: x.Owner, Name: x.Name})
			}
		}
	})
	return out
}

// token makes an access token.
func (w *world) token(owner string, roles ...string) string {
	t := registry.NewToken("")
	w.add("n1", event.KindAccessSet, event.AccessSet{ID: t.ID, Hash: t.Hash(), Owner: owner, Roles: roles, Expires: w.clock().Add(time.Hour).Unix(), Actor: "uid:0@n1"})
	return t.Text()
}

func start(t *testing.T, change func(*Options)) *world {
	t.Helper()
	w := &world{t: t, st: state.New(), now: time.Now()}
	w.add("n1", event.KindTermStart, event.TermStart{Term: 1})
	w.add("n1", event.KindUserSet, event.UserSet{Name: "ann", Role: "submitter"})
	w.add("n1", event.KindUserSet, event.UserSet{Name: "bob", Role: "submitter"})
	opened := make(chan string, 1)
	o := Options{
		Cluster: "c1", Self: "n1", Dir: t.TempDir(), Log: w, Owners: w, Now: w.ticks, Wall: w.clock,
		Logger: zerolog.Nop(), Registerer: prometheus.NewRegistry(),
		Announce: func(_ context.Context, b event.GatewayOpened) error {
			w.add("n1", event.KindGatewayOpened, b)
			return b.Check()
		},
		HTTP: HTTP{URL: "https://" + name, MaxClients: 1000, Open: func(ctx context.Context) (net.Listener, error) {
			l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
			if err == nil {
				opened <- l.Addr().String()
			}
			return l, err
		}},
	}
	if change != nil {
		change(&o)
	}
	g, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	w.g, w.o = g, o
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- g.Run(ctx) }()
	w.stop = sync.OnceFunc(func() {
		stop()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
	t.Cleanup(w.stop)
	<-g.Up()
	w.addr = <-opened
	w.pass(time.Second) // proofs are of after its start
	return w
}

// ready waits until the gateway lets workers in.
func (w *world) ready() {
	w.t.Helper()
	for w.g.key.Load().why != "" {
		if w.t.Context().Err() != nil {
			w.t.Fatal(w.g.key.Load().why)
		}
		time.Sleep(time.Millisecond)
	}
}

// computer is somebody's, which wants to work.
type computer struct {
	key   ed25519.PrivateKey
	nonce byte
}

func newComputer(n byte) *computer {
	return &computer{key: ed25519.NewKeyFromSeed(bytes.Repeat([]byte{n}, 32))}
}

func (c *computer) public() ed25519.PublicKey { return c.key.Public().(ed25519.PublicKey) }
func (c *computer) id() cluster.NodeID        { return cluster.OutsideID(c.public()) }

// signed makes a signed request; change may spoil what is signed.
func (c *computer) signed(w *world, path string, body any, change func(*access.Request, *time.Time)) *http.Request {
	w.t.Helper()
	text, err := json.Marshal(body)
	if err != nil {
		w.t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(w.t.Context(), http.MethodPost, "http://"+w.addr+path, bytes.NewReader(text))
	if err != nil {
		w.t.Fatal(err)
	}
	c.nonce++
	at := w.clock()
	r := access.Request{Cluster: "c1", Method: http.MethodPost, Host: name, Path: path, Body: sha256.Sum256(text), Outside: true}
	if change != nil {
		change(&r, &at)
	}
	p, err := access.Sign(r, c.key, [access.NonceBytes]byte{c.nonce}, at)
	if err != nil {
		w.t.Fatal(err)
	}
	p.Put(req.Header)
	return req
}

func (c *computer) register(token string) api.WorkerRegister {
	return api.WorkerRegister{PublicKey: access.FormatPublicKey(c.public()), Name: "attic", Client: api.GatewayClient, AccessToken: api.Secret(token)}
}

// do sends a request, and reads the answer into out where it is a good one.
func (w *world) do(req *http.Request, out any) (int, api.Problem) {
	w.t.Helper()
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		w.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	var p api.Problem
	if resp.StatusCode >= 400 {
		if err := json.Unmarshal(text, &p); err != nil || p.Status != resp.StatusCode {
			w.t.Fatalf("%d %s", resp.StatusCode, text)
		}
	} else if out != nil {
		if err := json.Unmarshal(text, out); err != nil {
			w.t.Fatalf("%s: %v", text, err)
		}
	}
	return resp.StatusCode, p
}

func (w *world) ask(method, path, token string, body, out any) (int, api.Problem) {
	w.t.Helper()
	text, err := json.Marshal(body)
	if err != nil {
		w.t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(w.t.Context(), method, "http://"+w.addr+path, bytes.NewReader(text))
	if err != nil {
		w.t.Fatal(err)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	return w.do(req, out)
}

// TestClaim: a computer registers, its owner claims it by its code, once; it gets tokens,
// by which it sees itself, until its owner shuts it out.
func TestClaim(t *testing.T) {
	w := start(t, nil)
	w.ready()
	c, ann, bob := newComputer(1), w.token("user:ann", "work"), w.token("user:bob", "work")
	token := func() (int, api.WorkerToken, api.Problem) {
		var out api.WorkerToken
		status, p := w.do(c.signed(w, "/v1/workers/token", api.WorkerTokenRequest{Client: 1}, nil), &out)
		return status, out, p
	}
	var reg api.WorkerRegistered
	if status, p := w.do(c.signed(w, "/v1/workers/register", c.register(""), nil), &reg); status != 201 || reg.Worker != c.id() || reg.State != api.StateUnclaimed || reg.Fingerprint != auth.Fingerprint(c.public()) {
		t.Fatalf("%d %+v %+v", status, reg, p)
	}
	if status, _, p := token(); status != 403 || !strings.Contains(p.Detail, "nobody has claimed") {
		t.Errorf("unclaimed: %d %+v", status, p)
	}
	old := reg.ClaimCode.Reveal()
	if status, _ := w.do(c.signed(w, "/v1/workers/register", c.register(""), nil), &reg); status != 201 || reg.ClaimCode.Reveal() == old {
		t.Fatalf("again: %d", status)
	}
	claim := func(token, code string, out any) (int, api.Problem) {
		return w.ask("POST", "/v1/workers/claim", token, api.WorkerClaim{ClaimCode: api.Secret(code)}, out)
	}
	if status, _ := claim(ann, old, nil); status != 404 {
		t.Errorf("a code that was replaced: %d", status)
	}
	w.fail(api.Errorf(api.CodeNoHolder, "nobody holds the lease"))
	if status, p := claim(ann, reg.ClaimCode.Reveal(), nil); status != 503 || p.RetryAfterSeconds == nil {
		t.Errorf("without a holder: %d %+v", status, p)
	}
	w.fail(nil)
	var got api.WorkerClaimed
	if status, p := claim(ann, strings.ToLower(reg.ClaimCode.Reveal()), &got); status != 200 || got.Worker != c.id() || got.Fingerprint != reg.Fingerprint || got.Name != "attic" {
		t.Fatalf("%d %+v %+v", status, got, p)
	}
	if status, _ := claim(bob, reg.ClaimCode.Reveal(), nil); status != 404 {
		t.Errorf("a used code: %d", status)
	}
	if status, _ := w.do(c.signed(w, "/v1/workers/register", c.register(""), nil), &reg); status != 200 || reg.Owner != "user:ann" {
		t.Errorf("a known one registers: %d %+v", status, reg)
	}
	status, tok, p := token()
	if status != 200 || tok.ExpiresAt.Sub(w.clock()) > auth.TokenLife {
		t.Fatalf("token: %d %+v", status, p)
	}
	var me api.GatewayWorker
	path := "/v1/workers/" + string(c.id())
	for who, text := range map[string]string{"itself": tok.Token.Reveal(), "its owner": ann} {
		if status, p := w.ask("GET", path, text, nil, &me); status != 200 || me.Owner != "user:ann" || me.State != api.StateEnrolled {
			t.Errorf("%s: %d %+v %+v", who, status, me, p)
		}
	}
	if status, _ := w.ask("GET", "/v1/workers/"+string(newComputer(9).id()), tok.Token.Reveal(), nil, nil); status != 404 {
		t.Errorf("another worker: %d", status)
	}
	for _, method := range []string{"GET", "DELETE"} {
		if status, _ := w.ask(method, path, bob, nil, nil); status != 404 {
			t.Errorf("%s by another user: %d", method, status)
		}
	}
	var list api.GatewayWorkers
	if status, _ := w.ask("GET", "/v1/workers", ann, nil, &list); status != 200 || len(list.Workers) != 1 {
		t.Errorf("%d %+v", status, list)
	}
	if status, _ := w.ask("GET", "/v1/workers", bob, nil, &list); status != 200 || len(list.Workers) != 0 {
		t.Errorf("%d %+v", status, list)
	}
	var keys api.JWKS
	if status, _ := w.ask("GET", "/.well-known/jwks.json", "", nil, &keys); status != 200 || len(keys.Keys) != 1 {
		t.Errorf("%d %+v", status, keys)
	}
	w.pass(11 * time.Minute)
	if status, p := w.ask("GET", path, tok.Token.Reveal(), nil, nil); status != 401 || p.ServerTime == nil || !p.ServerTime.Equal(w.clock()) {
		t.Errorf("an old token: %d %+v", status, p)
	}
	if status, _ := w.ask("DELETE", path, ann, nil, nil); status != 200 {
		t.Errorf("delete: %d", status)
	}
	if status, _, p := token(); status != 403 || !strings.Contains(p.Detail, "revoked") {
		t.Errorf("revoked: %d %+v", status, p)
	}
	if status, _ := w.do(c.signed(w, "/v1/workers/register", c.register(""), nil), nil); status != 403 {
		t.Errorf("a revoked one registers: %d", status)
	}
}

// TestRegisterWithToken: with an access token nobody has to claim.
func TestRegisterWithToken(t *testing.T) {
	w := start(t, nil)
	c := newComputer(1)
	if status, _ := w.do(c.signed(w, "/v1/workers/register", c.register(w.token("user:ann", "watch")), nil), nil); status != 403 {
		t.Errorf("a token for watching: %d", status)
	}
	if status, _ := w.do(c.signed(w, "/v1/workers/register", c.register("skt_x"), nil), nil); status != 401 {
		t.Errorf("no token: %d", status)
	}
	var reg api.WorkerRegistered
	if status, p := w.do(c.signed(w, "/v1/workers/register", c.register(w.token("user:ann", "work")), nil), &reg); status != 201 || reg.Owner != "user:ann" || reg.ClaimCode != "" {
		t.Fatalf("%d %+v %+v", status, reg, p)
	}
	w.add("n1", event.KindUserSet, event.UserSet{Name: "ann", Role: "submitter", Disabled: true})
	if status, _ := w.do(c.signed(w, "/v1/workers/token", api.WorkerTokenRequest{Client: 1}, nil), nil); status != 403 {
		t.Errorf("of a disabled owner: %d", status)
	}
}

// TestBadProofs: what was signed for anything else is refused in the same words, with the
// clock of the host, and changes nothing.
func TestBadProofs(t *testing.T) {
	w := start(t, nil)
	w.add("n1", event.KindWorkerEnrolled, event.WorkerEnrolled{Worker: newComputer(1).id(), Key: newComputer(1).public(), Owner: "user:ann", Actor: "uid:0@n1"})
	c, path := newComputer(1), "/v1/workers/register"
	good := c.signed(w, path, c.register(""), nil)
	if status, p := w.do(good.Clone(t.Context()), nil); status != 200 {
		t.Fatalf("%d %+v", status, p)
	}
	bad := map[string]*http.Request{
		"another cluster": c.signed(w, path, c.register(""), func(r *access.Request, _ *time.Time) { r.Cluster = "c2" }),
		"another host":    c.signed(w, path, c.register(""), func(r *access.Request, _ *time.Time) { r.Host = "gw2.example.org" }),
		"another path":    c.signed(w, path, c.register(""), func(r *access.Request, _ *time.Time) { r.Path = "/v1/workers/token" }),
		"another query":   c.signed(w, path, c.register(""), func(r *access.Request, _ *time.Time) { r.Query = "a=1" }),
		"another method":  c.signed(w, path, c.register(""), func(r *access.Request, _ *time.Time) { r.Method = "PUT" }),
		"another body":    c.signed(w, path, c.register(""), func(r *access.Request, _ *time.Time) { r.Body[0]++ }),
		"a slow clock":    c.signed(w, path, c.register(""), func(_ *access.Request, at *time.Time) { *at = at.Add(-access.Window - time.Second) }),
		"a fast clock":    c.signed(w, path, c.register(""), func(_ *access.Request, at *time.Time) { *at = at.Add(access.Window + time.Second) }),
		"a user's":        c.signed(w, path, c.register(""), func(r *access.Request, _ *time.Time) { r.Outside = false }),
		"another's key":   newComputer(2).signed(w, path, c.register(""), nil),
		"not signed":      c.signed(w, path, c.register(""), nil),
		"signed twice":    c.signed(w, path, c.register(""), nil),
	}
	bad["not signed"].Header.Del(access.HeaderSignature)
	bad["signed twice"].Header.Add(access.HeaderNonce, "x")
	replay := c.signed(w, path, c.register(""), nil)
	if status, _ := w.do(replay, nil); status != 200 {
		t.Fatal(status)
	}
	text, err := json.Marshal(c.register(""))
	if err != nil {
		t.Fatal(err)
	}
	replay.Body = io.NopCloser(bytes.NewReader(text))
	// Its key signed it: it is said what is wrong, so that a client whose proxy asks twice can
	// sign anew. It counts as refused all the same.
	if status, p := w.do(replay, nil); status != 409 || p.Code != api.CodeConflict || !strings.Contains(p.Detail, "taken already") || !strings.Contains(p.Hint, "sign it anew") {
		t.Errorf("a replay: %d %+v", status, p)
	}
	said := map[string]bool{}
	for name, req := range bad {
		status, p := w.do(req, nil)
		if status != 401 || p.ServerTime == nil || !p.ServerTime.Equal(w.clock()) {
			t.Errorf("%s: %d %+v", name, status, p)
		}
		said[p.Detail+p.Hint] = true
	}
	if len(said) != 1 {
		t.Errorf("they are told %v", said)
	}
	for range 20 {
		w.do(c.signed(w, path, c.register(""), func(r *access.Request, _ *time.Time) { r.Cluster = "c2" }), nil)
	}
	if status, p := w.do(c.signed(w, path, c.register(""), nil), nil); status != 429 || p.RetryAfterSeconds == nil || *p.RetryAfterSeconds <= 0 {
		t.Errorf("after many bad ones: %d %+v", status, p)
	}
}

// TestBadBodies: each is told what is wrong.
func TestBadBodies(t *testing.T) {
	w := start(t, nil)
	c := newComputer(1)
	reg := func(change func(*api.WorkerRegister)) api.WorkerRegister {
		r := c.register("")
		change(&r)
		return r
	}
	for name, bad := range map[string]struct {
		body any
		code int
		say  string
	}{
		"no object":       {7, 400, "body"},
		"unknown field":   {map[string]any{"public_key": "x", "trusted": true}, 400, "unknown field"},
		"no key":          {reg(func(r *api.WorkerRegister) { r.PublicKey = "" }), 400, "public_key"},
		"a long name":     {reg(func(r *api.WorkerRegister) { r.Name = strings.Repeat("x", 65) }), 400, "name"},
		"a name to cheat": {reg(func(r *api.WorkerRegister) { r.Name = "a\x1b[2J" }), 400, "name"},
		"too old":         {reg(func(r *api.WorkerRegister) { r.Client = 0 }), 400, "client 0 is too old: this gateway serves client 1"},
		"huge":            {reg(func(r *api.WorkerRegister) { r.Name = strings.Repeat("x", maxBody) }), 413, "longer than"},
	} {
		if status, p := w.do(c.signed(w, "/v1/workers/register", bad.body, nil), nil); status != bad.code || !strings.Contains(p.Detail, bad.say) {
			t.Errorf("%s: %d %s", name, status, p.Detail)
		}
	}
	for _, path := range []string{"GET /", "GET /v1/jobs", "POST /v1/info", "GET /v1/workers/register/x", "GET /metrics"} {
		method, path, _ := strings.Cut(path, " ")
		if status, _ := w.ask(method, path, "", nil, nil); status != 404 && status != 401 {
			t.Errorf("%s %s: %d", method, path, status)
		}
	}
	if w.g.guard.Claims() != 0 {
		t.Error("something was begun")
	}
}

// TestGuesses: who guesses claim codes has to wait, and an address registers few.
func TestGuesses(t *testing.T) {
	w := start(t, nil)
	ann := w.token("user:ann", "work")
	for range 5 {
		if status, _ := w.ask("POST", "/v1/workers/claim", ann, api.WorkerClaim{ClaimCode: "AAAAA-AAAAA"}, nil); status != 404 {
			t.Fatal(status)
		}
	}
	if status, p := w.ask("POST", "/v1/workers/claim", ann, api.WorkerClaim{ClaimCode: "AAAAA-AAAAA"}, nil); status != 429 || *p.RetryAfterSeconds < 600 {
		t.Errorf("%d %+v", status, p)
	}
	for n := range byte(6) {
		c := newComputer(10 + n)
		status, _ := w.do(c.signed(w, "/v1/workers/register", c.register(""), nil), nil)
		if want := map[bool]int{true: 201, false: 429}[n < 5]; status != want {
			t.Errorf("registration %d: %d, want %d", n, status, want)
		}
	}
}

// enrol has the log say that a computer is of ann's.
func (w *world) enrol(c *computer) {
	w.add("n1", event.KindWorkerEnrolled, event.WorkerEnrolled{Worker: c.id(), Key: c.public(), Owner: "user:ann", Actor: "uid:0@n1"})
}

func (w *world) tokenOf(c *computer) (int, api.Problem) {
	return w.do(c.signed(w, "/v1/workers/token", api.WorkerTokenRequest{Client: api.GatewayClient}, nil), nil)
}

// TestWaitingForOwners: computers of one address that wait to be claimed, and ask whether
// they were, keep out none that is enrolled.
func TestWaitingForOwners(t *testing.T) {
	w := start(t, nil)
	w.ready()
	good := newComputer(1)
	w.enrol(good)
	for n := range byte(5) {
		c := newComputer(10 + n)
		if status, p := w.do(c.signed(w, "/v1/workers/register", c.register(""), nil), nil); status != 201 {
			t.Fatalf("%d %+v", status, p)
		}
		for range 6 {
			if status, p := w.tokenOf(c); status != 403 {
				t.Fatalf("one that waits: %d %+v", status, p)
			}
		}
		if status, p := w.tokenOf(c); status != 429 || !strings.Contains(p.Detail, "token") {
			t.Errorf("the seventh time at once: %d %+v", status, p)
		}
		if status, _ := w.do(newComputer(100).signed(w, "/v1/workers/token", api.WorkerTokenRequest{Client: api.GatewayClient}, func(r *access.Request, _ *time.Time) { r.Host = "x" }), nil); status != 403 {
			t.Errorf("one that nobody knows: %d", status)
		}
	}
	if status, p := w.tokenOf(good); status != 200 {
		t.Errorf("one that is enrolled: %d %+v", status, p)
	}
}

// fewProofs remembers few of them.
type fewProofs struct {
	*here.Memory
	mu     sync.Mutex
	nonces *access.Nonces
}

func (f *fewProofs) Use(p access.Proof, now time.Time) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.nonces.Use(p, now)
}

func (f *fewProofs) Forget(p access.Proof) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.nonces.Forget(p)
}

// TestRoomForProofs: who is told to wait, or refused, fills no room of those who are let in.
func TestRoomForProofs(t *testing.T) {
	w := start(t, func(o *Options) {
		o.Shared = &fewProofs{Memory: here.New(o.Now, o.Wall()), nonces: access.NewNonces(10, o.Wall())}
	})
	w.ready()
	good, off := newComputer(1), newComputer(2)
	w.enrol(good)
	w.add("n1", event.KindWorkerEnrolled, event.WorkerEnrolled{Worker: off.id(), Key: off.public(), Owner: "user:nobody", Actor: "uid:0@n1"})
	for n := range byte(20) {
		c := newComputer(10 + n)
		if status, _ := w.do(c.signed(w, "/v1/workers/register", c.register(""), nil), nil); status != 201 && status != 429 {
			t.Fatal(status)
		}
		c.nonce = 100
		old := c.register("")
		old.Client = 0
		if status, _ := w.do(c.signed(w, "/v1/workers/register", old, nil), nil); status != 400 {
			t.Fatal(status)
		}
		for _, path := range []string{"/v1/workers/register", "/v1/workers/token"} {
			var body any = off.register("")
			if path == "/v1/workers/token" {
				body = api.WorkerTokenRequest{Client: api.GatewayClient}
			}
			if status, _ := w.do(off.signed(w, path, body, nil), nil); status != 403 && status != 429 {
				t.Fatal(status)
			}
		}
	}
	if status, p := w.tokenOf(good); status != 200 {
		t.Errorf("%d %+v", status, p)
	}
	req := good.signed(w, "/v1/workers/token", api.WorkerTokenRequest{Client: api.GatewayClient}, nil)
	if status, p := w.do(req, nil); status != 200 {
		t.Errorf("%d %+v", status, p)
	}
	again := good.signed(w, "/v1/workers/token", api.WorkerTokenRequest{Client: api.GatewayClient}, nil)
	again.Header = req.Header
	for range 2 { // that it is refused gives nothing back
		again.Body, _ = again.GetBody()
		if status, p := w.do(again, nil); status != 409 {
			t.Errorf("shown again: %d %+v", status, p)
		}
	}
}

// TestSilentConnections: connections that say nothing keep nobody out: their address has a
// bound, and others get in.
func TestSilentConnections(t *testing.T) {
	w := start(t, nil)
	for range 1000 {
		conn, err := net.Dial("tcp", w.addr)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+w.addr+"/v1/info", nil)
	if err != nil {
		t.Fatal(err)
	}
	from := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}
	resp, err := (&http.Client{Transport: &http.Transport{DialContext: from.DialContext, DisableKeepAlives: true}}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != 200 {
		t.Error(resp.Status)
	}
}

// TestTwoAtOneAddress: of two gateways at one URL the one that was opened last has it.
func TestTwoAtOneAddress(t *testing.T) {
	w := start(t, nil)
	w.ready()
	w.pass(time.Minute)
	key := newComputer(7)
	w.add("n2", event.KindGatewayOpened, event.GatewayOpened{URL: "https://" + name, KID: "k", Key: key.public(), Store: "memory", Until: w.clock().Add(time.Hour).Unix()})
	if k := w.g.look(t.Context()); !strings.Contains(k.why, "n2 has opened a gateway at https://"+name) {
		t.Errorf("%+v", k.why)
	}
	w.pass(2 * time.Hour) // its key has ended
	if k := w.g.look(t.Context()); k.why != "" {
		t.Error(k.why)
	}
}

// TestSharedAddress: of gateways that remember together all have a URL, but one that remembers
// alone does not share it.
func TestSharedAddress(t *testing.T) {
	w := start(t, func(o *Options) { o.Shared = here.New(o.Now, o.Wall()) })
	w.ready()
	for _, store := range []string{event.StoreRedis, event.StoreMemory} {
		w.pass(time.Minute)
		w.add("n2", event.KindGatewayOpened, event.GatewayOpened{URL: "https://" + name, KID: "k" + store, Key: newComputer(7).public(), Store: store, Until: w.clock().Add(time.Hour).Unix()})
		k := w.g.look(t.Context())
		if want := map[string]bool{event.StoreMemory: true}[store]; strings.Contains(k.why, "n2 has opened a gateway") != want {
			t.Errorf("another in %s: %q", store, k.why)
		}
	}
}

// TestKey: the key stays over restarts, and is made anew before it ends.
func TestKey(t *testing.T) {
	w := start(t, nil)
	w.ready()
	again := func(change func(*Options)) *Gateway {
		o := w.o
		o.Registerer = prometheus.NewRegistry()
		if change != nil {
			change(&o)
		}
		g, err := New(o)
		if err != nil {
			t.Fatal(err)
		}
		return g
	}
	look := func(g *Gateway) key {
		g.look(t.Context()) // it announces, and may see that only at the next look
		return g.look(t.Context())
	}
	next := again(nil)
	k := look(next)
	if k.why != "" {
		t.Fatal(k.why)
	}
	before := kidOf(k.Key)
	w.pass(keyLife - keyRenew + time.Hour)
	if k = look(next); k.why != "" || kidOf(k.Key) == before {
		t.Errorf("%q: the key is as old as before", k.why)
	}
	if keysOf(next.reg, next.wall())("n1", before) == nil {
		t.Error("tokens of the key before are refused at once")
	}
	later := again(nil)
	if l := look(later); l.why != "" || kidOf(l.Key) != kidOf(k.Key) {
		t.Errorf("%q: a restart made another key", l.why)
	}
	refused := again(func(o *Options) {
		o.Announce = func(context.Context, event.GatewayOpened) error {
			return errors.New("the skein of n3 is too old for it")
		}
	})
	if k := look(refused); !strings.Contains(k.why, "n3 is too old") {
		t.Errorf("%q", k.why)
	}
	damaged := again(func(o *Options) { o.Dir = t.TempDir() })
	if err := os.WriteFile(keyPath(damaged.o.Dir), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if k := look(damaged); !strings.Contains(k.why, "remove it, another is made then") {
		t.Errorf("%q", k.why)
	}
}

// TestFrom: only proxies that are trusted say where a request comes from.
func TestFrom(t *testing.T) {
	g := &Gateway{o: Options{HTTP: HTTP{Proxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}}}
	for _, c := range []struct{ remote, told, want string }{
		{"192.0.2.1:1", "198.51.100.7", "192.0.2.1"},
		{"10.0.0.1:1", "198.51.100.7", "198.51.100.7"},
		{"10.0.0.1:1", "203.0.113.9, 198.51.100.7", "198.51.100.7"},
		{"10.0.0.1:1", "198.51.100.7, 10.0.0.2", "198.51.100.7"},
		{"10.0.0.1:1", "nonsense", "10.0.0.1"},
		{"10.0.0.1:1", "", "10.0.0.1"},
		{"[2001:db8::1]:1", "", "2001:db8::/64"},
		{"10.0.0.1:1", "2001:db8::7", "2001:db8::/64"},
	} {
		r := &http.Request{RemoteAddr: c.remote, Header: http.Header{"X-Forwarded-For": {c.told}}}
		if got := g.from(r); got != c.want {
			t.Errorf("%s with %q: %s, want %s", c.remote, c.told, got, c.want)
		}
	}
}

// FuzzFrom: whatever is said to be before a proxy, a request comes from somewhere, and from
// where it was sent if no proxy that is trusted sent it.
func FuzzFrom(f *testing.F) {
	f.Add("10.0.0.1:1", "203.0.113.9, 198.51.100.7")
	f.Add("192.0.2.1:1", "198.51.100.7")
	f.Add("[2001:db8::1]:1", ",, ::ffff:10.0.0.2 ,")
	f.Add("", "")
	g := &Gateway{o: Options{HTTP: HTTP{Proxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}}}
	f.Fuzz(func(t *testing.T, remote, told string) {
		sent := g.from(&http.Request{RemoteAddr: remote, Header: http.Header{}})
		got := g.from(&http.Request{RemoteAddr: remote, Header: http.Header{"X-Forwarded-For": {told}}})
		host, _, err := net.SplitHostPort(remote)
		if (err != nil || !g.trusted(host)) && got != sent || len(got) > max(len(remote), len(told), 64) {
			t.Errorf("from %q by %q: %q, want %q", told, remote, got, sent)
		}
	})
}
