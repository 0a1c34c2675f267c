package status

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/status/door"
	"github.com/skein-project/skein/status/query"
)

// asked is a request of root's, on the socket.
func asked(t *testing.T, method, path, body string) *http.Request {
	return httptest.NewRequestWithContext(door.With(t.Context(), door.Peer{Admin: true}), method, path, strings.NewReader(body))
}

// asAdmin asks as root does.
func asAdmin(t *testing.T, s *Server, method, path, body string) (int, string) {
	w := httptest.NewRecorder()
	s.mux.ServeHTTP(w, asked(t, method, path, body))
	return w.Code, w.Body.String()
}

// FuzzSubmit sends any body: every refusal is a problem, and what reaches the
// backend is a valid job.
func FuzzSubmit(f *testing.F) {
	for _, s := range []string{goodSpec, "{}", "", "null", "[]", `{"spec":{"iterations":1e3}}`, `{"spec":{"timeout_seconds":1e308}}`, `{"wait":"local"}` + "\xff"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, body string) {
		b := newFake()
		s := newServer(t, Options{Socket: "/x", Backend: b, Log: zerolog.Nop()})
		if code, text := asAdmin(t, s, http.MethodPost, "/v1/jobs", body); code == http.StatusInternalServerError {
			t.Fatalf("%q: %s", body, text)
		}
		for _, r := range b.submits {
			if err := r.Spec.Validate(); err != nil {
				t.Fatalf("%q reached the backend: %v", body, err)
			}
		}
	})
}

// FuzzSetVoters sends any body: what reaches the backend passes its own check.
func FuzzSetVoters(f *testing.F) {
	for _, s := range []string{`{"voters":["n1","n2"]}`, `{"auto":true,"mode":"quorum"}`, `{"add":"n3"}`, `{"remove":"n3","add":""}`, `{"voters":[""]}`, "{}", "null", "[]"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, body string) {
		b := newFake()
		s := newServer(t, Options{Socket: "/x", Backend: b, Log: zerolog.Nop()})
		code, text := asAdmin(t, s, http.MethodPost, "/v1/lease/voters", body)
		switch {
		case code != http.StatusOK && (code != http.StatusBadRequest && code != http.StatusRequestEntityTooLarge || len(b.voters) > 0):
			t.Fatalf("%q: %s, %d requests", body, text, len(b.voters))
		case code == http.StatusOK && (len(b.voters) != 1 || b.voters[0].Check() != nil):
			t.Fatalf("%q reached the backend as %+v", body, b.voters)
		}
	})
}

// FuzzEventQuery reads any query.
func FuzzEventQuery(f *testing.F) {
	for _, s := range []string{"since=10m", "since=2026-01-02T03:04:05Z&kind=lease_*", "node=n1&follow", "after=n1/1:5,n2/3:1", "kind=[a-", "%zz", "since=n1/1:5", "limit=5&positions"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		r := &http.Request{URL: &url.URL{RawQuery: text}}
		q, err := query.Parse(r, time.Unix(1_700_000_000, 0))
		if err != nil {
			if asProblem(err).Code != api.CodeInvalidRequest {
				t.Fatalf("%q: %v", text, err)
			}
			return
		}
		q.Match(event.Event{Kind: event.KindTermStart})
		if len(q.Kinds) > 0 == (q.Kind == "") {
			t.Fatalf("%q: kinds %q of %q", text, q.Kinds, q.Kind)
		}
	})
}
