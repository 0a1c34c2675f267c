package plan

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"
)

func TestBucketsAreAnEighthOfAnOctave(t *testing.T) {
	last := -1
	for key := range uint64(1 << 20) {
		b := bucketOf(key)
		if b < last || b > last+1 {
			t.Fatalf("key %d is in bucket %d, the one before in %d", key, b, last)
		}
		last = b
	}
	for _, key := range []uint64{1 << 10, 3 << 40, 1<<63 + 12345} {
		if low, high := bucketOf(key), bucketOf(key+key/7); high == low {
			t.Errorf("%d and %d share bucket %d", key, key+key/7, low)
		}
	}
	if b := bucketOf(1<<64 - 1); b >= buckets {
		t.Errorf("the highest key is in bucket %d of %d", b, buckets)
	}
}

// TestQueueAgainstNaive compares with a list that is sorted for every question.
func TestQueueAgainstNaive(t *testing.T) {
	for seed := range uint64(50) {
		rng := rand.New(rand.NewPCG(seed, 1))
		var q queue
		type entry struct {
			i     int32
			at    int
			order int
		}
		var list []entry
		for step := range 400 {
			i := int32(rng.IntN(40))
			k := slices.IndexFunc(list, func(e entry) bool { return e.i == i })
			if rng.IntN(3) == 0 {
				q.remove(i)
				if k >= 0 {
					list = slices.Delete(list, k, k+1)
				}
			} else {
				key := rng.Uint64() >> rng.IntN(64)
				q.set(i, key)
				switch b := bucketOf(key); {
				case k < 0:
					list = append(list, entry{i, b, step})
				case list[k].at != b:
					list[k].at, list[k].order = b, step
				}
			}
			slices.SortFunc(list, func(a, b entry) int {
				if a.at != b.at {
					return a.at - b.at
				}
				return a.order - b.order
			})
			var want []int32
			for _, e := range list {
				want = append(want, e.i)
			}
			if got := slices.Collect(q.all); !slices.Equal(got, want) || q.size != len(want) {
				t.Fatalf("seed %d step %d: have %v, want %v", seed, step, got, want)
			}
		}
	}
}

func TestHeapAgainstNaive(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	var h heap[*timer]
	all := make([]*timer, 30)
	for i := range all {
		all[i] = &timer{chunk: i}
	}
	for step := range 3000 {
		x := all[rng.IntN(len(all))]
		if rng.IntN(3) == 0 {
			h.remove(x)
		} else {
			x.at, x.order = time.Duration(rng.IntN(100)), uint64(step)
			h.fix(x)
		}
		in := slices.DeleteFunc(slices.Clone(all), func(t *timer) bool { return t.pos == 0 })
		if len(in) != len(h.items) {
			t.Fatalf("%d elements, want %d", len(h.items), len(in))
		}
		if len(in) > 0 && slices.ContainsFunc(in, func(o *timer) bool { return o.before(h.items[0]) }) {
			t.Fatalf("step %d: the first is not the least", step)
		}
	}
}

// keyed is an element of the heap that the queue is compared with.
type keyed struct {
	key uint64
	pos int
}

func (k *keyed) before(o *keyed) bool { return k.key < o.key }
func (k *keyed) place() *int          { return &k.pos }

// BenchmarkChoose assigns to the least loaded of 10 000 nodes and lets another
// one finish, by the bucket queue, and beside it by a binary heap.
func BenchmarkChoose(b *testing.B) {
	const nodes = 10_000
	work := func(rng *rand.Rand) uint64 { return 1e9 + rng.Uint64N(1e9) }
	byQueue := func(n int) time.Duration {
		var q queue
		keys := make([]uint64, nodes)
		rng := rand.New(rand.NewPCG(1, 2))
		for i := range keys {
			keys[i] = 20 * work(rng)
			q.set(int32(i), keys[i])
		}
		start := time.Now()
		for range n {
			i, _ := q.min()
			d := work(rng)
			keys[i] += d
			q.set(i, keys[i])
			o := rng.IntN(nodes)
			keys[o] -= min(keys[o], d)
			q.set(int32(o), keys[o])
		}
		return time.Since(start)
	}
	byHeap := func(n int) time.Duration {
		var h heap[*keyed]
		all := make([]*keyed, nodes)
		rng := rand.New(rand.NewPCG(1, 2))
		for i := range all {
			all[i] = &keyed{key: 20 * work(rng)}
			h.fix(all[i])
		}
		start := time.Now()
		for range n {
			x := h.items[0]
			d := work(rng)
			x.key += d
			h.fix(x)
			o := all[rng.IntN(nodes)]
			o.key -= min(o.key, d)
			h.fix(o)
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
