// Command options prices a portfolio of European options by Monte Carlo: the
// price of the underlying at maturity follows geometric Brownian motion, and
// each option gives one metric whose mean is its price today, and whose quantiles
// are those of what it pays.
package main

import (
	"os"

	"github.com/skein-project/skein/examples/skeinwasm"
)

func main() {
	os.Exit(skeinwasm.Main(compute))
}

func compute(c skeinwasm.Chunk, config []byte) (map[string]skeinwasm.Metric, error) {
	p, err := parsePortfolio(config)
	if err != nil {
		return nil, err
	}
	return price(p, c), nil
}

// price simulates every option with numbers of its own.
func price(p Portfolio, c skeinwasm.Chunk) map[string]skeinwasm.Metric {
	out := make(map[string]skeinwasm.Metric, len(p.Options))
	for k, o := range p.Options {
		s := skeinwasm.NewStream(c.Seed, uint64(k))
		payoff := o.discountedPayoff()
		m := skeinwasm.Metric{Sketch: skeinwasm.NewSketch()}
		for i := range c.Iterations {
			m.Add(payoff(normal(s.Uniform(c.Offset + i))))
		}
		out[o.Name] = m
	}
	return out
}
