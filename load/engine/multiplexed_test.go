package engine

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"testing"

	"github.com/skein-project/skein/load"
)

// TestEachItsOwn: with connections = "request" each has its own, even behind one that broke off.
func TestEachItsOwn(t *testing.T) {
	var mu sync.Mutex
	seen := map[string]bool{}
	url := badTarget(t, true, func(_ http.ResponseWriter, r *http.Request) {
		mu.Lock()
		seen[r.RemoteAddr] = true
		mu.Unlock()
		panic(http.ErrAbortHandler)
	})
	e, err := New(Options{PlainTime: true, Trace: func(Exchange) {}, Plan: planOf(t, fmt.Sprintf(`
traffic.main = { flow = "f", users = 1, for = "1s" }
http = { version = "h2c", connections = "request" }
[[flow.f]]
get = "%[1]s/"
[[flow.f]]
get = "%[1]s/"
[[flow.f]]
get = "%[1]s/"`, url), load.Inputs{})})
	if err != nil {
		t.Fatal(err)
	}
	_ = e.Once(t.Context()) // no step is as it should be
	mu.Lock()
	defer mu.Unlock()
	if len(seen) != 3 {
		t.Errorf("%d connections for 3 requests", len(seen))
	}
}

// TestLateUser: one may need its first connection while the run is ended.
func TestLateUser(t *testing.T) {
	e, err := New(Options{PlainTime: true, Plan: planOf(t, `
traffic.main = { flow = "f", users = 1, for = "1s" }
http = { version = "h2c", connections = "shared" }
[[flow.f]]
get = "http://127.0.0.1:1/"`, load.Inputs{})})
	if err != nil {
		t.Fatal(err)
	}
	e.hard, e.cut = context.WithCancel(t.Context())
	l := e.newUser(e.o.Plan.Flows["f"]).takeLane()
	var late sync.WaitGroup
	late.Go(func() { l.client(e.byStep[0], versionTwo) })
	e.finish()
	late.Wait()
}
