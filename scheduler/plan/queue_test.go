package plan

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/skein-project/skein/scheduler/plan/order"
)

func TestHeapAgainstNaive(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	var h order.Heap[*timer]
	all := make([]*timer, 30)
	for i := range all {
		all[i] = &timer{chunk: i}
	}
	for step := range 3000 {
		x := all[rng.IntN(len(all))]
		if rng.IntN(3) == 0 {
			h.Remove(x)
		} else {
			x.at, x.order = time.Duration(rng.IntN(100)), uint64(step)
			h.Fix(x)
		}
		in := slices.DeleteFunc(slices.Clone(all), func(t *timer) bool { return t.pos == 0 })
		if len(in) != len(h.Items()) {
			t.Fatalf("%d elements, want %d", len(h.Items()), len(in))
		}
		if len(in) > 0 && slices.ContainsFunc(in, func(o *timer) bool { return o.Before(h.Items()[0]) }) {
			t.Fatalf("step %d: the first is not the least", step)
		}
	}
}

// keyed is an element of the heap that the queue is compared with.
type keyed struct {
	key uint64
	pos int
}

func (k *keyed) Before(o *keyed) bool { return k.key < o.key }
func (k *keyed) Place() *int          { return &k.pos }

// BenchmarkChoose assigns to the least loaded of 10 000 nodes and lets another
// one finish, by the bucket queue, and beside it by a binary heap.
func BenchmarkChoose(b *testing.B) {
	const nodes = 10_000
	work := func(rng *rand.Rand) uint64 { return 1e9 + rng.Uint64N(1e9) }
	byQueue := func(n int) time.Duration {
		var q order.Queue
		keys := make([]uint64, nodes)
		rng := rand.New(rand.NewPCG(1, 2))
		for i := range keys {
			keys[i] = 20 * work(rng)
			q.Set(int32(i), keys[i])
		}
		start := time.Now()
		for range n {
			i, _ := q.Min()
			d := work(rng)
			keys[i] += d
			q.Set(i, keys[i])
			o := rng.IntN(nodes)
			keys[o] -= min(keys[o], d)
			q.Set(int32(o), keys[o])
		}
		return time.Since(start)
	}
	byHeap := func(n int) time.Duration {
		var h order.Heap[*keyed]
		all := make([]*keyed, nodes)
		rng := rand.New(rand.NewPCG(1, 2))
		for i := range all {
			all[i] = &keyed{key: 20 * work(rng)}
			h.Fix(all[i])
		}
		start := time.Now()
		for range n {
			x := h.Items()[0]
			d := work(rng)
			x.key += d
			h.Fix(x)
			o := all[rng.IntN(nodes)]
			o.key -= min(o.key, d)
			h.Fix(o)
		}
		return time.Since(start)
	}
	var queueTime, heapTime time.Duration
	const round = 20_000
	rounds := 0
	for b.Loop() {
		queueTime += byQueue(round)
		heapTime += byHeap(round)
		rounds++
	}
	n := float64(rounds * round)
	b.ReportMetric(n/queueTime.Seconds(), "queue-ops/s")
	b.ReportMetric(n/heapTime.Seconds(), "heap-ops/s")
	b.ReportMetric(heapTime.Seconds()/queueTime.Seconds(), "x-heap")
}

func prove() bool { return os.Getenv("SKEIN_PROVE") == "1" }

func nodeName(i int) string { return fmt.Sprintf("w%05d", i) }
