// Command sweep is the job of each step of sweep.toml, a workflow that sweeps a
// parameter and reports on what it found. It reads what the workflow gives it: with an
// item it prices an option that is worth something only if the path never falls below a
// barrier, with that item as the volatility; with the means of all items it says where
// the highest of them is. As the provider of that it says which volatilities are worth
// another look.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"

	"github.com/skein-project/skein/examples/skeinwasm"
)

func main() {
	os.Exit(skeinwasm.Main(compute))
}

// document is the config of a step with inputs.
type document struct {
	Params struct {
		Volatilities []float64 `json:"volatilities"`
	} `json:"params"`
	Item *float64 `json:"item"`
	// Aggregate is there for a provider: what the step's own job computed.
	Aggregate map[string]struct {
		Mean float64 `json:"mean"`
	} `json:"aggregate"`
	Inputs struct {
		Barrier float64   `json:"barrier"`
		Strike  float64   `json:"strike"`
		Means   []float64 `json:"means"`
	} `json:"inputs"`
}

func compute(c skeinwasm.Chunk, config []byte) (map[string]skeinwasm.Metric, error) {
	var d document
	if err := json.Unmarshal(config, &d); err != nil {
		return nil, fmt.Errorf("config: %w", err)
	}
	switch {
	case d.Aggregate != nil:
		return map[string]skeinwasm.Metric{}, refine("/out", d.Params.Volatilities, int(d.Aggregate["best"].Mean))
	case d.Item != nil:
		return map[string]skeinwasm.Metric{"price": price(c, *d.Item, d.Inputs.Barrier, d.Inputs.Strike)}, nil
	case len(d.Inputs.Means) > 0:
		return report(d.Inputs.Means), nil
	}
	return nil, errors.New("config: neither an item nor means")
}

const steps = 32 // of a path

// price is the mean payoff of a call on a path that begins at 1.
func price(c skeinwasm.Chunk, volatility, barrier, strike float64) skeinwasm.Metric {
	s := skeinwasm.NewStream(c.Seed, 0)
	dt := 1.0 / steps
	var m skeinwasm.Metric
	for i := range c.Iterations {
		x, alive := 0.0, true
		for k := range uint64(steps) {
			// Up or down by one deviation: a binomial walk.
			up := volatility * math.Sqrt(dt)
			if s.Uniform((c.Offset+i)*steps+k) < 0.5 {
				up = -up
			}
			x += up - volatility*volatility*dt/2
			alive = alive && math.Exp(x) > barrier
		}
		payoff := 0.0
		if alive {
			payoff = max(0, math.Exp(x)-strike)
		}
		m.Add(payoff)
	}
	return m
}

// refine leaves the volatilities beside the best, as the list that the next step has an
// instance for each of.
func refine(dir string, volatilities []float64, best int) error {
	if best < 0 || best >= len(volatilities) {
		return fmt.Errorf("the best is number %d of %d", best, len(volatilities))
	}
	v := volatilities[best]
	text, err := json.Marshal([]float64{v * 0.9, v * 1.1})
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "refine"), text, 0o600)
}

// report says which of the means is the highest, and how far apart they are.
func report(means []float64) map[string]skeinwasm.Metric {
	best, all := 0, skeinwasm.Metric{}
	for i, v := range means {
		all.Add(v)
		if v > means[best] {
			best = i
		}
	}
	one := func(v float64) skeinwasm.Metric { return skeinwasm.Metric{N: 1, Mean: v, Min: v, Max: v} }
	return map[string]skeinwasm.Metric{"best": one(float64(best)), "highest": one(means[best]), "spread": one(all.Max - all.Min)}
}
