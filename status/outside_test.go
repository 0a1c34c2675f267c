package status

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/skein-project/skein/access"
	"github.com/skein-project/skein/api"
)

// TestOutside: what operators say of those that are let in from outside is bounded, and
// what is wrong with it is said.
func TestOutside(t *testing.T) {
	s, f := usersServer(t, nil)
	time.Sleep(2 * time.Millisecond) // proofs are of milliseconds
	f.holder = "n1"
	ask := func(method, path, body string) (int, string) {
		w := httptest.NewRecorder()
		s.mux.ServeHTTP(w, asUser(t, "olga", method, path, body, time.Now()))
		return w.Code, w.Body.String()
	}
	key := access.FormatPublicKey(someone("attic", access.Viewer).Keys[0])
	long := strings.Repeat("x", 200)
	for body, want := range map[string]struct {
		code int
		text string
	}{
		`{"key":"` + key + `","owner":"user:ann","name":"attic"}`:                {200, `"state":"enrolled"`},
		`{"key":"` + key + `","owner":"user:ann","zone":"outside"}`:              {200, `"zone":"outside"`},
		`{"key":"` + key + `","owner":"node:n1","trusted":true}`:                 {200, `"trusted":true`},
		`{"key":"` + key + `","owner":"node:n1"}`:                                {400, "not trusted"},
		`{"key":"` + key + `","owner":"user:nobody"}`:                            {404, "no user"},
		`{"key":"` + key + `","owner":"visitor:x","trusted":true}`:               {400, "a visitor"},
		`{"key":"` + key + `"}`:                                                  {400, "owner"},
		`{"key":"AAAA","owner":"user:ann"}`:                                      {400, "key: not a public key"},
		`{"owner":"user:ann"}`:                                                   {400, "key: not a public key"},
		`{"key":"` + key + `","owner":"user:ann","name":"` + long + `"}`:         {400, "name"},
		`{"key":"` + key + `","owner":"user:ann","zone":"` + long + `"}`:         {400, "zone"},
		`{"key":"` + key + `","owner":"user:ann","worker":"w-x"}`:                {400, "worker"},
		`{"key":"` + strings.Repeat("A", 5000) + `","owner":"user:ann"}`:         {400, "larger than"},
		`{"key":"` + key + `","owner":"user:ann","name":"` + "\\u001b[2J" + `"}`: {400, "name"},
	} {
		if code, text := ask("POST", "/v1/gateway/workers", body); code != want.code || !strings.Contains(text, want.text) {
			t.Errorf("%.80s: %d %s, want %d %s", body, code, text, want.code, want.text)
		}
	}
	for path, want := range map[string]int{
		"": 200, "?limit=1": 200, "?limit=1000": 200, "?limit=0": 400, "?limit=1001": 400, "?limit=": 400, "?limit=x": 400,
		"?after=n1": 400, "?after=w-others": 400, "?after=w-aaaaaaaaaaaaaaaaaaaaaaaaaa": 200, "?other=1": 400,
	} {
		if code, text := ask("GET", "/v1/gateway/workers"+path, ""); code != want {
			t.Errorf("workers%s: %d %s, want %d", path, code, text, want)
		}
	}
	for _, path := range []string{"/v1/gateway/workers/n1", "/v1/gateway/workers/w-others", "/v1/gateway/workers/" + long, "/v1/gateway/tokens/x", "/v1/gateway/tokens/bbbbbbbbbbbbbbbb"} {
		if code, text := ask("DELETE", path, ""); code != http.StatusNotFound || len(text) > 500 {
			t.Errorf("DELETE %s: %d %s", path, code, text)
		}
	}
	for body, want := range map[string]struct {
		code int
		text string
	}{
		`{"owner":"user:ann","roles":["work","submit","work"]}`:          {200, `"roles":["submit","work"]`},
		`{"owner":"user:ann","roles":["work"],"ttl_seconds":60}`:         {200, `"token":"skt_`},
		`{"owner":"user:ann","roles":["work"],"ttl_seconds":59}`:         {400, "ttl_seconds is 59"},
		`{"owner":"user:ann","roles":["work"],"ttl_seconds":1e300}`:      {400, "ttl_seconds"},
		`{"owner":"user:ann","roles":["work"],"ttl_seconds":-1}`:         {400, "ttl_seconds"},
		`{"owner":"user:ann","roles":["operator"]}`:                      {400, "roles"},
		`{"owner":"user:ann","roles":[]}`:                                {400, "name at least one"},
		`{"owner":"user:ann"}`:                                           {400, "name at least one"},
		`{"owner":"node:n1","roles":["work"]}`:                           {400, "a token is a user"},
		`{"owner":"user:nobody","roles":["work"]}`:                       {404, "no user"},
		`{"owner":"user:ann","roles":["work"],"id":"aaaaaaaaaaaaaaaa"}`:  {400, "id"},
		`{"owner":"user:ann","roles":["` + long + `"],"ttl_seconds":60}`: {400, "roles"},
	} {
		if code, text := ask("POST", "/v1/gateway/tokens", body); code != want.code || !strings.Contains(text, want.text) {
			t.Errorf("%s: %d %s, want %d %s", body, code, text, want.code, want.text)
		}
	}
	list, _ := f.AccessTokens(context.Background())
	if len(list.Tokens) != 2 {
		t.Errorf("%d tokens, want 2: what was refused made one", len(list.Tokens))
	}
	code, text := ask("DELETE", "/v1/gateway/tokens/"+list.Tokens[0].ID, "")
	var end api.AccessSet
	if err := json.Unmarshal([]byte(text), &end); err != nil || code != http.StatusOK || end.Token.State != api.StateRevoked {
		t.Errorf("%d %s", code, text)
	}
}

// TestOutsideOnce: a token that is asked for again under the same key is the same.
func TestOutsideOnce(t *testing.T) {
	s, f := usersServer(t, nil)
	time.Sleep(2 * time.Millisecond)
	var answers []string
	for range 2 {
		r := asUser(t, "olga", "POST", "/v1/gateway/tokens", `{"owner":"user:ann","roles":["work"]}`, time.Now())
		r.Header.Set("Idempotency-Key", "k")
		w := httptest.NewRecorder()
		s.mux.ServeHTTP(w, r)
		var made api.AccessCreated
		if err := json.Unmarshal(w.Body.Bytes(), &made); err != nil || w.Code != http.StatusOK {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
		answers = append(answers, made.Secret.Reveal())
	}
	if list, _ := f.AccessTokens(context.Background()); len(list.Tokens) != 1 || answers[0] != answers[1] {
		t.Errorf("%d tokens, secrets %q", len(list.Tokens), answers)
	}
}
