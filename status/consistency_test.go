package status

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster/job"
)

// TestMin: a reader waits until the host has a position, but not for ever.
func TestMin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		longLog(f, 3)
		fresh := freshness{positions: f, changed: f.Changed}
		ask := func(query string) (*http.Request, error) {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://skein/v1/jobs?"+query, nil)
			if err != nil {
				t.Fatal(err)
			}
			return fresh.await(r)
		}
		began := time.Now()
		if r, err := ask("min=n1/1:3&limit=7"); err != nil || r.URL.RawQuery != "limit=7" || time.Since(began) > 0 {
			t.Fatalf("what is here: %v %v", r, err)
		}
		go func() {
			time.Sleep(2 * time.Second)
			f.update(func() { longLogMore(f, 1) })
		}()
		if _, err := ask("min=n1/1:4"); err != nil || time.Since(began) != 2*time.Second {
			t.Fatalf("what comes after 2 s came after %v: %v", time.Since(began), err)
		}
		began = time.Now()
		_, err := ask("min=n1/1:5,n2/1:1")
		if !api.IsCode(err, api.CodeTimeout) || time.Since(began) != freshTime {
			t.Fatalf("what does not come: %v after %v", err, time.Since(began))
		}
		if p := asProblem(err); !p.Retryable() {
			t.Error("nobody says that it is worth another try")
		}
		// Strong: what the holder has must be here.
		f.agreed = api.Cursor{{Node: "n1", Inc: 1}: 4}
		if _, err := ask("consistency=strong"); err != nil {
			t.Error(err)
		}
		f.agreed = api.Cursor{{Node: "n1", Inc: 1}: 5}
		if _, err := ask("consistency=strong"); !api.IsCode(err, api.CodeTimeout) {
			t.Errorf("a host that is behind the holder: %v", err)
		}
		f.disagree = api.Errorf(api.CodeConflict, "mode available")
		if _, err := ask("consistency=strong"); !api.IsCode(err, api.CodeConflict) {
			t.Errorf("mode available: %v", err)
		}
		if _, err := ask("consistency=local"); err != nil {
			t.Error(err)
		}
		for _, bad := range []string{"min=x", "min=n1/1", "consistency=eventual"} {
			if _, err := ask(bad); !api.IsCode(err, api.CodeInvalidRequest) {
				t.Errorf("%s: %v", bad, err)
			}
		}
	})
}

// TestCursorOfChange: the answer to a change says where it is in the log, and that
// position is good for the next read of anything.
func TestCursorOfChange(t *testing.T) {
	f := newFake()
	longLog(f, 3)
	f.agreed = api.Cursor{{Node: "n1", Inc: 1}: 2, {Node: "n2", Inc: 1}: 9}
	r := start(t, f, nil)
	var h api.Header
	code, _, text := r.ask(t, http.MethodPost, "/v1/leave", "")
	if err := json.Unmarshal([]byte(text), &h); err != nil || code != http.StatusOK || h.Cursor != "n1/1:3,n2/1:9" {
		t.Fatalf("%d %s %v", code, text, err)
	}
	code, _, text = r.ask(t, http.MethodGet, "/v1/events?min=n1/1:3", "")
	if code != http.StatusOK || strings.Count(text, "\n") != 3 {
		t.Errorf("events: %d %s", code, text)
	}
	if code, _, text := r.ask(t, http.MethodGet, "/v1/status", ""); code != http.StatusOK || strings.Contains(text, `"cursor"`) {
		t.Errorf("a read: %d %s", code, text)
	}
}

func TestPages(t *testing.T) {
	f := newFake()
	for i := range 7 {
		f.more = append(f.more, api.Job{ID: job.ID("j" + strings.Repeat("a", 25) + string(rune('a'+i)))})
	}
	r := start(t, f, nil)
	var got []job.ID
	after := ""
	for range 4 {
		code, _, text := r.ask(t, http.MethodGet, "/v1/jobs?limit=3"+after, "")
		var page api.Jobs
		if err := json.Unmarshal([]byte(text), &page); err != nil || code != http.StatusOK {
			t.Fatalf("%d %s %v", code, text, err)
		}
		for _, j := range page.Jobs {
			got = append(got, j.ID)
		}
		if page.Next == "" {
			break
		}
		after = "&after=" + string(page.Next)
	}
	if len(got) != 7 || got[0] != f.more[0].ID || got[6] != f.more[6].ID {
		t.Errorf("pages of %s", got)
	}
	for query, want := range map[string]int{
		"limit=0": 400, "limit=1001": 400, "limit=x": 400, "after=x": 400, "what=1": 400,
		"after=j" + strings.Repeat("b", 26): 404, "": 200,
	} {
		if code, _, text := r.ask(t, http.MethodGet, "/v1/jobs?"+query, ""); code != want {
			t.Errorf("%q: %d %s, want %d", query, code, text, want)
		}
	}
}
