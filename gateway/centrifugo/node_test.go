package centrifugo

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/gateway/auth"
	"github.com/skein-project/skein/gateway/channel"
)

const (
	apiKey    = "key of the API, which is long"
	newSecret = "secret-number-two-which-is-long"
	oldSecret = "secret-number-one-which-is-long"
)

var (
	mine   = cluster.OutsideID([]byte("my key"))
	others = cluster.OutsideID([]byte("another key"))

	signingKey = ed25519.NewKeyFromSeed(bytes.Repeat([]byte{1}, ed25519.SeedSize))
)

// office is a Node and those whom it asks.
type office struct {
	*Node
	t    *testing.T
	url  string // of the proxies
	addr string

	mu    sync.Mutex // for what follows
	log   bytes.Buffer
	shut  map[cluster.NodeID]error
	calls []string
	call  func() (any, *api.Problem)
	at    time.Duration // the clock is ahead by
	heard []string      // who began to listen, or went on
	deaf  error
}

// newOffice makes one that asks the API at url, and has not begun.
func newOffice(t *testing.T, url string) *office {
	t.Helper()
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() }) // it may be closed
	began := time.Now()
	o := &office{t: t, addr: l.Addr().String(), url: "http://" + l.Addr().String(), shut: map[cluster.NodeID]error{}}
	o.call = func() (any, *api.Problem) { return api.WorkSeq{Seq: 7}, nil }
	if o.Node, err = New(Options{
		API: url, KeyFile: write("key", strings.ReplaceAll(apiKey, " ", "-")+"\n"), SecretFile: write("secret", newSecret+"\n"+oldSecret+"\n"),
		Open: func(context.Context) (net.Listener, error) { return l, nil },
		Keys: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			public := signingKey.Public().(ed25519.PublicKey)
			_ = json.NewEncoder(w).Encode(map[string]any{"keys": []any{auth.PublicJWK(auth.KID(public), public)}})
		}),
		Stays: func(c auth.Client) error {
			o.mu.Lock()
			defer o.mu.Unlock()
			w, _ := c.Worker()
			return o.shut[w]
		},
		Listen: func(c auth.Client, name string) *channel.Error {
			by := channel.Listener{Roles: []string{"watch"}, Owner: "user:ann"}
			by.Worker, _ = c.Worker()
			return channel.Listen(by, name, func(job.ID) string { return "user:ann" })
		},
		Ears: o,
		Call: func(w cluster.NodeID, conn, method string, request []byte) (any, *api.Problem) {
			o.mu.Lock()
			defer o.mu.Unlock()
			o.calls = append(o.calls, fmt.Sprintf("%s %q %s %s", w, conn, method, request))
			return o.call()
		},
		Life: 10 * time.Minute,
		Now: func() time.Duration {
			o.mu.Lock()
			defer o.mu.Unlock()
			return time.Since(began) + time.Hour + o.at
		},
		Wall: time.Now, Logger: zerolog.New(o),
	}); err != nil {
		t.Fatal(err)
	}
	return o
}

// Write takes what is logged.
func (o *office) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.log.Write(p)
}

// Hear notes who listens.
func (o *office) Hear(name string, anew bool) (bool, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.heard = append(o.heard, fmt.Sprint(name, " ", anew))
	return len(o.heard) < 5, o.deaf
}

// Heard has no use for it.
func (o *office) Heard() ([]channel.Ear, error) { return nil, nil }

// logged is what was.
func (o *office) logged() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.log.String()
}

// called is what workers asked.
func (o *office) called() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.calls)
}

// answers has what workers ask answered so.
func (o *office) answers(call func() (any, *api.Problem)) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.call = call
}

// ahead sets the clock forward by d, of when it was made.
func (o *office) ahead(d time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.at = d
}

func (o *office) begin() {
	o.t.Helper()
	if err := o.Start(); err != nil {
		o.t.Fatal(err)
	}
	o.t.Cleanup(o.Stop)
}

func (o *office) shutOut(w cluster.NodeID, why error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.shut[w] = why
}

// ask asks a proxy as Centrifugo does.
func (o *office) ask(name, secret, body string) (int, map[string]json.RawMessage) {
	o.t.Helper()
	req, err := http.NewRequestWithContext(o.t.Context(), http.MethodPost, o.url+"/proxy/"+name, strings.NewReader(body))
	if err != nil {
		o.t.Fatal(err)
	}
	req.Header.Set(SecretHeader, secret)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		o.t.Fatal(err)
	}
	defer resp.Body.Close()
	out := map[string]json.RawMessage{}
	text, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode == http.StatusOK {
		err = json.Unmarshal(text, &out)
	}
	if err != nil {
		o.t.Fatal(err)
	}
	return resp.StatusCode, out
}

// server is the API of a Centrifugo, which does what it is told to.
type server struct {
	*httptest.Server
	mu      sync.Mutex
	told    []string            // of each command that it took
	refuses func(i int) *answer // by how many commands it was asked before; nil: it takes it
	down    int                 // so many requests are answered 503
	asked   int
	slow    chan struct{} // if not nil, a batch waits for it
}

type answer struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

func newServer(t *testing.T) *server {
	t.Helper()
	s := &server{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-API-Key") != strings.ReplaceAll(apiKey, " ", "-") {
			http.Error(w, "who", http.StatusUnauthorized)
			return
		}
		switch r.URL.Path {
		case "/api/info":
			fmt.Fprint(w, `{"result":{"nodes":[{"num_clients":3},{"num_clients":4}]}}`)
			return
		case "/api/history":
			fmt.Fprint(w, `{"result":{}}`)
			return
		case "/api/batch":
		default:
			http.NotFound(w, r)
			return
		}
		if s.slow != nil {
			<-s.slow
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.down > 0 {
			s.down--
			http.Error(w, "down", http.StatusServiceUnavailable)
			return
		}
		var in struct {
			Commands []map[string]json.RawMessage `json:"commands"`
		}
		if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		replies := []map[string]any{}
		for _, c := range in.Commands {
			var refused *answer
			if s.refuses != nil {
				refused = s.refuses(s.asked)
			}
			s.asked++
			if refused != nil {
				replies = append(replies, map[string]any{"error": refused})
				continue
			}
			for name, text := range c {
				s.told = append(s.told, name+" "+string(text))
				replies = append(replies, map[string]any{name: struct{}{}})
			}
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"replies": replies})
	}))
	t.Cleanup(s.Close)
	return s
}

// has waits until it was told n commands.
func (s *server) has(t *testing.T, n int) []string {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(time.Millisecond) {
		s.mu.Lock()
		told := slices.Clone(s.told)
		s.mu.Unlock()
		if len(told) >= n {
			return told
		}
		if time.Now().After(end) {
			t.Fatalf("%d commands, want %d: %s", len(told), n, told)
		}
	}
}

// seqs are the numbers of the pushes that a worker was told.
func seqs(told []string, w cluster.NodeID) (out []int) {
	for _, text := range told {
		var p struct {
			Channel string       `json:"channel"`
			Data    api.WorkPush `json:"data"`
		}
		if rest, ok := strings.CutPrefix(text, "publish "); ok && json.Unmarshal([]byte(rest), &p) == nil && p.Channel == api.WorkChannel+string(w) {
			out = append(out, int(p.Data.Seq))
		}
	}
	return out
}

// TestPushOrder: what a worker is told comes whole and in its order, in few requests, also if
// the API was down for a while.
func TestPushOrder(t *testing.T) {
	s := newServer(t)
	s.down = 3
	o := newOffice(t, s.URL+"/api")
	o.begin()
	for i := 1; i <= 1000; i++ {
		o.Push(mine, api.WorkPush{V: 1, Type: "stop", Seq: uint64(i)})
		o.Push(others, api.WorkPush{V: 1, Type: "stop", Seq: uint64(i)})
	}
	told := s.has(t, 2000)
	for _, w := range []cluster.NodeID{mine, others} {
		got := seqs(told, w)
		if len(got) != 1000 || !slices.IsSorted(got) || got[0] != 1 || got[999] != 1000 {
			t.Errorf("%s: %d pushes: %v", w, len(got), got)
		}
	}
	if n := o.queue.waiting.Load() + o.queue.bytes.Load(); n != 0 {
		t.Errorf("%d wait still", n)
	}
}

// TestPushRefused: what fails for now is tried again, unless something later got through;
// what is refused is not.
func TestPushRefused(t *testing.T) {
	s := newServer(t)
	o := newOffice(t, s.URL+"/api")
	push := func(seq uint64) { o.Push(mine, api.WorkPush{V: 1, Type: "stop", Seq: seq}) }
	s.slow = make(chan struct{})
	o.begin()
	for seq := uint64(1); seq <= 4; seq++ { // the first may be on its way alone
		push(seq)
	}
	failed := map[int]bool{}
	s.refuses = func(i int) *answer {
		if failed[i] = i < 1; failed[i] { // the very first
			return &answer{100, "internal server error"}
		}
		return nil
	}
	close(s.slow)
	got := seqs(s.has(t, 3), mine)
	if !slices.IsSorted(got) {
		t.Errorf("%v", got)
	}
	s.mu.Lock()
	s.refuses = func(int) *answer { return &answer{102, "unknown channel"} }
	s.mu.Unlock()
	push(5)
	for end := time.Now().Add(20 * time.Second); o.queue.waiting.Load() > 0; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("what is refused waits for ever")
		}
	}
	if n := len(s.has(t, 0)); n > 4 {
		t.Errorf("%d commands", n)
	}
}

// TestLeft: of a batch that partly failed only what nothing later outran is tried again.
func TestLeft(t *testing.T) {
	o := newOffice(t, "http://127.0.0.1:1/api")
	of := func(w cluster.NodeID, seq string) item {
		return item{command: command{Publish: &publish{Channel: seq}}, to: string(w)}
	}
	batch := []item{of(mine, "1"), of(others, "1"), of(mine, "2"), of(others, "2"), of(mine, "3"), of(others, "3")}
	busy, never := reply{&apiError{Code: codeInternal}}, reply{&apiError{Code: 107}}
	// mine: 1 failed and was outrun by 2, 3 failed; of the other 2 was refused, all else failed.
	left := o.left(batch, []reply{busy, busy, {}, never, busy, busy})
	var got []string
	for _, x := range left {
		got = append(got, x.Publish.Channel)
	}
	if want := []string{"1", "3", "3"}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// TestPushLate: what cannot be told is dropped when it is too old, and what finds no room at
// once; nothing is held for ever.
func TestPushLate(t *testing.T) {
	o := newOffice(t, "http://127.0.0.1:1/api") // nobody is there
	o.begin()
	for i := range 2 * maxWaiting {
		o.Push(mine, api.WorkPush{V: 1, Type: "stop", Seq: uint64(i)})
	}
	if n := o.queue.waiting.Load(); n > maxWaiting+batchMost || n < maxWaiting {
		t.Errorf("%d wait", n)
	}
	o.ahead(pushTime + time.Second)
	for end := time.Now().Add(20 * time.Second); o.queue.waiting.Load() > 0; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d wait still", o.queue.waiting.Load())
		}
	}
	if n := o.queue.bytes.Load(); n != 0 {
		t.Errorf("%d bytes wait", n)
	}
}

// TestEnd: who is to be disconnected is named as its token does, with why.
func TestEnd(t *testing.T) {
	s := newServer(t)
	o := newOffice(t, s.URL+"/api")
	o.begin()
	o.ask("rpc", newSecret, `{"user":"`+string(auth.OfWorker(mine))+`","method":"beat","data":{}}`)
	if got := o.Clients(); !slices.Equal(got, []auth.Client{auth.OfWorker(mine)}) {
		t.Errorf("who asked: %v", got)
	}
	o.End(auth.OfWorker(mine), "", api.Disconnect{Code: api.DisconnectRevoked, Reason: strings.Repeat("revoked ", 40)})
	told := s.has(t, 1)
	want := `disconnect {"user":"w:` + string(mine) + `","disconnect":{"code":4501,"reason":"` + strings.Repeat("revoked ", 40)[:api.MaxDisconnectReason] + `"}}`
	if told[0] != want {
		t.Errorf("%s\nwant %s", told[0], want)
	}
	if got := o.Clients(); len(got) != 0 {
		t.Errorf("who was put out is there still: %v", got)
	}
}

// TestProxies: what Centrifugo asks is answered in its words.
func TestProxies(t *testing.T) {
	o := newOffice(t, "http://127.0.0.1:1/api")
	o.begin()
	is := func(name, body, part, want string) {
		t.Helper()
		status, got := o.ask(name, newSecret, body)
		if status != 200 || len(got) != 1 || string(got[part]) != want {
			t.Errorf("%s %s: %d %s, want %s %s", name, body, status, got, part, want)
		}
	}
	me := `"user":"` + string(auth.OfWorker(mine)) + `"`
	is("connect", `{"client":"x"}`, "disconnect", `{"code":3500,"reason":"invalid token"}`)
	is("subscribe", `{`+me+`,"channel":"node:`+string(mine)+`"}`, "result", `{}`)
	is("subscribe", `{`+me+`,"channel":"node:`+string(others)+`"}`, "error", `{"code":103,"message":"permission denied"}`)
	is("subscribe", `{`+me+`,"channel":"cluster"}`, "error", `{"code":103,"message":"permission denied"}`)
	is("subscribe", `{`+me+`,"channel":"clusters"}`, "error", `{"code":102,"message":"unknown channel"}`)
	is("subscribe", `{"user":"u:ann","channel":"node:`+string(mine)+`"}`, "disconnect", `{"code":3500,"reason":"invalid token"}`)
	is("rpc", `{`+me+`,"client":"c","method":"beat","data":{"session":"1"},"something":"new"}`, "result", `{"data":{"seq":"7"}}`)
	if want := fmt.Sprintf("%s \"\" beat {\"session\":\"1\"}", mine); !slices.Equal(o.called(), []string{want}) {
		t.Errorf("%v, want %s", o.called(), want)
	}
	o.answers(func() (any, *api.Problem) { return nil, api.Errorf(api.CodeConflict, "over") })
	is("rpc", `{`+me+`,"method":"beat","data":{}}`, "error", `{"code":1409,"message":"over"}`)
	o.answers(func() (any, *api.Problem) { return nil, api.Errorf(api.CodeNotReady, "later") })
	is("rpc", `{`+me+`,"method":"beat","data":{}}`, "error", `{"code":1503,"message":"later","temporary":true}`)
	status, got := o.ask("refresh", newSecret, `{`+me+`}`)
	var until struct {
		At int64 `json:"expire_at"`
	}
	if err := json.Unmarshal(got["result"], &until); err != nil || status != 200 || time.Until(time.Unix(until.At, 0)).Round(time.Minute) != 10*time.Minute {
		t.Errorf("refresh: %d %s", status, got)
	}
	o.shutOut(mine, &api.Disconnect{Code: api.DisconnectRevoked, Reason: "revoked"})
	for _, name := range []string{"subscribe", "rpc"} {
		is(name, `{`+me+`,"channel":"node:`+string(mine)+`","method":"beat"}`, "disconnect", `{"code":4501,"reason":"revoked"}`)
	}
	is("refresh", `{`+me+`}`, "result", `{"expired":true}`)
	o.shutOut(mine, api.Errorf(api.CodeNotReady, "not known yet"))
	is("subscribe", `{`+me+`,"channel":"node:`+string(mine)+`"}`, "error", `{"code":1503,"message":"not known yet","temporary":true}`)
	o.shutOut(mine, errors.New("the log is broken"))
	is("rpc", `{`+me+`,"method":"beat"}`, "error", `{"code":1500,"message":"it failed: the host's log says why"}`)
	if !strings.Contains(o.logged(), "the log is broken") {
		t.Error("the log does not say why")
	}
}

// TestProxiesOfListeners: who listens by an access token does so for a while at a time, and
// asks nothing.
func TestProxiesOfListeners(t *testing.T) {
	o := newOffice(t, "http://127.0.0.1:1/api")
	o.begin()
	is := func(name, channel, part, want string) {
		t.Helper()
		status, got := o.ask(name, newSecret, `{"user":"u:abcdefghijklmnop","channel":"`+channel+`","method":"beat","data":{}}`)
		if text := string(got[part]); status != 200 || len(got) != 1 || text != want && (want != "" || !strings.HasPrefix(text, `{"expire_at":`)) {
			t.Errorf("%s %s: %d %s, want %s %s", name, channel, status, got, part, want)
		}
	}
	is("subscribe", "cluster", "result", "")
	is("sub_refresh", "cluster", "result", "")
	is("subscribe", "user:#u:ann", "result", "")
	is("subscribe", "user:#u:bob", "error", `{"code":103,"message":"permission denied"}`)
	is("sub_refresh", "user:#u:bob", "result", `{"expired":true}`)
	is("rpc", "", "error", `{"code":1403,"message":"only a worker asks for this"}`)
	o.mu.Lock()
	if want := []string{"cluster true", "cluster false", "user:#u:ann true"}; !slices.Equal(o.heard, want) {
		t.Errorf("%q, want %q", o.heard, want)
	}
	o.heard, o.deaf = nil, errors.New("nobody knows")
	o.mu.Unlock()
	is("subscribe", "cluster", "error", `{"code":1503,"message":"nobody knows","temporary":true}`)
	is("sub_refresh", "cluster", "result", "") // who listens does so on
	o.mu.Lock()
	o.heard, o.deaf = make([]string, 10), nil
	o.mu.Unlock()
	is("subscribe", "cluster", "error", `{"code":1429,"message":"too many channels are listened to","temporary":true}`)
}

// TestProxySecret: who does not show one of the secrets learns nothing, and what is too long
// or no question is not looked at.
func TestProxySecret(t *testing.T) {
	o := newOffice(t, "http://127.0.0.1:1/api")
	o.begin()
	me := `{"user":"` + string(auth.OfWorker(mine)) + `","method":"beat","data":{}}`
	for secret, want := range map[string]int{newSecret: 200, oldSecret: 200, "": 401, newSecret + "x": 401, newSecret[1:]: 401, newSecret + "\n" + oldSecret: 401} {
		if strings.Contains(secret, "\n") {
			continue // no header has a line's end
		}
		if status, _ := o.ask("rpc", secret, me); status != want {
			t.Errorf("%q: %d, want %d", secret, status, want)
		}
	}
	if status, _ := o.ask("rpc", newSecret, `{"data":"`+strings.Repeat("x", maxBody)+`"}`); status != 413 {
		t.Errorf("a body that is too long: %d", status)
	}
	if status, _ := o.ask("rpc", newSecret, `[]`); status != 400 {
		t.Errorf("no question: %d", status)
	}
	if status, _ := o.ask("publish", newSecret, me); status != 404 {
		t.Errorf("what is not asked here: %d", status)
	}
	// The secret is changed while it runs.
	third := "secret-number-three-which-is-long"
	if err := os.WriteFile(o.o.SecretFile, []byte(third+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	o.ahead(rereadTime)
	for secret, want := range map[string]int{third: 200, newSecret: 401} {
		if status, _ := o.ask("rpc", secret, me); status != want {
			t.Errorf("after the change, %q: %d, want %d", secret, status, want)
		}
	}
	// It is gone for a moment: the last one is good.
	if err := os.Remove(o.o.SecretFile); err != nil {
		t.Fatal(err)
	}
	o.ahead(2 * rereadTime)
	if status, _ := o.ask("rpc", third, me); status != 200 {
		t.Errorf("while the file is not there: %d", status)
	}
}

// TestAskedTooOften: who asks far too often is put out.
func TestAskedTooOften(t *testing.T) {
	o := newOffice(t, "http://127.0.0.1:1/api")
	now := time.Hour
	o.o.Now = func() time.Duration { return now }
	q := asked{User: auth.OfWorker(mine), Method: "beat", Data: []byte("{}")}
	for i := range int(channel.Asking.Burst) {
		if s := o.rpc(q); s.Disconnect != nil {
			t.Fatalf("after %d: %+v", i, s.Disconnect)
		}
	}
	if s := o.rpc(q); s.Disconnect == nil || s.Disconnect.Code != uint32(api.DisconnectLimit) {
		t.Errorf("%+v", s)
	}
}

// TestReadSecrets: what is no secret says so.
func TestReadSecrets(t *testing.T) {
	dir := t.TempDir()
	for text, want := range map[string]string{
		"": "is empty", "\n \n": "is empty", "short\n": "at least 20", strings.Repeat("x", 5000): "longer than", oldSecret + "\n" + newSecret + "\n" + newSecret: "3 lines",
		oldSecret + "\nshort": "line 2",
	} {
		path := filepath.Join(dir, "secret")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadSecrets(path, 2); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), oldSecret) {
			t.Errorf("%.40q: %v, want %q", text, err, want)
		}
	}
	if _, err := ReadSecrets(filepath.Join(dir, "none"), 1); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}

// TestNoCentrifugo: what is wrong with the API is said in words that help.
func TestNoCentrifugo(t *testing.T) {
	for what, tc := range map[string]struct {
		handler http.HandlerFunc
		want    string
	}{
		"another key": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(401) }, "api_key must be the same"},
		"nothing":     {http.NotFound, "api_handler_prefix"},
		"a page":      {func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>") }, "no Centrifugo v5"},
		"an error": {func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, `{"error":{"code":107,"message":"bad request"}}`)
		}, "107: bad request"},
		"another": {func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{}`) }, "0 of 1"},
	} {
		srv := httptest.NewServer(tc.handler)
		o := newOffice(t, srv.URL+"/api")
		_, err := o.api.batch(t.Context(), []command{{Publish: &publish{Channel: "x", Data: []byte("{}")}}})
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", what, err, tc.want)
		}
		srv.Close()
	}
}
