package pressure

import (
	"context"
	"errors"
	"math"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/skein-project/skein/overload"
)

// TestMonitor: a loop that lets everybody wait makes the host overloaded, and well again
// when it does not any more; a burst does not.
func TestMonitor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		var slow atomic.Int64
		var enabled atomic.Bool
		enabled.Store(true)
		type change struct{ from, to overload.Level }
		changes := make(chan change, 100)
		m, err := New(Options{
			Now:     func() time.Duration { return time.Since(began) },
			Setting: func() Setting { return Setting{Enabled: enabled.Load()} },
			Loops: []Loop{{Name: "log", Ping: func(ctx context.Context) {
				select {
				case <-time.After(time.Duration(slow.Load())):
				case <-ctx.Done():
				}
			}}},
			Root:    with(map[string]string{"proc/pressure/cpu": "some avg10=5.00", "proc/meminfo": "MemTotal: 100 kB\nMemAvailable: 50 kB\n"}),
			Changed: func(from, to overload.Level, _ View) { changes <- change{from, to} },
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- m.Run(ctx) }()
		after := func(d time.Duration) View {
			time.Sleep(d) // of the bubble
			synctest.Wait()
			return m.View()
		}
		if v := after(time.Minute); v.Level != overload.Normal || v.CPU != 5 || v.MemoryLeft != 50 || v.IO != -1 {
			t.Fatalf("idle: %+v", v)
		}
		slow.Store(int64(120 * time.Millisecond))
		if v := after(10 * time.Second); v.Level != overload.High || v.By != overload.SignalWork || v.Work != 120*time.Millisecond {
			t.Fatalf("120 ms: %+v", v)
		}
		slow.Store(int64(time.Hour)) // stuck
		if v := after(20 * time.Second); v.Level != overload.Critical || v.Work < 15*time.Second {
			t.Fatalf("stuck: %+v", v)
		}
		slow.Store(0)
		if v := after(time.Minute); v.Level != overload.Normal {
			t.Fatalf("well again: %+v", v)
		}
		var told []change
		for len(changes) > 0 {
			told = append(told, <-changes)
		}
		if len(told) != 8 || told[3] != (change{overload.Severe, overload.Critical}) || told[7] != (change{overload.Elevated, overload.Normal}) {
			t.Fatalf("changes %v", told)
		}
		slow.Store(int64(time.Hour))
		after(20 * time.Second)
		enabled.Store(false)
		if v := after(2 * time.Second); v.Level != overload.Normal || v.Work < time.Second {
			t.Fatalf("switched off: %+v", v)
		}
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("it ended with %v", err)
		}
	})
}

func TestQuantile(t *testing.T) {
	above := []float64{1, 2, 4, math.Inf(1)}
	for _, c := range []struct {
		counts []uint64
		q      float64
		want   float64
	}{
		{[]uint64{0, 0, 0, 0}, 0.99, 0},
		{[]uint64{100, 0, 0, 0}, 0.99, 1},
		{[]uint64{98, 0, 2, 0}, 0.99, 4},
		{[]uint64{99, 1, 0, 0}, 0.99, 1},
		{[]uint64{0, 0, 0, 5}, 0.99, 4},
	} {
		if got := quantile(c.counts, above, c.q); got != c.want {
			t.Errorf("%v at %v: %v, want %v", c.counts, c.q, got, c.want)
		}
	}
}

func TestSyncs(t *testing.T) {
	h := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "h", Buckets: []float64{0.001, 0.01, 0.1}})
	s := syncs{of: h}
	for _, c := range []struct {
		observed float64
		times    int
		want     time.Duration
	}{{0.0005, 200, time.Millisecond}, {0.05, 5, 100 * time.Millisecond}, {0, 0, 0}, {7, 1, 100 * time.Millisecond}} {
		for range c.times {
			h.Observe(c.observed)
		}
		if got := s.p99(); got != c.want {
			t.Errorf("%v, %d times: %v, want %v", c.observed, c.times, got, c.want)
		}
	}
}

func TestGoroutines(t *testing.T) {
	var g goroutines
	g.p99()
	done := make(chan struct{})
	for range 1000 {
		go func() { done <- struct{}{} }()
	}
	for range 1000 {
		<-done
	}
	if d := g.p99(); d <= 0 || d > time.Minute {
		t.Fatalf("p99 %v", d)
	}
}
