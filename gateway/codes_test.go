package gateway

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/centrifugal/centrifuge-go"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/gateway/auth"
	"github.com/skein-project/skein/gateway/desk"
	"github.com/skein-project/skein/scheduler/stream"
)

// smallFloor is a floor with room for two workers and few results.
func smallFloor(t *testing.T) *floor {
	t.Helper()
	return startFloorWith(t, desk.Options{Workers: 2, ResultBytes: 1000})
}

// TestCodesOverConnection: each refusal has its code, says what is wrong, and whether to try
// again helps.
func TestCodesOverConnection(t *testing.T) {
	f := smallFloor(t)
	id, token := f.hired(1)
	c, _ := f.listen(id, token)
	expect := func(what, method string, in any, code uint32, again bool, part string) {
		t.Helper()
		if got, temporary, says := over(t, c, method, in, nil); got != code || temporary != again || !strings.Contains(says, part) {
			t.Errorf("%s: %d %v %q, want %d %v %q", what, got, temporary, says, code, again, part)
		}
	}
	expect("before it attached", api.RPCBeat, api.WorkBeat{WorkSession: api.WorkSession{Session: 1}}, 1409, false, "session is over")
	var st api.WorkState
	if code, _, says := over(t, c, api.RPCAttach, attaching(), &st); code != 0 {
		t.Fatal(says)
	}
	session := api.WorkSession{Session: st.Session}
	f.hear(func(x stream.Frame) bool { return x.Join != nil })
	spec := f.spec()
	f.give(id, spec, 0, 1, 2, 3)
	for n := byte(2); n <= 3; n++ { // the third finds no room
		other, otherToken := f.hired(n)
		d, _ := f.listen(other, otherToken)
		if code, again, says := over(t, d, api.RPCAttach, attaching(), nil); n == 2 && code != 0 || n == 3 && (code != 1503 || !again) {
			t.Errorf("worker %d: %d %v %q", n, code, again, says)
		}
	}
	results := func(chunks ...int) api.WorkResults {
		out := api.WorkResults{WorkSession: session}
		for _, c := range chunks {
			out.Results = append(out.Results, api.WorkResult{Attempt: ref(c), Output: output})
		}
		return out
	}
	many := make([]int, desk.MaxResults+1)
	both := results(0)
	both.Results[0].Error = "and an error"
	negative := results(0)
	negative.Results[0].Seconds = -1
	expect("no method", "steal", session, 1404, false, "no method")
	expect("another session", api.RPCBye, api.WorkSession{Session: 1}, 1409, false, "session")
	expect("too many results at once", api.RPCComplete, results(many...), 1400, false, "65 results")
	expect("unknown field", api.RPCBeat, map[string]any{"session": fmt.Sprint(st.Session), "owner": "user:bob"}, 1400, false, "unknown field")
	expect("a negative time", api.RPCComplete, negative, 1400, false, "")
	expect("more than there is room for", api.RPCComplete, results(0, 1, 2, 3), 1503, true, "wait for the holder")
	old := attaching()
	old.Client = 0
	expect("too old", api.RPCAttach, old, 1400, false, "client 0 is too old: this gateway serves client 1")
	f.add("n1", event.KindUserSet, event.UserSet{Name: "ann", Role: "submitter", Disabled: true})
	expect("a disabled owner", api.RPCAssigned, session, 1403, false, "may do nothing")
	f.add("n1", event.KindUserSet, event.UserSet{Name: "ann", Role: "submitter"})
	f.add("n1", event.KindWorkerRevoked, event.WorkerRevoked{Worker: id, Actor: "uid:0@n1"})
	expect("revoked", api.RPCAssigned, session, 1403, false, "revoked")
}

// TestResultsOfOthers: what was given to another is not taken, and the holder hears nothing
// of it.
func TestResultsOfOthers(t *testing.T) {
	f := startFloor(t)
	id, token := f.hired(1)
	thief, thiefs := f.hired(2)
	var own, its api.WorkState
	for token, st := range map[string]*api.WorkState{token: &own, thiefs: &its} {
		if status, p := f.rpc(token, api.RPCAttach, attaching(), st); status != 200 {
			t.Fatalf("%d %+v", status, p)
		}
	}
	_, pushes := f.listen(id, token)
	f.give(id, f.spec(), 0)
	next(t, pushes)
	stolen := api.WorkResults{WorkSession: api.WorkSession{Session: its.Session}, Results: []api.WorkResult{{Attempt: ref(0), Output: output}}}
	var v api.WorkVerdicts
	if status, p := f.rpc(thiefs, api.RPCComplete, stolen, &v); status != 200 || !slices.Equal(v.Verdicts, []string{"unknown"}) {
		t.Errorf("%d %+v %v", status, p, v.Verdicts)
	}
	stolen.Session = own.Session
	if status, _ := f.rpc(thiefs, api.RPCComplete, stolen, nil); status != 409 {
		t.Errorf("in the session of the other: %d", status)
	}
	if status, p := f.rpc(token, api.RPCComplete, stolen, &v); status != 200 || !slices.Equal(v.Verdicts, []string{"taken"}) {
		t.Errorf("its own: %d %+v %v", status, p, v.Verdicts)
	}
	if x := f.hear(func(x stream.Frame) bool { return x.Result != nil }); x.Worker != id {
		t.Errorf("the holder hears of %s, which is not %s but maybe %s", x.Worker, id, thief)
	}
}

// dial opens a connection, and says how it goes: 0 is that it is open, all else the code of
// the error or by which it was ended.
func (f *floor) dial(token string) (*centrifuge.Client, chan uint32) {
	f.t.Helper()
	c := centrifuge.NewJsonClient(f.realtime(), centrifuge.Config{Token: token, HandshakeTimeout: 10 * time.Second, ReadTimeout: 10 * time.Second})
	f.t.Cleanup(c.Close)
	said, up := make(chan uint32, 10), false
	c.OnConnected(func(centrifuge.ConnectedEvent) { up = true; said <- 0 })
	c.OnConnecting(func(e centrifuge.ConnectingEvent) {
		if up {
			up = false
			said <- e.Code
		}
	})
	c.OnError(func(e centrifuge.ErrorEvent) {
		if p, ok := errors.AsType[*centrifuge.Error](e.Error); ok {
			said <- p.Code
		}
	})
	c.OnDisconnected(func(e centrifuge.DisconnectedEvent) { said <- e.Code })
	if err := c.Connect(); err != nil {
		f.t.Fatal(err)
	}
	return c, said
}

// says waits for what is said of a connection.
func (f *floor) says(what string, said chan uint32, want uint32) {
	f.t.Helper()
	select {
	case got := <-said:
		if got != want {
			f.t.Errorf("%s: %d, want %d", what, got, want)
		}
	case <-time.After(20 * time.Second):
		f.t.Errorf("%s: nothing", what)
	}
}

// TestShutOut: who is revoked, or whose owner is disabled, loses all its connections within
// a second, is told not to come again, and is not let in by the token that it still has;
// all others stay.
func TestShutOut(t *testing.T) {
	f := startFloor(t)
	anns, annsToken := f.hired(1)
	bob := newComputer(2)
	f.add("n1", event.KindWorkerEnrolled, event.WorkerEnrolled{Worker: bob.id(), Key: bob.public(), Owner: "user:bob", Actor: "token:x@n1"})
	var bobs api.WorkerToken
	if status, p := f.do(bob.signed(f.world, "/v1/workers/token", api.WorkerTokenRequest{Client: 1}, nil), &bobs); status != 200 {
		t.Fatalf("%d %+v", status, p)
	}
	_, others := f.hired(3)
	open := func(token string) chan uint32 {
		_, said := f.dial(token)
		f.says("it connects", said, 0)
		return said
	}
	revoked, twice, disabled, stays := open(annsToken), open(annsToken), open(bobs.Token.Reveal()), open(others)
	within := func(what string, said ...chan uint32) {
		t.Helper()
		began := time.Now()
		for _, s := range said {
			f.says(what, s, uint32(api.DisconnectRevoked))
		}
		if took := time.Since(began); took > time.Second {
			t.Errorf("%s: after %v", what, took)
		}
	}
	f.add("n1", event.KindWorkerRevoked, event.WorkerRevoked{Worker: anns, Actor: "uid:0@n1"})
	within("revoked", revoked, twice)
	f.add("n1", event.KindUserSet, event.UserSet{Name: "bob", Role: "submitter", Disabled: true})
	within("of a disabled owner", disabled)
	for what, token := range map[string]string{"revoked": annsToken, "of a disabled owner": bobs.Token.Reveal()} {
		_, said := f.dial(token)
		f.says(what+", once more", said, uint32(api.DisconnectRevoked))
		if status, p := f.rpc(token, api.RPCAttach, attaching(), nil); status != 403 {
			t.Errorf("%s attaches by HTTP: %d %+v", what, status, p)
		}
		if status, p := f.ask("GET", "/v1/artefacts/"+f.spec().Artefact.String(), token, nil, nil); status != 403 {
			t.Errorf("%s fetches: %d %+v", what, status, p)
		}
	}
	stranger, _, err := f.g.key.Load().Mint(newComputer(9).id(), "id", f.clock())
	if err != nil {
		t.Fatal(err)
	}
	_, unknown := f.dial(stranger)
	f.says("whom this gateway has yet to hear of", unknown, 1503)
	f.add("n1", event.KindUserSet, event.UserSet{Name: "bob", Role: "submitter"})
	open(bobs.Token.Reveal())
	f.counted(map[string]float64{"skein_gateway_disconnects_total 4501": 5, "skein_gateway_disconnects_total 4101": 0})
	select {
	case code := <-stays:
		t.Errorf("one that nobody shut out is disconnected: %d", code)
	default:
	}
}

// TestDisconnects: how connections are ended, and whether to connect again helps: codes
// from 3500 to 3999 and from 4500 say that it does not.
func TestDisconnects(t *testing.T) {
	f := startFloor(t)
	id, token := f.hired(1)
	var open []chan uint32
	for range 4 {
		_, ended := f.dial(token)
		f.says("a connection", ended, 0)
		open = append(open, ended)
	}
	fifth, said := f.dial(token)
	f.says("a fifth connection of one worker", said, 1429)
	fifth.Close()
	_, bad := f.dial(token[:len(token)-2])
	f.says("a token that is cut off", bad, 3500)
	_, owner := f.dial(f.token("user:ann", "work"))
	f.says("the token of an owner", owner, 3500)

	f.pass(auth.TokenLife)
	_, late := f.dial(token)
	f.says("a token that has ended", late, 109) // by which clients get another
	other, others := f.hired(2)
	c, long := f.dial(others)
	f.says("of another worker", long, 0)
	for _, channel := range []string{api.WorkChannel + string(id), "cluster", "job:" + string(testJob), "user:#u:ann", strings.Repeat("x", 300)} {
		sub, err := c.NewSubscription(channel)
		if err != nil {
			t.Fatal(err)
		}
		refused := make(chan uint32, 10)
		sub.OnUnsubscribed(func(e centrifuge.UnsubscribedEvent) { refused <- e.Code })
		sub.OnSubscribed(func(centrifuge.SubscribedEvent) { refused <- 0 })
		sub.OnError(func(e centrifuge.SubscriptionErrorEvent) {
			if p, ok := errors.AsType[centrifuge.SubscriptionSubscribeError](e.Error); ok {
				if p, ok := errors.AsType[*centrifuge.Error](p.Err); ok {
					refused <- p.Code
				}
			}
		})
		if err := sub.Subscribe(); err != nil {
			t.Fatal(err)
		}
		select {
		case got := <-refused:
			if got == 0 {
				t.Errorf("%s listens to %.60s", other, channel)
			}
		case <-long:
			t.Errorf("disconnected for asking for %.60s", channel)
		case <-time.After(20 * time.Second):
			t.Errorf("%.60s: no answer", channel)
		}
		_ = sub.Unsubscribe() // it may be over
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if got, again, text := over(t, c, api.RPCComplete, json.RawMessage(`"`+strings.Repeat("x", api.MaxCall)+`"`), nil); got != 1413 || again || !strings.Contains(text, "/v1/rpc/complete") {
		t.Errorf("a request that is too long: %d %v %q", got, again, text)
	}
	if _, err := rpcOver(ctx, c, api.RPCComplete, bytes.Repeat([]byte(" "), 100<<10)); err == nil {
		t.Error("a message that is too long is answered")
	}
	select {
	case got := <-long:
		if got >= 3500 {
			t.Errorf("after a message that is too long it is told not to come again: %d", got)
		}
	case <-time.After(20 * time.Second):
		t.Error("a message that is too long is read on")
	}
	f.stop()
	for _, ended := range open {
		f.says("the gateway stops", ended, uint32(api.DisconnectStopping))
	}
}

// TestReplaced: of two connections that work as one worker the later one does, and the
// other is told not to come again; who begins anew over its own connection keeps it.
func TestReplaced(t *testing.T) {
	f := startFloor(t)
	_, token := f.hired(1)
	first, firstSaid := f.dial(token)
	f.says("it connects", firstSaid, 0)
	attach := func(c *centrifuge.Client) {
		t.Helper()
		if code, _, says := over(t, c, api.RPCAttach, attaching(), nil); code != 0 {
			t.Fatal(code, says)
		}
	}
	for range 5 {
		attach(first)
	}
	second, secondSaid := f.dial(token)
	f.says("it connects", secondSaid, 0)
	attach(second)
	f.says("the first", firstSaid, uint32(api.DisconnectReplaced))
	attach(second)
	f.hear(func(x stream.Frame) bool { return x.Join != nil }) // of the first attach; the others follow
	select {
	case code := <-secondSaid:
		t.Errorf("the second is disconnected: %d", code)
	case code := <-firstSaid:
		t.Errorf("the first comes again: %d", code)
	default:
	}
}

// TestHello: a client that says that it is too old is told so before it is let in, and not to
// come again; one that says nothing may come.
func TestHello(t *testing.T) {
	f := startFloor(t)
	_, token := f.hired(1)
	for hello, want := range map[string]uint32{
		"": 0, `{"client":1}`: 0, `{"client":0}`: uint32(api.DisconnectTooOld), `{}`: uint32(api.DisconnectTooOld), `{"client":1,"more":2}`: 1400, `[]`: 1400,
	} {
		c := centrifuge.NewJsonClient("ws://"+f.addr+"/v1/realtime", centrifuge.Config{Token: token, Data: []byte(hello)})
		said := make(chan uint32, 10)
		c.OnConnected(func(centrifuge.ConnectedEvent) { said <- 0 })
		c.OnDisconnected(func(e centrifuge.DisconnectedEvent) {
			said <- e.Code
			if e.Code == uint32(api.DisconnectTooOld) && !strings.Contains(e.Reason, "serves client 1 and newer") {
				t.Error(e.Reason)
			}
		})
		if err := c.Connect(); err != nil {
			t.Fatal(err)
		}
		f.says(hello, said, want)
		c.Close()
	}
}

// TestTooOften: who asks far too often loses its connections, and is told to come again.
func TestTooOften(t *testing.T) {
	f := startFloor(t)
	_, token := f.hired(1)
	c, said := f.dial(token)
	f.says("it connects", said, 0)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for range 400 { // the clock of rates stands still
		go func() { _, _ = rpcOver(ctx, c, api.RPCBeat, []byte("{}")) }() // most are refused
	}
	f.says("it asks too often", said, uint32(api.DisconnectLimit))
}

// TestNotReady: a gateway whose key the cluster does not know says so and gives no tokens.
func TestNotReady(t *testing.T) {
	w := start(t, func(o *Options) {
		o.Announce = func(context.Context, event.GatewayOpened) error { return errors.New("n3 is too old for it") }
	})
	c := newComputer(1)
	w.add("n1", event.KindWorkerEnrolled, event.WorkerEnrolled{Worker: c.id(), Key: c.public(), Owner: "user:ann", Actor: "token:x@n1"})
	if status, p := w.ask("GET", "/readyz", "", nil, nil); status != 503 || !strings.Contains(p.Detail, "lets no worker in") || p.RetryAfterSeconds == nil {
		t.Errorf("%d %+v", status, p)
	}
	if status, p := w.do(c.signed(w, "/v1/workers/token", api.WorkerTokenRequest{Client: 1}, nil), nil); status != 503 || !strings.Contains(p.Detail, "lets no worker in") {
		t.Errorf("%d %+v", status, p)
	}
	if status, _ := w.ask("GET", "/healthz", "", nil, nil); status != 200 {
		t.Errorf("healthz: %d", status)
	}
	c.nonce = 7
	if status, p := w.do(c.signed(w, "/v1/workers/token", api.WorkerTokenRequest{Client: 0}, nil), nil); status != 400 || !strings.Contains(p.Detail, "client 0 is too old: this gateway serves client 1") {
		t.Errorf("an old client: %d %+v", status, p)
	}
}

// TestHeaders: headers have a bound, and who cannot say what it is about gets no answer
// that helps.
func TestHeaders(t *testing.T) {
	w := start(t, nil)
	for text, want := range map[string]int{
		"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n":                                                  200,
		"GET /healthz HTTP/1.1\r\nHost: x\r\nX-A: " + strings.Repeat("a", 2*maxHeader) + "\r\n\r\n": 431,
		"GET /" + strings.Repeat("a", 2*maxHeader) + " HTTP/1.1\r\nHost: x\r\n\r\n":                 431,
		"GET /healthz HTTP/1.1\r\n\r\n":                                                             400,
		"nonsense\r\n\r\n":                                                                          400,
		"POST /v1/workers/register HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n":               400,
	} {
		conn, err := net.Dial("tcp", w.addr)
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
		go func() { _, _ = conn.Write([]byte(text)) }() // it may be refused before all is read
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Errorf("%.60q: %v", text, err)
		} else if resp.Body.Close(); resp.StatusCode != want {
			t.Errorf("%.60q: %d, want %d", text, resp.StatusCode, want)
		}
		_ = conn.Close()
	}
}

// TestArtefactTwice: what a worker has it need not fetch again, and no part is served that
// there is not.
func TestArtefactTwice(t *testing.T) {
	f := startFloor(t)
	id, token := f.hired(1)
	_, pushes := f.listen(id, token)
	if status, p := f.rpc(token, api.RPCAttach, attaching(), nil); status != 200 {
		t.Fatalf("%d %+v", status, p)
	}
	spec := f.spec()
	f.give(id, spec, 0)
	next(t, pushes)
	for _, c := range []struct {
		header, value string
		want          int
	}{
		{"If-None-Match", `"` + spec.Artefact.String() + `"`, 304},
		{"If-None-Match", `"other"`, 200},
		{"Range", "bytes=0-0", 206},
		{"Range", "bytes=100-200", 416},
		{"Range", "nonsense", 416},
	} {
		req, err := http.NewRequestWithContext(t.Context(), "GET", "http://"+f.addr+"/v1/artefacts/"+spec.Artefact.String(), nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+token)
		req.Header.Set(c.header, c.value)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		if resp.Body.Close(); resp.StatusCode != c.want {
			t.Errorf("%s %s: %d, want %d", c.header, c.value, resp.StatusCode, c.want)
		}
	}
}
