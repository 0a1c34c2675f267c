package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/gateway/auth"
	"github.com/skein-project/skein/gateway/centrifugo"
	"github.com/skein-project/skein/gateway/desk"
)

// TestCentrifugo: a gateway whose workers connect elsewhere says where, answers what is asked
// there by the same table as what is asked here, tells workers there what they are to hear,
// and has who is revoked disconnected within a second.
func TestCentrifugo(t *testing.T) {
	const ws, secret = "wss://rt.example.org/connection/websocket", "a-secret-that-is-long-enough"
	told := make(chan string, 100)
	fugo := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var in struct {
			Commands []json.RawMessage `json:"commands"`
		}
		if err := json.NewDecoder(r.Body).Decode(&in); err != nil || r.URL.Path != "/api/batch" {
			fmt.Fprint(w, `{"result":{}}`)
			return
		}
		for _, c := range in.Commands {
			told <- string(c)
		}
		fmt.Fprintf(w, `{"replies":[%s]}`, strings.TrimSuffix(strings.Repeat("{},", len(in.Commands)), ","))
	}))
	t.Cleanup(fugo.Close)
	file := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(file, []byte(secret), 0o600); err != nil {
		t.Fatal(err)
	}
	inner, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := startFloorWith(t, desk.Options{}, func(o *Options) {
		o.Centrifugo = Centrifugo{
			API: fugo.URL + "/api", Clients: ws, KeyFile: file, SecretFile: file,
			Open: func(context.Context) (net.Listener, error) { return inner, nil },
		}
	})
	asks := func(name string, body any) map[string]json.RawMessage {
		t.Helper()
		text, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+inner.Addr().String()+"/proxy/"+name, bytes.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set(centrifugo.SecretHeader, secret)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		out := map[string]json.RawMessage{}
		if text, err = io.ReadAll(resp.Body); err == nil {
			err = json.Unmarshal(text, &out)
		}
		if err != nil || resp.StatusCode != http.StatusOK {
			t.Fatalf("%s: %d %s %v", name, resp.StatusCode, text, err)
		}
		return out
	}
	hears := func(what, part string) string {
		t.Helper()
		for {
			select {
			case x := <-told:
				if strings.Contains(x, part) {
					return x
				}
			case <-time.After(20 * time.Second):
				t.Fatalf("%s: nothing of %s", what, part)
			}
		}
	}

	var info api.GatewayInfo
	if status, p := f.ask("GET", "/v1/info", "", nil, &info); status != 200 || info.WSURL != ws {
		t.Errorf("%d %+v, %q", status, p, info.WSURL)
	}
	c := newComputer(1)
	f.add("n1", event.KindWorkerEnrolled, event.WorkerEnrolled{Worker: c.id(), Key: c.public(), Owner: "user:ann", Actor: "token:x@n1"})
	var token api.WorkerToken
	if status, p := f.do(c.signed(f.world, "/v1/workers/token", api.WorkerTokenRequest{Client: 1}, nil), &token); status != 200 || token.WSURL != ws {
		t.Fatalf("%d %+v, %q", status, p, token.WSURL)
	}
	if status, _ := f.ask("GET", "/v1/realtime", "", nil, nil); status != 404 {
		t.Errorf("connections are taken here as well: %d", status)
	}

	resp, err := http.Get("http://" + inner.Addr().String() + "/.well-known/jwks.json")
	if err != nil {
		t.Fatal(err)
	}
	var keys api.JWKS
	if err := errors.Join(json.NewDecoder(resp.Body).Decode(&keys), resp.Body.Close()); err != nil || resp.StatusCode != http.StatusOK || len(keys.Keys) != 1 {
		t.Errorf("the keys that Centrifugo asks for: %d, %d, %v", resp.StatusCode, len(keys.Keys), err)
	}

	user := string(auth.OfWorker(c.id()))
	if got := asks("subscribe", map[string]any{"user": user, "channel": api.WorkChannel + string(c.id())}); string(got["result"]) != "{}" {
		t.Errorf("its channel: %s", got)
	}
	var attached struct {
		Data api.WorkState `json:"data"`
	}
	got := asks("rpc", map[string]any{"user": user, "method": api.RPCAttach, "data": attaching()})
	if err := json.Unmarshal(got["result"], &attached); err != nil || attached.Data.Session == 0 {
		t.Fatalf("%s, %v", got, err)
	}
	if got := asks("rpc", map[string]any{"user": user, "method": "job.get", "data": struct{}{}}); !strings.Contains(string(got["error"]), "1404") {
		t.Errorf("what there is not: %s", got)
	}
	if got := asks("rpc", map[string]any{"user": user, "method": api.RPCBeat, "data": map[string]any{"session": "5", "have": []int{}, "kept": 0}}); !strings.Contains(string(got["error"]), "1409") {
		t.Errorf("another session: %s", got)
	}
	f.give(c.id(), f.spec(), 0)
	var push struct {
		Publish struct {
			Channel string       `json:"channel"`
			Data    api.WorkPush `json:"data"`
		} `json:"publish"`
	}
	if err := json.Unmarshal([]byte(hears("a chunk", `"chunk"`)), &push); err != nil || push.Publish.Channel != api.WorkChannel+string(c.id()) || push.Publish.Data.Seq != 1 || push.Publish.Data.Session != attached.Data.Session {
		t.Errorf("%+v, %v", push, err)
	}

	began := time.Now()
	f.add("n1", event.KindWorkerRevoked, event.WorkerRevoked{Worker: c.id(), Actor: "uid:0@n1"})
	if x, want := hears("revoked", "disconnect"), `{"disconnect":{"user":"`+user+`","disconnect":{"code":4501,"reason":"revoked"}}}`; x != want {
		t.Errorf("%s\nwant %s", x, want)
	}
	if took := time.Since(began); took > time.Second {
		t.Errorf("after %v", took)
	}
	if got := asks("subscribe", map[string]any{"user": user, "channel": api.WorkChannel + string(c.id())}); !strings.Contains(string(got["disconnect"]), "4501") {
		t.Errorf("revoked, and it listens: %s", got)
	}
}

// TestCentrifugoUnset: a gateway does not start without its secrets, and says which is missing.
func TestCentrifugoUnset(t *testing.T) {
	f := start(t, nil)
	o := f.o
	o.Registerer = nil
	for _, want := range []string{"centrifugo.api_key_file", "centrifugo.secret_file"} {
		c := Centrifugo{API: "http://127.0.0.1:1/api", Clients: "ws://x/y"}
		if want != "centrifugo.api_key_file" {
			c.KeyFile = filepath.Join(t.TempDir(), "key")
			if err := os.WriteFile(c.KeyFile, []byte(strings.Repeat("x", 32)), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := openFront(&Gateway{o: Options{Centrifugo: c, Now: o.Now, Wall: o.Wall}, metrics: f.g.metrics}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
