package status

import (
	"errors"
	"slices"
	"strconv"
	"sync"
	"testing"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster/event"
)

// counting is a load test that counts one request with each question, of which every third is not
// answered, and that ends with the eighth.
type counting struct {
	mu    sync.Mutex
	asked int
	from  []string
}

func (c *counting) tell(after string) (api.LoadLive, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.asked++; c.asked%3 == 0 {
		return api.LoadLive{}, api.Errorf(api.CodeNotReady, "nobody holds the lease")
	}
	c.from = append(c.from, after)
	n, _ := strconv.Atoi(after)
	x := api.LoadLive{State: event.LoadStarted, Next: strconv.Itoa(n + 1), At: float64(n + 1), Steps: []api.LoadStep{{Name: "get", Requests: 1}}}
	if n == 8 {
		x.Next, x.Steps = after, nil
	}
	if n >= 7 {
		x.State, x.Verdict = event.LoadEnded, "passed"
	}
	return x, nil
}

// TestFollowLoad: one request tells all that a load test counts, each count once, from where the line
// before ended whatever the holder does meanwhile; it ends with the test.
func TestFollowLoad(t *testing.T) {
	c, f := &counting{}, newFake()
	f.live = c.tell
	r := start(t, f, nil)
	var at []float64
	connections := 1
	err := r.client.FollowLoad(t.Context(), "shop", api.FollowOptions{Retry: func(error) error { connections++; return nil }}, func(x api.LoadLive) error {
		if x.APIVersion != "1" || x.Hosts == nil {
			t.Errorf("incomplete: %+v", x)
		}
		at = append(at, x.At)
		return nil
	})
	if want := []float64{1, 2, 3, 4, 5, 6, 7, 8}; err != nil || !slices.Equal(at, want) || connections != 1 {
		t.Errorf("told up to %v over %d connections, %v", at, connections, err)
	}
	if want := []string{"", "1", "2", "3", "4", "5", "6", "7", "8"}; !slices.Equal(c.from, want) {
		t.Errorf("the holder is asked from %q", c.from)
	}
	if err := r.client.FollowLoad(t.Context(), "nope", api.FollowOptions{}, nil); !api.IsCode(err, api.CodeNotFound) {
		t.Errorf("a test that is none: %v", err)
	}
	stop := errors.New("enough")
	if err := r.client.FollowLoad(t.Context(), "shop", api.FollowOptions{}, func(api.LoadLive) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("a follower that has enough: %v", err)
	}
	for _, q := range []string{"step_ms=199", "step_ms=60001", "step_ms=-1", "step_ms=x", "wait_ms=5"} {
		if code, _, text := r.ask(t, "GET", "/v1/load/shop/follow?"+q, ""); code != 400 {
			t.Errorf("%s: %d %s", q, code, text)
		}
	}
}
