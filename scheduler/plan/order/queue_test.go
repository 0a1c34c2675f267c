package order

import (
	"math/rand/v2"
	"slices"
	"testing"
)

func TestBucketsAreAnEighthOfAnOctave(t *testing.T) {
	last := -1
	for key := range uint64(1 << 20) {
		b := BucketOf(key)
		if b < last || b > last+1 {
			t.Fatalf("key %d is in bucket %d, the one before in %d", key, b, last)
		}
		last = b
	}
	for _, key := range []uint64{1 << 10, 3 << 40, 1<<63 + 12345} {
		if low, high := BucketOf(key), BucketOf(key+key/7); high == low {
			t.Errorf("%d and %d share bucket %d", key, key+key/7, low)
		}
	}
	if b := BucketOf(1<<64 - 1); b >= buckets {
		t.Errorf("the highest key is in bucket %d of %d", b, buckets)
	}
}

// TestQueueAgainstNaive compares with a list that is sorted for every question.
func TestQueueAgainstNaive(t *testing.T) {
	for seed := range uint64(50) {
		rng := rand.New(rand.NewPCG(seed, 1))
		var q Queue
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
				q.Remove(i)
				if k >= 0 {
					list = slices.Delete(list, k, k+1)
				}
			} else {
				key := rng.Uint64() >> rng.IntN(64)
				q.Set(i, key)
				switch b := BucketOf(key); {
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
			if got := slices.Collect(q.All); !slices.Equal(got, want) || q.size != len(want) {
				t.Fatalf("seed %d step %d: have %v, want %v", seed, step, got, want)
			}
		}
	}
}
