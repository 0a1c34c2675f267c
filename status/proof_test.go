package status

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skein-project/skein/access"
	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/eventlog/record"
)

// TestProof asks for an event as it was written, by the client too, and in ways that
// name none.
func TestProof(t *testing.T) {
	f := newFake()
	longLog(f, 3)
	r := start(t, f, nil)
	got, err := r.client.EventProof(t.Context(), event.SourceID{Node: "n1", Inc: 1}, 2)
	if err != nil || len(got.Events) != 2 || got.Head.Seq != 3 || got.Node != "n1" || got.Checked == nil {
		t.Fatalf("%+v %v", got, err)
	}
	if e, err := record.DecodeEvent(got.Events[0].Raw); err != nil || e.Seq != 2 || e.Kind != event.KindTermStart || string(e.Body) != `{"a":1}` {
		t.Errorf("%+v %v", e, err)
	}
	for path, want := range map[string]int{
		"/v1/events/n1/1/3":                              http.StatusOK,
		"/v1/events/n1/1/3?min=n1/1:3":                   http.StatusOK,
		"/v1/events/n1/1/4":                              http.StatusNotFound,
		"/v1/events/n1/2/1":                              http.StatusNotFound,
		"/v1/events/n9/1/1":                              http.StatusNotFound,
		"/v1/events/n1/1/18446744073709551615":           http.StatusNotFound,
		"/v1/events/n1/1/18446744073709551616":           http.StatusBadRequest,
		"/v1/events/n1/1/0":                              http.StatusBadRequest,
		"/v1/events/n1/0/1":                              http.StatusBadRequest,
		"/v1/events/n1/1/-1":                             http.StatusBadRequest,
		"/v1/events/n1/x/1":                              http.StatusBadRequest,
		"/v1/events/N1/1/1":                              http.StatusBadRequest,
		"/v1/events/..%2f..%2fetc/1/1":                   http.StatusBadRequest,
		"/v1/events/" + strings.Repeat("n", 33) + "/1/1": http.StatusBadRequest,
		"/v1/events/n1/1/1?raw":                          http.StatusBadRequest,
		"/v1/events/n1/1":                                http.StatusNotFound,
	} {
		if code, _, text := r.ask(t, http.MethodGet, path, ""); code != want {
			t.Errorf("%s: %d, want %d: %s", path, code, want, text)
		}
	}
}

// TestProofOfOwn: a submitter gets the bytes of events that are the submitter's, and of
// no other, though these stand behind them in the chain.
func TestProofOfOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, f := usersServer(t, nil)
		twoOwners(f) // ann's, sam's, and of nobody alone
		time.Sleep(2 * access.Window)
		for _, c := range []struct {
			who, seq string
			events   []uint64 // none: there is none
		}{
			{"ann", "1", []uint64{1}},
			{"ann", "2", nil},
			{"ann", "4", nil},
			{"sam", "1", nil},
			{"sam", "2", []uint64{2}},
			{"sam", "5", []uint64{5}},
			{"vic", "1", []uint64{1, 2, 3, 4, 5}},
			{"olga", "4", []uint64{4, 5}},
		} {
			w := httptest.NewRecorder()
			s.mux.ServeHTTP(w, asUser(t, c.who, "GET", "/v1/events/n1/1/"+c.seq, "", time.Now()))
			var got api.EventProof
			if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
				t.Fatal(err)
			}
			var seqs []uint64
			for _, e := range got.Events {
				seqs = append(seqs, e.Seq)
			}
			if (w.Code == http.StatusOK) != (c.events != nil) || !slices.Equal(seqs, c.events) {
				t.Errorf("%s asks for %s: %d, events %v, want %v", c.who, c.seq, w.Code, seqs, c.events)
			}
			if len(seqs) > 0 && got.Withheld != (seqs[len(seqs)-1] < 5) {
				t.Errorf("%s asks for %s: withheld is %t", c.who, c.seq, got.Withheld)
			}
		}
	})
}
