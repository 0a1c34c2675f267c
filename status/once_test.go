package status

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

// TestChangeIsMadeOnce steps down twice under one key, as one does who lost the answer.
func TestChangeIsMadeOnce(t *testing.T) {
	s, f := usersServer(t, nil)
	ask := func(key, body string) int {
		r := asked(t, http.MethodPost, "/v1/lease/step-down", body)
		r.Header.Set("Idempotency-Key", key)
		w := httptest.NewRecorder()
		s.mux.ServeHTTP(w, r)
		return w.Code
	}
	for i, c := range []struct {
		key, body  string
		code, made int
	}{
		{"a", `{"reason":"x"}`, http.StatusOK, 1},
		{"a", `{"reason":"x"}`, http.StatusOK, 1},
		{"a", `{"reason":"y"}`, http.StatusConflict, 1},
		{"b", `{"reason":"x"}`, http.StatusOK, 2},
		{"", `{"reason":"x"}`, http.StatusOK, 3},
		{"ä", `{"reason":"x"}`, http.StatusBadRequest, 3},
		{"c", `{"colour":"red"}`, http.StatusBadRequest, 3},
		{"c", `{}`, http.StatusOK, 4},
	} {
		if code := ask(c.key, c.body); code != c.code || len(f.actors) != c.made {
			t.Errorf("%d, key %q: %d and stepped down %d times, want %d and %d", i, c.key, code, len(f.actors), c.code, c.made)
		}
	}
}
