package realtime

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
)

// idle is a cluster in which nothing happens: heartbeats come each second, leases are
// renewed, round trips and traffic are never the same, and everything gets older.
type idle struct {
	*world
	n     int
	began time.Time
	rng   *rand.Rand
}

func newIdle(n int) *idle {
	return &idle{world: newWorld(), n: n, began: time.Now().Add(-time.Hour), rng: rand.New(rand.NewPCG(uint64(n), 7))}
}

// ago is how long ago something was that happens at regular intervals.
func (w *idle) ago(every time.Duration, shift int) *float64 {
	at := time.Since(w.began) + time.Duration(shift)*37*time.Millisecond
	return new((at % every).Seconds() + 0.2*w.rng.Float64())
}

// about is a value that is measured.
func (w *idle) about(v float64) *float64 { return new(v * math.Exp(0.15*w.rng.NormFloat64())) }

func (w *idle) node(i int) cluster.NodeID { return cluster.NodeID(fmt.Sprintf("host%d", i)) }

func (w *idle) Members(context.Context, bool) (api.Members, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out api.Members
	for i := range w.n {
		m := api.Member{Node: w.node(i), State: cluster.Alive, Self: i == 0, LagEvents: new(uint64(0))}
		if i > 0 {
			m.SeenSeconds, m.RTTSeconds, m.SkewSeconds = w.ago(time.Second, i), w.about(0.0007), new(0.003*w.rng.NormFloat64())
		}
		if w.n > many && i > 0 { // of so many each is heard of now and then only
			m.SeenSeconds = w.ago(time.Minute, 17*i)
		}
		out.Members = append(out.Members, m)
	}
	return out, nil
}

func (w *idle) summary() api.LeaseSummary {
	renewed := *w.ago(time.Second, 3)
	return api.LeaseSummary{
		Holder: "host1", Term: 4, RenewedSeconds: &renewed, ExpiresSeconds: new(5 - renewed), TenureSeconds: new(time.Since(w.began).Seconds()),
	}
}

func (w *idle) Status(context.Context) (api.Status, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := api.Status{Cluster: "blue", State: "ok", Lease: w.summary(), UptimeSeconds: time.Since(w.began).Seconds()}
	s.Log.Events, s.Log.SizeBytes = 1175, 1<<20
	s.Mesh.OldestHandshakeSeconds = w.ago(2*time.Minute, 0)
	return s, nil
}

func (w *idle) Lease(context.Context) (api.Lease, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return api.Lease{LeaseSummary: w.summary()}, nil
}

func (w *idle) Links(context.Context, cluster.NodeID) (api.Links, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out api.Links
	for i := range w.n {
		for k := range w.n {
			if i != k && w.n <= many {
				out.Links = append(out.Links, api.Link{
					From: w.node(i), To: w.node(k), State: cluster.Alive, Path: "direct", HandshakeSeconds: w.ago(2*time.Minute, 31*i+700*k),
					RTTSeconds: w.about(0.0007), ReceiveBytesPerSecond: w.about(700), TransmitBytesPerSecond: w.about(700), ReportedAt: new(time.Now()),
				})
			}
		}
	}
	return out, nil
}

func (w *idle) Workers(context.Context) (api.Workers, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out api.Workers
	for i := range w.n {
		out.Workers = append(out.Workers, api.Worker{Node: w.node(i), Live: cluster.Alive, Connected: true, Ready: true, Slots: 4, Window: 8, RatePerSecond: new(1e6)})
	}
	return out, nil
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
