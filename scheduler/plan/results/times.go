package results

import (
	"math"
	"time"

	"github.com/skein-project/skein/cluster/job"
)

// Times counts run times, 4 buckets per octave of milliseconds.
type Times struct {
	bucket [128]uint32
	n      uint32
}

// Add counts one more.
func (h *Times) Add(seconds float64) {
	i := 0
	if ms := seconds * 1000; ms > 1 {
		i = min(int(4*math.Log2(ms)), len(h.bucket)-1)
	}
	h.bucket[i]++
	h.n++
}

// Quantile is the upper end of the bucket that holds it.
func (h *Times) Quantile(q float64) time.Duration {
	above := uint32(float64(h.n) * (1 - q))
	for i := len(h.bucket) - 1; i >= 0 && h.n > 0; i-- {
		if h.bucket[i] > above {
			ms := math.Exp2(float64(i+1) / 4)
			return time.Duration(min(ms, job.MaxChunkTimeout.Seconds()*1000) * float64(time.Millisecond))
		}
		above -= h.bucket[i]
	}
	return 0
}

// Len returns how many were counted.
func (h *Times) Len() int { return int(h.n) }
