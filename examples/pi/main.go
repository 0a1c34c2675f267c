// Command pi estimates the number pi by counting random points inside the
// quarter of a circle. Its metric "pi" has one sample per iteration, 4 or 0,
// so the mean is the estimate and its standard error tells how good it is.
package main

import (
	"os"

	"github.com/skein-project/skein/examples/skeinwasm"
)

func main() {
	os.Exit(skeinwasm.Main(compute))
}

func compute(c skeinwasm.Chunk, _ []byte) (map[string]skeinwasm.Metric, error) {
	return map[string]skeinwasm.Metric{"pi": summary(inside(c), c.Iterations)}, nil
}

// block is the iterations, about a second of them, after which a chunk says how far it
// is: that makes its rate and its end known while it runs.
const block = 1 << 26

// inside counts the points of the chunk's iterations that fall inside. Each
// takes 60 random bits: a cell of a grid of 2^30 by 2^30, whose centre is the
// point, in units of 2^-31.
func inside(c skeinwasm.Chunk) uint64 {
	const radius2 = 1 << 62
	s := skeinwasm.NewStream(c.Seed, 0)
	var n uint64
	for done := uint64(0); done < c.Iterations; {
		end := min(done+block, c.Iterations)
		for i := done; i < end; i++ {
			z := s.At(c.Offset + i)
			x, y := z>>33|1, z&(1<<31-1)|1
			// 1 if x*x+y*y < radius2, without a branch that nobody can predict.
			n += (x*x + y*y - radius2) >> 63
		}
		if done = end; done < c.Iterations {
			skeinwasm.Progress(done)
		}
	}
	return n
}

// summary turns a count into the statistics of samples that are 4 or 0.
func summary(hits, n uint64) skeinwasm.Metric {
	m := skeinwasm.Metric{N: n, Max: 4}
	h, all := float64(hits), float64(n)
	m.Mean = 4 * h / all
	m.M2 = 16 * h / all * (all - h)
	switch hits {
	case 0:
		m.Max = 0
	case n:
		m.Min = 4
	}
	return m
}
