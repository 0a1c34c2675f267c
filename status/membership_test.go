package status

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/status/door"
)

func TestMembershipChanges(t *testing.T) {
	f := newFake()
	r := start(t, f, nil)
	if left, err := r.client.Leave(t.Context()); err != nil || !slices.Equal(left.Told, []cluster.NodeID{"n2"}) || left.Node != "n1" {
		t.Errorf("leave: %+v, %v", left, err)
	}
	if got, err := r.client.Remove(t.Context(), "n3", "disk broken"); err != nil || got.Member != "n3" || got.By != "n1" {
		t.Errorf("remove: %+v, %v", got, err)
	}
	if got, err := r.client.RotateKey(t.Context()); err != nil || got.NextPublicKey == "" {
		t.Errorf("rotate: %+v, %v", got, err)
	}
	if got, err := r.client.Doctor(t.Context()); err != nil || len(got.Findings) != 1 {
		t.Errorf("doctor: %+v, %v", got, err)
	}
	r.handlers.examining <- struct{}{}
	if _, err := r.client.Doctor(t.Context()); !api.IsCode(err, api.CodeOverloaded) {
		t.Errorf("a second doctor: %v", err)
	}
	<-r.handlers.examining
	if len(f.actors) != 3 || !strings.HasPrefix(f.actors[0], "uid:") {
		t.Errorf("asked by %v", f.actors)
	}
	if !slices.Equal(f.removed, []string{"n3 disk broken"}) {
		t.Errorf("removed %q", f.removed)
	}
}

// TestMembershipRefusals sends what is no request; nothing reaches the backend.
func TestMembershipRefusals(t *testing.T) {
	f := newFake()
	r := start(t, f, nil)
	for _, tc := range []struct {
		method, path, body string
		code               int
		want               string
	}{
		{http.MethodGet, "/v1/leave", "", 405, "method_not_allowed"},
		{http.MethodPost, "/v1/leave", `{"force":true}`, 400, "unknown field"},
		{http.MethodPost, "/v1/leave", `[]`, 400, "invalid_request"},
		{http.MethodPost, "/v1/leave", `{} {}`, 400, "more than one"},
		{http.MethodPost, "/v1/mesh/rotate", `{"at":1}`, 400, "unknown field"},
		{http.MethodPost, "/v1/mesh/rotate", strings.Repeat(" ", maxBody+1), 413, "too_large"},
		{http.MethodPost, "/v1/members/N_3/remove", "", 404, "no member"},
		{http.MethodPost, "/v1/members/" + strings.Repeat("n", 500) + "/remove", "", 404, "no member"},
		{http.MethodPost, "/v1/members/n1/remove", "", 409, "skein leave"},
		{http.MethodPost, "/v1/members/n3/remove", `{"reason":"` + strings.Repeat("x", 257) + `"}`, 400, "257 bytes"},
		{http.MethodPost, "/v1/members/n3/remove", `{"reason":3}`, 400, "reason"},
		{http.MethodPost, "/v1/members/n3/remove", "{\"reason\":\"\xff\"}", 400, "UTF-8"},
		{http.MethodDelete, "/v1/members/n3/remove", "", 405, "method_not_allowed"},
		{http.MethodGet, "/v1/members?all=maybe", "", 400, "neither true nor false"},
		{http.MethodGet, "/v1/members?some=1", "", 400, "unknown parameter"},
		{http.MethodGet, "/v1/members?%zz", "", 400, "query"},
	} {
		code, _, text := r.ask(t, tc.method, tc.path, tc.body)
		if code != tc.code || !strings.Contains(text, tc.want) {
			t.Errorf("%s %.60s %.40s: %d %s", tc.method, tc.path, tc.body, code, text)
		}
	}
	if len(f.actors) > 0 {
		t.Errorf("reached the backend: %v", f.actors)
	}
	for path, gone := range map[string]bool{"/v1/members": false, "/v1/members?all": true, "/v1/members?all=true": true, "/v1/members?all=false": false} {
		if _, _, text := r.ask(t, http.MethodGet, path, ""); strings.Contains(text, `"node":"n8"`) != gone {
			t.Errorf("%s: %s", path, text)
		}
	}
}

// TestMembershipNeedsAdmin lets readers look and change nothing.
func TestMembershipNeedsAdmin(t *testing.T) {
	f := newFake()
	s := newServer(t, Options{Socket: "/x", Backend: f, Log: zerolog.Nop()})
	for _, path := range []string{"/v1/leave", "/v1/members/n3/remove", "/v1/mesh/rotate"} {
		for name, p := range map[string]door.Peer{"reader": {UID: 1000}, "over TCP": {TCP: true}} {
			w := httptest.NewRecorder()
			s.mux.ServeHTTP(w, httptest.NewRequestWithContext(door.With(t.Context(), p), http.MethodPost, path, nil))
			if w.Code != http.StatusForbidden || len(f.actors) > 0 {
				t.Errorf("%s by %s: %d %s", path, name, w.Code, w.Body)
			}
		}
	}
	// What the doctor finds is for this machine only.
	w := httptest.NewRecorder()
	s.mux.ServeHTTP(w, httptest.NewRequestWithContext(door.With(t.Context(), door.Peer{TCP: true}), http.MethodGet, "/v1/doctor", nil))
	if w.Code != http.StatusForbidden {
		t.Errorf("doctor over TCP: %d", w.Code)
	}
}

// FuzzMembershipRequests sends any name and body: a refusal is a problem of the
// client's, and what reaches the backend is bounded and well formed.
func FuzzMembershipRequests(f *testing.F) {
	f.Add("n3", `{"reason":"gone"}`, "all=true")
	f.Add("n1", "", "all")
	f.Add("N", "{}", "x=1;y")
	f.Add(".", "", "")
	f.Add("n3", `{"reason":"\u00fc"}`, "")
	f.Add("../n3", `{"reason":1}`, "all=%31")
	f.Fuzz(func(t *testing.T, node, body, query string) {
		b := newFake()
		s := newServer(t, Options{Socket: "/x", Backend: b, Log: zerolog.Nop()})
		for _, path := range []string{"members/" + url.PathEscape(node) + "/remove", "leave", "mesh/rotate"} {
			if code, text := asAdmin(t, s, http.MethodPost, "/v1/"+path, body); code == http.StatusInternalServerError {
				t.Fatalf("%q %q: %s", node, body, text)
			}
		}
		r := asked(t, http.MethodGet, "/v1/members", "")
		r.URL.RawQuery = query
		w := httptest.NewRecorder()
		if s.mux.ServeHTTP(w, r); w.Code != http.StatusOK && w.Code != http.StatusBadRequest {
			t.Fatalf("%q: %s", query, w.Body)
		}
		for _, r := range b.removed {
			name, reason, _ := strings.Cut(r, " ")
			if _, err := cluster.ParseNodeID(name); err != nil || name == "n1" || (api.RemoveRequest{Reason: reason}).Check() != nil {
				t.Fatalf("reached the backend: %q", r)
			}
		}
	})
}
