package coord

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/coord/wire"
)

// TestBackends: a failing backend is reported at once and again while it fails,
// a recovery at once; what is not repeated is forgotten.
func TestBackends(t *testing.T) {
	large(t)
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, cluster.ProfileLAN, 1, lan)
		a, b, _ := w.three()
		defer w.stopAll()
		var (
			healthy = []wire.Backend{{Name: "one", Healthy: true}, {Name: "two", Healthy: true}}
			partly  = []wire.Backend{{Name: "two"}, {Name: "one", Healthy: true}}
			failing = []wire.Backend{{Name: "one"}, {Name: "two"}}
		)
		said := func() []wire.Backend {
			m, _ := a.svc.View().Member(b.node)
			return m.Backends
		}
		messages := func() float64 {
			return a.metric("skein_coord_accepted_total", string(wire.TypeBackendUnhealthy))
		}
		report := func(what string, list []wire.Backend, wait time.Duration) {
			t.Helper()
			b.svc.ReportBackends(list)
			time.Sleep(wait)
			if !slices.Equal(said(), list) {
				t.Errorf("%s: says %v", what, said())
			}
		}
		b.svc.ReportBackends(healthy)
		time.Sleep(time.Minute)
		if n := messages(); n != 0 {
			t.Errorf("%v messages while nothing fails", n)
		}
		report("one fails", partly, 10*time.Millisecond)
		for range 20 {
			report("no change", partly, 10*time.Millisecond)
		}
		if n := messages(); n != 1 {
			t.Errorf("%v messages of one change", n)
		}
		report("both fail, a moment later", failing, 2*time.Second)
		time.Sleep(10 * time.Minute)
		if n := messages(); n < 20 || n > 23 || !slices.Equal(said(), failing) {
			t.Errorf("%v messages in 10 minutes, says %v", n, said())
		}
		report("healthy again", healthy, 10*time.Millisecond)
		before := messages()
		time.Sleep(5 * time.Minute)
		if n := messages() - before; n != 2 || len(said()) != 0 {
			t.Errorf("%v messages after the recovery, says %v", n, said())
		}
	})
}
