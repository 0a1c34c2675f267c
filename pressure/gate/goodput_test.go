package gate

import (
	"context"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skein-project/skein/overload"
)

// A host that can do 800 requests a second: four at a time, 5 ms each on average. Whoever
// asks waits for 200 ms.
const (
	processors = 4
	service    = 5 * time.Millisecond
	patience   = 200 * time.Millisecond
	capacity   = float64(processors) * float64(time.Second) / float64(service)
	warmUp     = 5 * time.Second
)

// host does requests in the order in which they come, also those whose askers have gone.
type host struct{ processors chan struct{} }

func (h *host) do(long time.Duration) {
	h.processors <- struct{}{}
	time.Sleep(long) // of the bubble
	<-h.processors
}

// outcome is what became of an open load.
type outcome struct {
	good    float64       // answers in time, as a part of what the host can do
	p99     time.Duration // of those that were let in
	stopP99 time.Duration // until stops began, which come all the while
}

// offer sends times as much as the host can do for so long. enter is how it lets requests
// in; nil: all at once.
func offer(t *testing.T, times float64, long time.Duration, enter func(ctx context.Context, lane overload.Lane) (func(), bool)) outcome {
	t.Helper()
	var out outcome
	synctest.Test(t, func(t *testing.T) {
		h := &host{processors: make(chan struct{}, processors)}
		r := rand.New(rand.NewPCG(7, 11))
		var good atomic.Int64
		var mu sync.Mutex
		var took, stops []time.Duration
		var all sync.WaitGroup
		began := time.Now()
		ask := func(lane overload.Lane, work time.Duration) {
			at := time.Now()
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			leave := func() {}
			if enter != nil {
				var ok bool
				if leave, ok = enter(ctx, lane); !ok {
					return
				}
			}
			if lane == overload.Control {
				mu.Lock()
				stops = append(stops, time.Since(at))
				mu.Unlock()
				leave()
				return
			}
			h.do(work)
			leave()
			if at.Sub(began) < warmUp {
				return
			}
			mu.Lock()
			took = append(took, time.Since(at))
			mu.Unlock()
			if time.Since(at) <= patience {
				good.Add(1)
			}
		}
		every := float64(time.Second) / (times * capacity)
		next := time.Duration(0)
		for i := 0; next < long; i++ {
			next += time.Duration(r.ExpFloat64() * every)
			time.Sleep(time.Until(began.Add(next))) // of the bubble
			work := time.Duration(r.ExpFloat64() * float64(service))
			all.Go(func() { ask(overload.Submit, work) })
			if i%100 == 0 {
				all.Go(func() { ask(overload.Control, 0) })
			}
		}
		all.Wait()
		out = outcome{good: float64(good.Load()) / (capacity * (long - warmUp).Seconds()), p99: p99(took), stopP99: p99(stops)}
	})
	return out
}

func p99(list []time.Duration) time.Duration {
	if len(list) == 0 {
		return 0
	}
	slices.Sort(list)
	return list[len(list)*99/100]
}

// TestGoodput: at four times of what a host can do it does nearly as much in time as it
// can, and stops get in at once. Beside it stand a host that takes everything on, and one
// with a fixed limit.
func TestGoodput(t *testing.T) {
	long := 20 * time.Second
	if os.Getenv("SKEIN_PROVE") == "1" {
		long = 5 * time.Minute
	}
	bare := offer(t, 4, long, nil)
	var places chan struct{}
	var made sync.Once
	fixed := offer(t, 4, long, func(context.Context, overload.Lane) (func(), bool) {
		made.Do(func() { places = make(chan struct{}, 100) }) // of the bubble
		select {
		case places <- struct{}{}:
			return func() { <-places }, true
		default:
			return nil, false
		}
	})
	var g *Gate
	var once sync.Once
	ours := offer(t, 4, long, func(ctx context.Context, lane overload.Lane) (func(), bool) {
		once.Do(func() { // in the bubble, whose clock it has
			var level overload.Level
			g = newGate(t, &level)
		})
		leave, refused := g.Enter(ctx, lane, true)
		return leave, refused == nil
	})
	t.Logf("goodput at 4x: bare %.2f, 100 places %.2f, ours %.2f of capacity; p99 of what is let in: bare %s, 100 places %s, ours %s; until a stop begins: ours %s",
		bare.good, fixed.good, ours.good, bare.p99, fixed.p99, ours.p99, ours.stopP99)
	if ours.good < 0.9 || ours.p99 > patience {
		t.Errorf("goodput %.2f of capacity, want 0.9; p99 %s, want %s", ours.good, ours.p99, patience)
	}
	if ours.stopP99 > 2*time.Second {
		t.Errorf("a stop waits %s", ours.stopP99)
	}
	if bare.good > 0.3 {
		t.Errorf("without the gate %.2f of capacity: the load is none", bare.good)
	}
}
