package job

import (
	"errors"
	"fmt"
	"math"
)

// MaxMetricValue bounds the magnitude of a mean, a minimum and a maximum: its
// square, summed, stays finite.
const MaxMetricValue = 1e140

// Metric summarises n samples: mean, M2 = sum of squared deviations from the
// mean, minimum and maximum (Welford 1962), and if there is a sketch, their
// distribution.
type Metric struct {
	N      uint64  `json:"n"`
	Mean   float64 `json:"mean"`
	M2     float64 `json:"m2"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
	Sketch *Sketch `json:"sketch,omitempty"` // never changed once it is set
}

// Equal reports whether m and o say the same, to the bit.
func (m Metric) Equal(o Metric) bool {
	s, t := m.Sketch, o.Sketch
	m.Sketch, o.Sketch = nil, nil
	return m == o && s.Equal(t)
}

// Merge combines two disjoint samples (Chan, Golub, LeVeque 1979). An empty one
// is the identity. There is a sketch if both have one. Moments depend on the
// order of merging in their last bits; sketches do not. The conversions keep
// every product rounded before it is added: fused operations would give other
// bits on other processors.
func (m Metric) Merge(o Metric) Metric {
	switch {
	case m.N == 0:
		return o
	case o.N == 0:
		return m
	}
	na, nb := float64(m.N), float64(o.N)
	n := na + nb
	d := o.Mean - m.Mean
	out := Metric{
		N:    m.N + o.N,
		Mean: m.Mean + float64(d*float64(nb/n)),
		M2:   float64(m.M2+o.M2) + float64(float64(d*d)*float64(float64(na*nb)/n)),
		Min:  min(m.Min, o.Min),
		Max:  max(m.Max, o.Max),
	}
	if m.Sketch != nil && o.Sketch != nil {
		out.Sketch = m.Sketch.Merge(o.Sketch, MaxMergedBuckets)
	}
	return out
}

// Std is the sample standard deviation; 0 for less than two samples.
func (m Metric) Std() float64 {
	if m.N < 2 {
		return 0
	}
	return math.Sqrt(m.M2 / float64(m.N-1))
}

// SE is the standard error of the mean; 0 for less than two samples.
func (m Metric) SE() float64 {
	if m.N < 2 {
		return 0
	}
	return m.Std() / math.Sqrt(float64(m.N))
}

// z95 is the 97.5 % quantile of the normal distribution.
const z95 = 1.959963984540054

// CI95 is half the width of the normal 95 % interval of the mean.
func (m Metric) CI95() float64 { return z95 * m.SE() }

// RelativeError is half the width of the 95 % interval over the magnitude of
// the mean: what a job that is to stop early is judged by. It is infinite while
// there is no interval or the mean is 0.
func (m Metric) RelativeError() float64 {
	e := m.CI95() / math.Abs(m.Mean)
	if m.N < 2 || math.IsNaN(e) {
		return math.Inf(1)
	}
	return e
}

// Strays reports whether the mean of m, a part of whole, is further from the
// mean of whole than six of the standard errors that a part of its size has:
// among honest parts that happens once in 500 million.
func (m Metric) Strays(whole Metric) bool {
	if m.N == 0 || whole.N < 2 || m.N >= whole.N {
		return false
	}
	return math.Abs(m.Mean-whole.Mean) > 6*whole.Std()/math.Sqrt(float64(m.N))
}

// Validate checks a metric of that many iterations, see ChunkResult.Validate.
func (m Metric) Validate(iterations uint64) error {
	if err := m.finite(iterations); err != nil {
		return err
	}
	for _, v := range []float64{m.Mean, m.Min, m.Max} {
		if math.Abs(v) > MaxMetricValue {
			return fmt.Errorf("%g is beyond %g", v, MaxMetricValue)
		}
	}
	spread := m.Max - m.Min
	slack := 1e-9 * max(math.Abs(m.Min), math.Abs(m.Max))
	switch {
	case m.Min > m.Max || m.Mean < m.Min-slack || m.Mean > m.Max+slack:
		return fmt.Errorf("want min <= mean <= max, have %g, %g, %g", m.Min, m.Mean, m.Max)
	case m.M2 < 0 || m.M2 > float64(m.N)*(spread*spread/4)*(1+1e-9)+slack*slack*float64(m.N):
		return fmt.Errorf("m2 is %g, want 0 to n*(max-min)^2/4 = %g", m.M2, float64(m.N)*spread*spread/4)
	}
	return m.Sketch.Validate(m, MaxSketchBuckets)
}

// finite checks that the numbers of m are some, of at least one sample.
func (m Metric) finite(iterations uint64) error {
	for _, v := range []float64{m.Mean, m.M2, m.Min, m.Max} {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return errors.New("a number is not finite")
		}
	}
	if m.N == 0 || m.N > iterations {
		return fmt.Errorf("n is %d, want 1-%d", m.N, iterations)
	}
	return nil
}
