package realtime

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/internal/idlehosts"
)

// idle is a world in whose cluster nothing happens.
type idle struct {
	*world
	hosts *idlehosts.Cluster
}

func newIdle(n int) *idle { return &idle{world: newWorld(), hosts: idlehosts.New(n)} }

func (w *idle) Members(ctx context.Context, all bool) (api.Members, error) {
	return w.hosts.Members(ctx, all)
}
func (w *idle) Status(ctx context.Context) (api.Status, error)        { return w.hosts.Status(ctx) }
func (w *idle) Lease(ctx context.Context) (api.Lease, error)          { return w.hosts.Lease(ctx) }
func (w *idle) WorkerGroups(ctx context.Context) (api.Workers, error) { return w.hosts.Workers(ctx) }

func (w *idle) Links(ctx context.Context, of cluster.NodeID) (api.Links, error) {
	return w.hosts.Links(ctx, of)
}

// TestIdleIsQuiet: who watches all of a cluster in which nothing happens is told
// little, however much its ages rise and fall.
func TestIdleIsQuiet(t *testing.T) {
	for _, c := range []struct {
		hosts int
		most  float64 // bytes per second
	}{{3, 500}, {500, 10_000}} {
		t.Run(fmt.Sprint(c.hosts), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := newIdle(c.hosts)
				h := New(Options{Boot: "b", Source: o, Log: o.world, Header: func() api.Header { return api.Header{APIVersion: "1", Node: "host0"} }})
				w := h.Watch(Request{Topics: slices.Clone(topics)})
				defer w.Close()
				until(t, w, "synced")
				const span = 5 * time.Minute
				bytes, by := 0, map[string]int{}
				ctx, cancel := context.WithTimeout(t.Context(), span)
				defer cancel()
				for {
					list, err := w.Next(ctx)
					if ctx.Err() != nil {
						break
					}
					if err != nil {
						t.Fatal(err)
					}
					bytes++ // an empty line, or more than there is
					for _, m := range list {
						bytes += len(m.Text) + len(m.ID)
						by[m.Event] += len(m.Text)
					}
				}
				rate := float64(bytes) / span.Seconds()
				t.Logf("%d hosts: %.0f bytes a second: %v", c.hosts, rate, by)
				if rate > c.most || by["gauges"] == 0 {
					t.Errorf("%.0f bytes a second, want at most %.0f, and some gauges: %v", rate, c.most, by)
				}
			})
		})
	}
}
