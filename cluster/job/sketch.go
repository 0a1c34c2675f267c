package job

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

// Bounds of sketches.
const (
	// MaxSketchBuckets bounds the buckets of one metric of a chunk,
	// MaxResultBuckets those of all its metrics.
	MaxSketchBuckets = 1024
	MaxResultBuckets = 1 << 14
	// MaxMergedBuckets bounds the buckets of a metric of a job. When there would
	// be more, buckets are joined in pairs.
	MaxMergedBuckets = 2048
	// MaxSketchLevel is how often buckets can be joined.
	MaxSketchLevel = 10
)

// sketchSteps is the number of buckets in an octave at level 0; the highest
// index is that of MaxMetricValue. A smaller magnitude than its reciprocal
// counts as zero.
const (
	sketchSteps    = 32
	maxSketchIndex = 466 * sketchSteps
)

// Sketch is the distribution of samples in buckets that grow by a factor, so
// that every quantile has the same relative error: DDSketch (Masson, Rim, Lee
// 2019), with all buckets joined in pairs where there are too many (Epicoco et
// al. 2020). At level l the factor is g = 2^(2^l/32), and bucket i has the
// magnitudes in (g^(i-1), g^i]; at level 0 a quantile is right to 1.1 %.
//
// Counts are whole numbers and joining pairs loses no order: sketches merged in
// any order, in any grouping, are equal.
type Sketch struct {
	Level int    `json:"level,omitempty"`
	Zero  uint64 `json:"zero,omitempty"` // samples that are 0, or next to it
	// Below has the buckets of samples under 0, Above of those over it: index
	// and count in turn, indices rising, counts above 0.
	Below []int64 `json:"below,omitempty"`
	Above []int64 `json:"above,omitempty"`
}

// Buckets counts the buckets of s; nil has none.
func (s *Sketch) Buckets() int {
	if s == nil {
		return 0
	}
	return (len(s.Below) + len(s.Above)) / 2
}

// Count is the number of samples of a valid sketch.
func (s *Sketch) Count() uint64 {
	if s == nil {
		return 0
	}
	n := s.Zero
	for _, side := range [...][]int64{s.Below, s.Above} {
		for i := 1; i < len(side); i += 2 {
			n += uint64(side[i])
		}
	}
	return n
}

// Equal reports whether s and o say the same; nil equals nil alone.
func (s *Sketch) Equal(o *Sketch) bool {
	if s == nil || o == nil {
		return s == o
	}
	return s.Level == o.Level && s.Zero == o.Zero && slices.Equal(s.Below, o.Below) && slices.Equal(s.Above, o.Above)
}

// Validate checks that s has at most limit buckets, and that they can be those
// of the samples of m. A metric needs no sketch.
func (s *Sketch) Validate(m Metric, limit int) error {
	if s == nil {
		return nil
	}
	if s.Level < 0 || s.Level > MaxSketchLevel {
		return fmt.Errorf("sketch: level is %d, want 0-%d", s.Level, MaxSketchLevel)
	}
	if n := s.Buckets(); n > limit {
		return fmt.Errorf("sketch: %d buckets, at most %d are allowed", n, limit)
	}
	left := m.N
	if s.Zero > left {
		return fmt.Errorf("sketch: more samples than n, which is %d", m.N)
	}
	left -= s.Zero
	for _, side := range [...][]int64{s.Below, s.Above} {
		if err := s.checkSide(side, &left); err != nil {
			return fmt.Errorf("sketch: %w", err)
		}
	}
	if left > 0 {
		return fmt.Errorf("sketch: %d samples less than n, which is %d", left, m.N)
	}
	return s.within(m)
}

// checkSide checks one side and takes its samples from left.
func (s *Sketch) checkSide(side []int64, left *uint64) error {
	if len(side)%2 != 0 {
		return errors.New("want index and count in turn, the last count is missing")
	}
	low, high := coarser(1-maxSketchIndex, s.Level), coarser(maxSketchIndex, s.Level)
	for i := 0; i < len(side); i += 2 {
		index, n := side[i], side[i+1]
		switch {
		case index < low || index > high:
			return fmt.Errorf("index %d, want %d to %d at level %d", index, low, high, s.Level)
		case i > 0 && side[i-2] >= index:
			return fmt.Errorf("index %d after %d, want them rising", index, side[i-2])
		case n < 1:
			return fmt.Errorf("bucket %d counts %d, want at least 1", index, n)
		case uint64(n) > *left:
			return errors.New("more samples than n")
		}
		*left -= uint64(n)
	}
	return nil
}

// within checks that the outermost buckets lie within the metric's range, with
// a bucket's room for rounding.
func (s *Sketch) within(m Metric) error {
	low, high := s.rank(0), s.rank(s.Count()-1)
	if low < s.place(m.Min)-1 || high > s.place(m.Max)+1 {
		return fmt.Errorf("sketch: has samples outside min and max, which are %g and %g", m.Min, m.Max)
	}
	return nil
}

// place orders buckets by what they hold: 0 for zero, and above it those above
// zero, by index.
func (s *Sketch) place(x float64) int64 {
	i, zero := sketchIndex(math.Abs(x))
	switch i = coarser(i, s.Level) + 2*maxSketchIndex; {
	case zero:
		return 0
	case x < 0:
		return -i
	}
	return i
}

// rank returns the place of the sample of that rank, from 0.
func (s *Sketch) rank(r uint64) int64 {
	for i := len(s.Below) - 2; i >= 0; i -= 2 {
		n := uint64(s.Below[i+1])
		if r < n {
			return -(s.Below[i] + 2*maxSketchIndex)
		}
		r -= n
	}
	if r < s.Zero {
		return 0
	}
	r -= s.Zero
	for i := 0; i < len(s.Above); i += 2 {
		n := uint64(s.Above[i+1])
		if r < n {
			return s.Above[i] + 2*maxSketchIndex
		}
		r -= n
	}
	return 0
}

// Quantile returns the sample at share q of 0 to 1 of all, to the relative error
// that Accuracy tells, of a valid sketch with samples.
func (s *Sketch) Quantile(q float64) float64 {
	n := s.Count()
	if n == 0 || !(q >= 0 && q <= 1) {
		return math.NaN()
	}
	at := s.rank(min(n-1, uint64(q*float64(n-1))))
	switch {
	case at > 0:
		return s.middle(at - 2*maxSketchIndex)
	case at < 0:
		return -s.middle(-at - 2*maxSketchIndex)
	}
	return 0
}

// middle is the value whose relative distance to both ends of bucket i is the
// same. It uses exact operations only.
func (s *Sketch) middle(i int64) float64 {
	g := power(int64(1) << s.Level)
	return 2 * power(i<<s.Level) / (1 + g)
}

// Accuracy is the relative error that a quantile has at most.
func (s *Sketch) Accuracy() float64 {
	g := power(int64(1) << s.Level)
	return (g - 1) / (g + 1)
}

// power is 2^(i/32).
func power(i int64) float64 {
	octave := i >> 5
	return math.Ldexp(steps[i&(sketchSteps-1)], int(octave)+1)
}

// coarser is the index at a level of what has index i at level 0.
func coarser(i int64, level int) int64 { return (i + 1<<level - 1) >> level }

// sketchIndex returns the bucket of a magnitude at level 0. It looks the place
// in the octave up, so it is the same on every processor.
func sketchIndex(x float64) (index int64, zero bool) {
	if !(x >= 1/MaxMetricValue) {
		return 0, true
	}
	f, e := math.Frexp(min(x, MaxMetricValue))
	at, _ := slices.BinarySearch(steps[:], f)
	return int64(e-1)*sketchSteps + int64(at), false
}

// steps are the powers 2^((j-32)/32): where the buckets of an octave end.
var steps = [sketchSteps]float64{
	0.5, 0.5109485743270583, 0.5221368912137069, 0.5335702003384118,
	0.5452538663326288, 0.5571933712979462, 0.5693943173783458, 0.5818624293887887,
	0.5946035575013605, 0.6076236799902345, 0.620928906036742, 0.6345254785958666,
	0.6484197773255048, 0.6626183215798707, 0.6771277734684463, 0.691954940981916,
	0.7071067811865476, 0.7225904034885233, 0.7384130729697497, 0.7545822137967114,
	0.7711054127039704, 0.7879904225539432, 0.8052451659746271, 0.8228777390769825,
	0.8408964152537145, 0.859309649061239, 0.8781260801866497, 0.8973545375015536,
	0.9170040432046712, 0.93708381705515, 0.9576032806985737, 0.9785720620877001,
}

// Merge adds o to s and joins buckets until there are at most limit. Neither
// is changed.
func (s *Sketch) Merge(o *Sketch, limit int) *Sketch {
	level := max(s.Level, o.Level)
	a, b := s.atLevel(level), o.atLevel(level)
	out := &Sketch{Level: level, Zero: a.Zero + b.Zero, Below: addSides(a.Below, b.Below), Above: addSides(a.Above, b.Above)}
	return out.Coarsen(limit)
}

// Coarsen joins buckets until there are at most limit.
func (s *Sketch) Coarsen(limit int) *Sketch {
	for s.Buckets() > limit && s.Level < MaxSketchLevel {
		s = s.atLevel(s.Level + 1)
	}
	return s
}

// atLevel is s with its buckets joined up to level.
func (s *Sketch) atLevel(level int) *Sketch {
	if s.Level >= level {
		return s
	}
	by := level - s.Level
	return &Sketch{Level: level, Zero: s.Zero, Below: joinPairs(s.Below, by), Above: joinPairs(s.Above, by)}
}

func joinPairs(side []int64, by int) []int64 {
	var out []int64
	for i := 0; i < len(side); i += 2 {
		index := coarser(side[i], by)
		if n := len(out); n > 0 && out[n-2] == index {
			out[n-1] += side[i+1]
			continue
		}
		out = append(out, index, side[i+1])
	}
	return out
}

// addSides adds two sides of one level.
func addSides(a, b []int64) []int64 {
	switch {
	case len(a) == 0:
		return b
	case len(b) == 0:
		return a
	}
	out := make([]int64, 0, len(a)+len(b))
	for len(a) > 0 && len(b) > 0 {
		switch {
		case a[0] < b[0]:
			out, a = append(out, a[0], a[1]), a[2:]
		case b[0] < a[0]:
			out, b = append(out, b[0], b[1]), b[2:]
		default:
			out, a, b = append(out, a[0], a[1]+b[1]), a[2:], b[2:]
		}
	}
	out = append(out, a...)
	return append(out, b...)
}
