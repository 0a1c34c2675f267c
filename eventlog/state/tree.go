package state

import (
	"math"
	"slices"

	"github.com/skein-project/skein/cluster"
)

// tree merges the metrics of n chunks pairwise. Its shape depends on n alone:
// node i of a level merges nodes 2i and 2i+1 of the level below, and a node
// without sibling is carried up. The root is the same, to the bit, in whatever
// order the leaves are set.
type tree struct {
	levels [][]cluster.Metric // leaves first, the root last
}

func newTree(n int) *tree {
	t := &tree{}
	for {
		t.levels = append(t.levels, make([]cluster.Metric, n))
		if n <= 1 {
			return t
		}
		n = (n + 1) / 2
	}
}

// set changes leaf i and the path above it.
func (t *tree) set(i int, m cluster.Metric) {
	if t.levels[0][i].N == 0 && m.N == 0 {
		return
	}
	t.levels[0][i] = m
	for l := 1; l < len(t.levels); l++ {
		i /= 2
		t.join(l, i)
	}
}

// join merges what is below node i of level l.
func (t *tree) join(l, i int) {
	below := t.levels[l-1]
	v := below[2*i]
	if 2*i+1 < len(below) {
		v = merge(v, below[2*i+1])
	}
	t.levels[l][i] = v
}

// build computes all nodes above the leaves.
func (t *tree) build() {
	for l := 1; l < len(t.levels); l++ {
		for i := range t.levels[l] {
			t.join(l, i)
		}
	}
}

func (t *tree) clone() *tree {
	c := &tree{levels: slices.Clone(t.levels)}
	for l := range c.levels {
		c.levels[l] = slices.Clone(c.levels[l])
	}
	return c
}

func (t *tree) leaf(i int) cluster.Metric { return t.levels[0][i] }

func (t *tree) root() cluster.Metric { return t.levels[len(t.levels)-1][0] }

// merge combines two disjoint samples (Chan, Golub, LeVeque 1979). An empty
// sample is the identity. The conversions keep every product rounded before it
// is added: fused operations would give other bits on other processors.
func merge(a, b cluster.Metric) cluster.Metric {
	switch {
	case a.N == 0:
		return b
	case b.N == 0:
		return a
	}
	na, nb := float64(a.N), float64(b.N)
	n := na + nb
	d := b.Mean - a.Mean
	return cluster.Metric{
		N:    a.N + b.N,
		Mean: a.Mean + float64(d*float64(nb/n)),
		M2:   float64(a.M2+b.M2) + float64(float64(d*d)*float64(float64(na*nb)/n)),
		Min:  min(a.Min, b.Min),
		Max:  max(a.Max, b.Max),
	}
}

// Aggregate summarises the samples of a metric merged so far.
type Aggregate struct {
	N    uint64  `json:"n"`
	Mean float64 `json:"mean"`
	M2   float64 `json:"m2"`
	Min  float64 `json:"min"`
	Max  float64 `json:"max"`
	// Std is the sample standard deviation, SE that of the mean, CI95 half
	// the width of the 95 % interval of the mean; all 0 for one sample.
	Std  float64 `json:"std"`
	SE   float64 `json:"se"`
	CI95 float64 `json:"ci95"`
}

// z95 is the 97.5 % quantile of the normal distribution.
const z95 = 1.959963984540054

func aggregate(m cluster.Metric) Aggregate {
	a := Aggregate{N: m.N, Mean: m.Mean, M2: m.M2, Min: m.Min, Max: m.Max}
	if m.N > 1 {
		a.Std = math.Sqrt(m.M2 / float64(m.N-1))
		a.SE = a.Std / math.Sqrt(float64(m.N))
		a.CI95 = z95 * a.SE
	}
	return a
}
