package stat

import (
	"math"
	"time"

	"github.com/skein-project/skein/cluster/job"
)

// Times are counted from 2^-20 s to 2^12 s, in 32 buckets an octave: bucket i is
// that of index i+lowest of a sketch.
const (
	octaves = 32
	steps   = 32
	buckets = octaves * steps
	lowest  = -20*steps + 1
)

const (
	least = 955 * time.Nanosecond // a little more than 2^-20 s
	most  = 4096 * time.Second
)

// bounds are the ends of the buckets of one octave, from 1 to 2, as mantissas; first
// is the bucket in which to begin to look, by the highest bits of a mantissa.
var bounds, first = func() (b [steps]uint64, f [256]uint8) {
	for i := range b {
		b[i] = math.Float64bits(math.Exp2(float64(i+1)/steps)) & mantissa
	}
	b[steps-1] = mantissa + 1 // the next octave begins there
	for i := range f {
		low := uint64(i) << (52 - 8)
		for int(f[i]) < steps-1 && b[f[i]] < low {
			f[i]++
		}
	}
	return b, f
}()

const mantissa = 1<<52 - 1

// place is the bucket of a time in seconds.
func place(seconds float64) int {
	bits := math.Float64bits(seconds)
	octave := int(bits>>52) - 1023 + 20
	m := bits & mantissa
	if m == 0 { // a power of two ends the bucket before
		return octave*steps - 1
	}
	i := int(first[m>>(52-8)])
	for m > bounds[i] {
		i++
	}
	return octave*steps + i
}

// Hist is a distribution of times. Its zero value is empty.
type Hist struct {
	N       uint64
	sum     float64 // seconds
	squares float64
	min     time.Duration
	max     time.Duration
	low     int // buckets from low to high are in use
	high    int
	counts  []uint64
}

// Record counts a time.
func (h *Hist) Record(d time.Duration) {
	d = min(max(d, least), most)
	s := float64(d) * 1e-9
	i := place(s)
	h.reach(i, i)
	h.counts[i]++
	if h.N == 0 || d < h.min {
		h.min = d
	}
	h.max = max(h.max, d)
	h.N++
	h.sum += s
	h.squares += s * s
}

// reach widens what is in use.
func (h *Hist) reach(low, high int) {
	if h.counts == nil {
		h.counts = make([]uint64, buckets)
		h.low, h.high = low, high
		return
	}
	if h.N == 0 {
		h.low, h.high = low, high
		return
	}
	h.low, h.high = min(h.low, low), max(h.high, high)
}

// Reset empties it and keeps its memory.
func (h *Hist) Reset() {
	if h.N > 0 {
		clear(h.counts[h.low : h.high+1])
	}
	*h = Hist{counts: h.counts}
}

// Add counts all of o as well.
func (h *Hist) Add(o *Hist) {
	if o.N == 0 {
		return
	}
	h.reach(o.low, o.high)
	for i := o.low; i <= o.high; i++ {
		h.counts[i] += o.counts[i]
	}
	h.moments(o.N, o.sum, o.squares, o.min, o.max)
}

func (h *Hist) moments(n uint64, sum, squares float64, low, high time.Duration) {
	if h.N == 0 || low < h.min {
		h.min = low
	}
	h.max = max(h.max, high)
	h.N += n
	h.sum += sum
	h.squares += squares
}

// Mean is in seconds, 0 of nothing.
func (h *Hist) Mean() float64 {
	if h.N == 0 {
		return 0
	}
	return h.sum / float64(h.N)
}

// Min and Max are in seconds.
func (h *Hist) Min() float64 { return h.min.Seconds() }

// Max is the longest time, in seconds.
func (h *Hist) Max() float64 { return h.max.Seconds() }

// Quantile is the least time that a share of q of all do not exceed: of ten, the 99th
// percentile is the longest. In seconds, to the accuracy of a sketch, and never outside
// least and greatest time; NaN of nothing.
func (h *Hist) Quantile(q float64) float64 {
	if h.N == 0 {
		return math.NaN()
	}
	rank := min(h.N-1, uint64(max(0, math.Ceil(q*float64(h.N)-1e-6)-1)))
	for i := h.low; i <= h.high; i++ {
		if rank < h.counts[i] {
			g := math.Exp2(float64(i+lowest) / steps)
			x := 2 * g / (1 + math.Exp2(1.0/steps))
			return min(max(x, h.Min()), h.Max())
		}
		rank -= h.counts[i]
	}
	return h.Max()
}

// Within is how many times are at most 2^octave seconds.
func (h *Hist) Within(octave int) (n uint64) {
	if h.N == 0 {
		return 0
	}
	end := (octave+20)*steps - 1 // a power of two ends its bucket
	for i := h.low; i <= min(h.high, end); i++ {
		n += h.counts[i]
	}
	return n
}

// Metric is the distribution as others merge it, in seconds.
func (h *Hist) Metric() job.Metric {
	if h.N == 0 {
		return job.Metric{}
	}
	m := job.Metric{N: h.N, Mean: h.Mean(), Min: h.Min(), Max: h.Max(), Sketch: &job.Sketch{}}
	m.M2 = max(0, h.squares-h.sum*h.Mean())
	m.Mean = min(max(m.Mean, m.Min), m.Max)
	for i := h.low; i <= h.high; i++ {
		if h.counts[i] > 0 {
			m.Sketch.Above = append(m.Sketch.Above, int64(i+lowest), int64(h.counts[i]))
		}
	}
	return m
}

// AddMetric counts what Metric told, as well: to the count. Buckets that are none of
// a Hist count as the nearest.
func (h *Hist) AddMetric(m job.Metric) {
	if m.N == 0 || m.Sketch == nil {
		return
	}
	if h.counts == nil {
		h.counts = make([]uint64, buckets)
	}
	low, high := buckets, -1
	h.sparse(m.Sketch, func(i int, n uint64) {
		h.counts[i] += n
		low, high = min(low, i), max(high, i)
	})
	h.reach(low, high)
	h.moments(m.N, m.Mean*float64(m.N), m.M2+m.Mean*m.Mean*float64(m.N), seconds(m.Min), seconds(m.Max))
}

func (h *Hist) sparse(s *job.Sketch, take func(i int, n uint64)) {
	for k := 0; k+1 < len(s.Above); k += 2 {
		take(min(max(int(s.Above[k]<<s.Level)-lowest, 0), buckets-1), uint64(s.Above[k+1]))
	}
}

// SubMetric takes back what AddMetric counted. Least and greatest time stay those
// of all that ever was.
func (h *Hist) SubMetric(m job.Metric) {
	if m.N == 0 || m.Sketch == nil {
		return
	}
	h.sparse(m.Sketch, func(i int, n uint64) { h.counts[i] -= n })
	if h.N -= m.N; h.N == 0 {
		h.Reset()
		return
	}
	h.sum -= m.Mean * float64(m.N)
	h.squares -= m.M2 + m.Mean*m.Mean*float64(m.N)
}

func seconds(x float64) time.Duration { return time.Duration(math.Round(x * 1e9)) }

// Accuracy is the relative error that a quantile has at most.
func Accuracy() float64 { return (&job.Sketch{}).Accuracy() }
