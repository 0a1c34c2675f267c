package jobs

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/cmd/skein/cli"
)

// TestFollowsWhatWasSubmitted: one host is gone and the other one cannot answer just now.
// Whoever has submitted a job waits; whoever asks for one hears that nobody is there.
func TestFollowsWhatWasSubmitted(t *testing.T) {
	gone := httptest.NewServer(nil)
	gone.Close()
	var busy atomic.Bool
	there := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		var answer any = api.Job{ID: "j1", State: job.Completed}
		if busy.Swap(false) {
			p := api.Errorf(api.CodeNoHolder, "nobody holds")
			p.RetryAfterSeconds = new(0.1)
			w.WriteHeader(p.Status)
			answer = p
		}
		if err := json.NewEncoder(w).Encode(answer); err != nil {
			t.Error(err)
		}
	}))
	defer there.Close()
	follow := func(hosts, after string) error {
		var out, notes bytes.Buffer
		a := &cli.App{Terminal: cli.Terminal{Out: &out, Err: &notes, Env: []string{"SKEIN_SOCKET=" + hosts}}, Timeout: time.Minute}
		if err := followTo(a, t.Context(), "j1", after, "", func(api.Job) error { return nil }); err != nil {
			return fmt.Errorf("%w, after %s", err, notes.String())
		}
		return nil
	}
	for range 10 { // which of the two is asked first is by chance
		busy.Store(true)
		if err := follow(gone.URL+","+there.URL, "n1/1:7"); err != nil {
			t.Fatal(err)
		}
	}
	if err := follow(gone.URL, ""); err == nil {
		t.Error("nobody was there")
	}
}
