package skeinwasm

import (
	"encoding/json"
	"math"
	"sort"
)

// Limits of what a worker takes.
const (
	maxBuckets    = 1024    // of one metric
	maxAllBuckets = 1 << 14 // of all metrics of a result
	maxLevel      = 10
)

// Sketch counts samples in buckets that grow by 2^(1/32), so that every quantile
// of a job is right to 1.1 %. Give a Metric one before its first Add.
type Sketch struct {
	zero         uint64
	below, above side
	level        int
}

// NewSketch returns an empty sketch.
func NewSketch() *Sketch { return &Sketch{} }

// side counts the samples of one sign by bucket; n[0] is that of index first.
type side struct {
	first int
	n     []int64
}

func (s *side) add(index int) {
	switch {
	case len(s.n) == 0:
		s.first, s.n = index, append(s.n, 0)
	case index < s.first:
		s.n = append(make([]int64, s.first-index), s.n...)
		s.first = index
	}
	for index-s.first >= len(s.n) {
		s.n = append(s.n, 0)
	}
	s.n[index-s.first]++
}

// join joins the buckets in pairs.
func (s *side) join() {
	if len(s.n) == 0 {
		return
	}
	half := func(i int) int { return (i + 1) >> 1 }
	out := side{first: half(s.first), n: make([]int64, half(s.first+len(s.n)-1)-half(s.first)+1)}
	for i, n := range s.n {
		out.n[half(s.first+i)-out.first] += n
	}
	*s = out
}

// pairs lists index and count of the buckets that are not empty.
func (s *side) pairs() []int64 {
	out := []int64{}
	for i, n := range s.n {
		if n > 0 {
			out = append(out, int64(s.first+i), n)
		}
	}
	return out
}

// largest is the magnitude above which no value counts; below its reciprocal
// all count as zero.
const largest = 1e140

// ends are where the buckets of one octave end.
var ends = func() (e [32]float64) {
	for j := range e {
		e[j] = math.Exp2(float64(j-32) / 32)
	}
	return e
}()

func (s *Sketch) add(x float64) {
	f, exp := math.Frexp(math.Abs(x))
	if !(math.Abs(x) >= 1/largest) {
		s.zero++
		return
	}
	index := 32*(exp-1) + sort.SearchFloat64s(ends[:], f)
	if x < 0 {
		s.below.add(index)
		return
	}
	s.above.add(index)
}

// coarsen joins buckets until there are at most limit.
func (s *Sketch) coarsen(limit int) {
	for s.level < maxLevel && (len(s.below.pairs())+len(s.above.pairs()))/2 > limit {
		s.below.join()
		s.above.join()
		s.level++
	}
}

// MarshalJSON writes the form that a worker reads.
func (s *Sketch) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Level int     `json:"level"`
		Zero  uint64  `json:"zero"`
		Below []int64 `json:"below"` // index and count in turn
		Above []int64 `json:"above"`
	}{s.level, s.zero, s.below.pairs(), s.above.pairs()})
}

// fit makes the sketches of a result as coarse as the limits want.
func fit(metrics map[string]Metric) {
	n := 0
	for _, m := range metrics {
		if m.Sketch != nil {
			n++
		}
	}
	for _, m := range metrics {
		if m.Sketch != nil {
			m.Sketch.coarsen(min(maxBuckets, maxAllBuckets/n))
		}
	}
}
