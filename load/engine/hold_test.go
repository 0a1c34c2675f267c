package engine

import (
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/skein-project/skein/load"
)

// TestHold: while a run is held nothing begins, of open, closed or paced traffic, nor is it
// sent later; behind that all goes on, and the figures are in doubt.
func TestHold(t *testing.T) {
	var mu sync.Mutex
	var at map[string][]time.Duration
	var began time.Time
	in(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		at[r.URL.Path] = append(at[r.URL.Path], time.Since(began))
	}), func(t *testing.T, s *scene) {
		at = map[string][]time.Duration{}
		s.o.Plan = planOf(t, `
traffic.open = { flow = "open", rate = 20, for = "20s" }
traffic.closed = { flow = "closed", users = 2, for = "20s", think = "100ms" }
traffic.paced = { flow = "paced", users = 2, for = "20s", pace = "500ms" }
[[flow.open]]
get = "http://127.0.0.1/open"
think = "200ms"
[[flow.open]]
get = "http://127.0.0.1/second"
[[flow.closed]]
get = "http://127.0.0.1/closed"
[[flow.paced]]
get = "http://127.0.0.1/paced"
`, load.Inputs{})
		e, err := New(s.o)
		if err != nil {
			t.Fatal(err)
		}
		began = time.Now()
		for after, on := range map[time.Duration]bool{5 * time.Second: true, 6 * time.Second: true, 10 * time.Second: false} {
			time.AfterFunc(after, func() { e.Hold(on) })
		}
		r, err := e.Run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for path, list := range at {
			before, behind := 0, 0
			for _, d := range list {
				switch {
				case d <= 5*time.Second:
					before++
				case d < 10*time.Second:
					t.Errorf("%s at %s", path, d)
				default:
					behind++
				}
			}
			if behind < before || behind > 2*before+10 {
				t.Errorf("%s %d times before it was held, %d times behind", path, before, behind)
			}
		}
		if len(at) != 4 {
			t.Errorf("%d paths", len(at))
		}
		if n := r.Whole.All().Classes[load.Interrupted]; n == 0 || n > 20 {
			t.Errorf("%d are interrupted, want the second steps of those that were under way", n)
		}
		if n := r.Whole.All().Classes[load.Dropped]; n != 0 {
			t.Errorf("%d are dropped", n)
		}
		if all := strings.Join(r.Doubts, "; "); !strings.Contains(all, "it sent nothing for 5s, as no holder heard of it") {
			t.Errorf("%s", all)
		}
	})
}
