package loadtest

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster/event"
)

// TestEndIsAwaited: followers hear of the end from the holder; the host that they ask may know
// of it a moment later.
func TestEndIsAwaited(t *testing.T) {
	var asked atomic.Int32
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		r := api.LoadRun{ID: "l1", State: event.LoadStarted}
		if asked.Add(1) > 2 {
			r.State = event.LoadEnded
		}
		_ = json.NewEncoder(w).Encode(r)
	}))
	defer s.Close()
	c := api.New(s.URL, s.URL, http.DefaultTransport)
	defer c.Close()
	if err := awaitEnd(t.Context(), c, "l1"); err != nil || asked.Load() != 3 {
		t.Errorf("%v, asked %d times", err, asked.Load())
	}
}
