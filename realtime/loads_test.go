package realtime

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/realtime/delta"
)

// tests are the load tests of a world.
type tests struct {
	runs  []api.LoadRun
	live  map[event.LoadID][]api.LoadLive // one answer after the other
	asked int
}

// LoadRuns implements Source.
func (w *world) LoadRuns(context.Context) (api.LoadRuns, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return api.LoadRuns{Runs: append([]api.LoadRun(nil), w.tests.runs...)}, nil
}

// LoadRun implements Source.
func (w *world) LoadRun(_ context.Context, id event.LoadID) (api.LoadRun, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range w.tests.runs {
		if r.ID == id {
			return r, nil
		}
	}
	return api.LoadRun{}, api.Errorf(api.CodeNotFound, "no load test %s", id)
}

// LoadLive implements Source.
func (w *world) LoadLive(_ context.Context, id event.LoadID, after string, _ time.Duration) (api.LoadLive, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tests.asked++
	list := w.tests.live[id]
	if len(after) >= len(list) {
		return api.LoadLive{}, api.Errorf(api.CodeNotReady, "nobody holds the lease")
	}
	return list[len(after)], nil
}

// TestLoads: a watch tells of load tests, how those get on that run, and of one that was
// chosen all that it counted; of others only to who may see them, and the holder is not asked
// more often for many watchers.
func TestLoads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newWorld()
		ann, bob := event.NewLoadID("user:ann", "k"), event.NewLoadID("user:bob", "k")
		o.tests.runs = []api.LoadRun{{ID: ann, Owner: "user:ann", State: event.LoadStarted}, {ID: bob, Owner: "user:bob", State: event.LoadQueued}}
		step := func(n uint64) []api.LoadStep {
			return []api.LoadStep{{Name: "pay", Requests: n, Classes: map[string]uint64{"ok": n}}}
		}
		o.tests.live = map[event.LoadID][]api.LoadLive{ann: {
			{State: event.LoadStarted, Next: "x", At: 1, Of: 9, Seconds: 1, Steps: step(40)},
			{State: event.LoadStarted, Next: "xx", At: 2, Of: 9, Seconds: 1, Steps: step(2)},
			{State: event.LoadEnded, Next: "xxx", At: 3, Of: 9, Seconds: 1, Steps: step(1)},
			{State: event.LoadEnded, Next: "xxx"},
		}}
		h := o.hub("b")
		w := h.Watch(Request{Topics: []string{TopicLoad, LoadTopic(ann), LoadTopic(bob)}, May: func(_, owner string) bool { return owner == "user:ann" }})
		defer w.Close()
		other := h.Watch(Request{Topics: []string{TopicLoad, LoadTopic(ann)}})
		defer other.Close()
		all := strings.Join(texts(until(t, w, delta.Synced)), "\n")
		if strings.Contains(strings.ReplaceAll(all, string(LoadTopic(bob)), ""), string(bob)) {
			t.Errorf("ann is told of bob's:\n%s", all)
		}
		if strings.Count(all, `"requests":40,"failed":0,"dropped":0`) != 2 || strings.Count(all, `"name":"pay"`) != 1 || !strings.Contains(all, `"rate":40`) {
			t.Errorf("%s", all)
		}
		for told := ""; !strings.Contains(told, `"classes":{"ok":43}`); { // in one delta, or in several
			told = strings.Join(texts(until(t, w, `delta {"topic":"`+LoadTopic(ann)+`"`)), "\n")
		}
		o.update(func() {
			o.tests.runs = []api.LoadRun{{ID: ann, Owner: "user:ann", State: event.LoadEnded, Verdict: "passed"}}
		})
		until(t, w, `delta {"topic":"load","set":[{"id":"`+string(ann))
		before, at := o.asks(), time.Now()
		for time.Since(at) < 10*time.Second { // it has ended, and all was told
			if _, err := w.Next(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if n := o.asks() - before; n > 1 {
			t.Errorf("the holder is asked %d times for what has ended", n)
		}
		if n := o.asks(); n > 12 {
			t.Errorf("the holder was asked %d times", n)
		}
	})
}

func (w *world) asks() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.tests.asked
}
