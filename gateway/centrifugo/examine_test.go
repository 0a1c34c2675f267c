package centrifugo

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/skein-project/skein/internal/advice"
	"github.com/skein-project/skein/internal/servertest"
)

// apiOf answers as the API of a Centrifugo whose clock is ahead.
func apiOf(info, history string, ahead time.Duration) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Date", time.Now().Add(ahead).UTC().Format(http.TimeFormat))
		if strings.HasSuffix(r.URL.Path, "/history") {
			fmt.Fprint(w, history)
			return
		}
		fmt.Fprint(w, info)
	}
}

const (
	fineInfo    = `{"result":{"nodes":[{"version":"5.4.9","num_clients":3},{"version":"v5.4.9","num_clients":4}]}}`
	fineHistory = `{"result":{"publications":[],"epoch":"x","offset":0}}`
)

// TestLook: a Centrifugo that cannot serve is named, with what to do, whoever looks.
func TestLook(t *testing.T) {
	file := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(file, []byte("a-key-that-is-long-enough\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	status := func(n int) http.HandlerFunc { return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(n) } }
	info := func(version string) string { return `{"result":{"nodes":[{"version":"` + version + `"}]}}` }
	for name, c := range map[string]struct {
		handler    http.Handler
		want, next string // want is empty if it serves
		warned     string
	}{
		"fine":              {apiOf(fineInfo, fineHistory, 0), "", "", ""},
		"built from source": {apiOf(info("0.0.0"), fineHistory, 0), "", "", ""},
		"no clock":          {http.HandlerFunc(undated), "", "", ""},
		"another key":       {status(401), "is not taken", "api_key must be the same", ""},
		"not for us":        {status(403), "is not taken", "api_key must be the same", ""},
		"nothing there":     {http.NotFoundHandler(), "nothing is at", "api_handler_prefix", ""},
		"broken":            {status(500), "500", "", ""},
		"a page":            {apiOf("<html>", "", 0), "no Centrifugo v5", "centrifugo.api_url", ""},
		"something else":    {apiOf(`{}`, "", 0), "no nodes", "centrifugo.api_url", ""},
		"an error":          {apiOf(`{"error":{"code":100,"message":"internal server error"}}`, "", 0), "100", "", ""},
		"version 6":         {apiOf(info("6.2.1"), fineHistory, 0), "it is Centrifugo 6.2.1", "a v5 is needed", ""},
		"version 4":         {apiOf(info("v4.1.0"), fineHistory, 0), "it is Centrifugo 4.1.0", "a v5 is needed", ""},
		"no version":        {apiOf(info("x"), fineHistory, 0), "it is Centrifugo x", "a v5 is needed", ""},
		"no namespace":      {apiOf(fineInfo, `{"error":{"code":102,"message":"unknown channel"}}`, 0), "lack node", "centrifugo-config", ""},
		"no history":        {apiOf(fineInfo, `{"error":{"code":108,"message":"not available"}}`, 0), "has no history", "centrifugo-config", ""},
		"its Redis is down": {apiOf(fineInfo, `{"error":{"code":100,"message":"internal server error"}}`, 0), "cannot say", "Redis", ""},
		"another error":     {apiOf(fineInfo, `{"error":{"code":107,"message":"bad request"}}`, 0), "107", "", ""},
		"ahead":             {apiOf(fineInfo, fineHistory, 20*time.Second), "", "", "ahead of this host's"},
		"behind":            {apiOf(fineInfo, fineHistory, -20*time.Second), "", "", "ahead of this host's"},
		"far ahead":         {apiOf(fineInfo, fineHistory, time.Hour), "1h0m0s ahead", "NTP", ""},
		"far behind":        {apiOf(fineInfo, fineHistory, -time.Hour), "-1h0m0s ahead", "NTP", ""},
	} {
		srv := httptest.NewServer(c.handler)
		cl := newClient(srv.URL+"/api", &secrets{file: file, most: 1, now: func() time.Duration { return 0 }})
		f, err := cl.look(t.Context(), time.Now)
		var warned []error
		if err == nil {
			warned, err = f.judge()
		}
		srv.Close()
		switch {
		case c.want == "" && err != nil, c.want != "" && err == nil:
			t.Errorf("%s: %v", name, err)
		case err != nil:
			if what, next := advice.Of(err); !strings.Contains(what, c.want) || !strings.Contains(next, c.next) {
				t.Errorf("%s: %q, and what to do is %q, want %q, %q", name, what, next, c.want, c.next)
			}
		case (c.warned != "") != (len(warned) == 1) || len(warned) == 1 && !strings.Contains(warned[0].Error(), c.warned):
			t.Errorf("%s: warned %v", name, warned)
		}
	}
	for name, v := range map[string]Server{
		"start it":    {API: "http://127.0.0.1:1/api", KeyFile: file},
		"name a file": {API: "http://127.0.0.1:1/api", KeyFile: file + "x"},
	} {
		_, _, err := Examine(t.Context(), v)
		if err == nil {
			t.Errorf("%s: it serves", name)
		} else if _, next := advice.Of(err); !strings.Contains(next, name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// undated answers without the time.
func undated(w http.ResponseWriter, r *http.Request) {
	w.Header()["Date"] = nil
	if strings.HasSuffix(r.URL.Path, "/history") {
		fmt.Fprint(w, fineHistory)
		return
	}
	fmt.Fprint(w, fineInfo)
}

// TestRealExamine: a real Centrifugo that has what File says is found to be fine, and what of
// its configuration is not as it should be is named.
func TestRealExamine(t *testing.T) {
	r := startReal(t)
	key := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(key, []byte(strings.ReplaceAll(apiKey, " ", "-")), 0o600); err != nil {
		t.Fatal(err)
	}
	at := Server{API: r.o.API, Clients: r.ws, KeyFile: key, Page: "https://gw.example.org"}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	what, warned, err := Examine(ctx, at)
	if err != nil || len(warned) > 0 || !strings.Contains(what, "nodes 1, connections 0") {
		t.Fatalf("%q, %v, %v", what, warned, err)
	}
	has := func(name string, v Server, want, next string) {
		t.Helper()
		says, _, err := Examine(ctx, v)
		if err == nil {
			t.Errorf("%s: %s", name, says)
		} else if is, advised := advice.Of(err); !strings.Contains(is, want) || !strings.Contains(advised, next) {
			t.Errorf("%s: %q, and what to do is %q, want %q, %q", name, is, advised, want, next)
		}
	}
	other := key + "2"
	if err := os.WriteFile(other, []byte("another-key-that-is-long"), 0o600); err != nil {
		t.Fatal(err)
	}
	has("another key", Server{API: at.API, Clients: at.Clients, KeyFile: other}, "is not taken", "api_key")
	has("no WebSocket there", Server{API: at.API, Clients: strings.Replace(at.API, "http", "ws", 1), KeyFile: key}, "cannot connect", "takes WebSockets")
	page := at
	page.Page = "https://another.example.org"
	has("another gateway's page", page, "no page of https://another.example.org", "allowed_origins")
	for name, c := range map[string]struct {
		change     func(map[string]any)
		want, next string
	}{
		"another secret": {func(m map[string]any) {
			for _, p := range m["proxies"].([]any) {
				p.(map[string]any)["static_http_headers"] = map[string]any{SecretHeader: "not-this-secret-but-another"}
			}
		}, "cannot ask a gateway", "centrifugo.secret_file"},
		"nobody to ask": {func(m map[string]any) {
			for _, p := range m["proxies"].([]any) {
				p.(map[string]any)["endpoint"] = "http://127.0.0.1:1/proxy/connect"
			}
		}, "cannot ask a gateway", "gateway.internal_listen"},
		"no proxies":    {func(m map[string]any) { delete(m, "connect_proxy_name") }, "asks no gateway", "centrifugo-config"},
		"no namespaces": {func(m map[string]any) { delete(m, "namespaces") }, "lack node", "centrifugo-config"},
		"no history":    {func(m map[string]any) { m["namespaces"] = []any{map[string]any{"name": "node"}} }, "no history", "centrifugo-config"},
	} {
		r.restartWith(t, c.change)
		has(name, at, c.want, c.next)
	}
}

// restartWith starts the server anew with what File says, changed.
func (r *real) restartWith(t *testing.T, change func(map[string]any)) {
	t.Helper()
	text, err := os.ReadFile(r.file)
	if err != nil {
		t.Fatal(err)
	}
	var m map[string]any
	if err := json.Unmarshal(text, &m); err != nil {
		t.Fatal(err)
	}
	change(m)
	if text, err = json.Marshal(m); err != nil {
		t.Fatal(err)
	}
	base, err := os.MkdirTemp(filepath.Dir(r.file), "c") //nolint:usetesting // beside its Redis
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(base, "centrifugo.json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	_ = r.Centrifugo.Stop()
	if r.Centrifugo, err = servertest.StartCentrifugo(t.Context(), base, file); err != nil {
		t.Fatal(err)
	}
}

// FuzzAnswers: whatever answers instead of a Centrifugo ends nothing here, and what is read of
// it is bounded.
func FuzzAnswers(f *testing.F) {
	for _, s := range []string{
		fineInfo, fineHistory, `{"replies":[{},{"error":{"code":100,"message":"x"}}]}`, `{"error":{"code":107,"message":"bad request"}}`, `{"replies":[null,null]}`,
		`{"result":{"nodes":[{"version":"6.0.0","num_clients":4294967295}]}}`, `{"result":{"nodes":[null]}}`, `{"result":null}`, `null`, `[]`, `"`, "<html>",
	} {
		f.Add([]byte(s), int64(0))
	}
	f.Fuzz(func(t *testing.T, answer []byte, ahead int64) {
		if replies, err := readReplies(answer, 2); err == nil && len(replies) != 2 {
			t.Errorf("%d replies", len(replies))
		}
		is, err := readInfo(answer)
		if err == nil && (is.nodes == 0 || len(is.versions) == 0 || len(is.versions) > mostNode || is.clients < 0) {
			t.Errorf("%+v", is)
		}
		is.ahead = time.Duration(ahead)
		is.channels, _ = readError(answer) // it need not be one
		warned, err := is.judge()
		for _, e := range append(warned, err) {
			if e != nil && len(e.Error()) > 2000 {
				t.Errorf("%d bytes of why", len(e.Error()))
			}
		}
	})
}

// FuzzProxy: whatever is asked with the secret gets an answer of Centrifugo's protocol, and
// nobody is somebody by it.
func FuzzProxy(f *testing.F) {
	for _, s := range []string{
		`{"user":"w:` + string(mine) + `","channel":"node:` + string(mine) + `","method":"beat","data":{"session":"1"}}`, `{"client":"x"}`, `{"user":null}`, `{"user":1}`, `[]`, `null`, ``,
		`{"user":"w:","channel":"node:"}`, `{"user":"w:` + string(others) + `","b64data":"e30="}`, `{"data":` + strings.Repeat("[", 5000) + strings.Repeat("]", 5000) + `}`,
	} {
		for i := range 4 {
			f.Add([]byte(s), uint8(i))
		}
	}
	names := []string{"connect", "refresh", "subscribe", "rpc"}
	f.Fuzz(func(t *testing.T, body []byte, which uint8) {
		o := newOffice(t, "http://127.0.0.1:1/api")
		w := httptest.NewRecorder()
		r := httptest.NewRequest(http.MethodPost, "/proxy/"+names[which%4], strings.NewReader(string(body)))
		r.Header.Set(SecretHeader, newSecret)
		o.serverOf().Handler.ServeHTTP(w, r)
		if w.Code == http.StatusBadRequest || w.Code == http.StatusRequestEntityTooLarge {
			if len(o.called()) > 0 {
				t.Error("what is no question was answered")
			}
			return
		}
		var got map[string]json.RawMessage
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || w.Code != http.StatusOK || len(got) != 1 || got["result"] == nil && got["error"] == nil && got["disconnect"] == nil {
			t.Fatalf("%s: %d %s, %v", names[which%4], w.Code, w.Body, err)
		}
		for _, call := range o.called() {
			if !strings.Contains(string(body), strings.Fields(call)[0]) {
				t.Errorf("somebody asked who is not named: %s", call)
			}
		}
	})
}
