package main

import (
	"errors"
	"fmt"
	"math"

	"github.com/skein-project/skein/examples/skeinwasm"
)

// Kinds of option.
const (
	call = "call"
	put  = "put"
)

// Limits of a portfolio.
const (
	maxOptions = 256
	maxName    = 64
)

// Portfolio is the config document.
type Portfolio struct {
	Options []Option `json:"options"`
}

// Option is a European option. Rate and Volatility are per year, continuously
// compounded; Maturity is in years.
type Option struct {
	Name       string  `json:"name"`
	Kind       string  `json:"kind"` // call or put
	Spot       float64 `json:"spot"`
	Strike     float64 `json:"strike"`
	Rate       float64 `json:"rate"`
	Volatility float64 `json:"volatility"`
	Maturity   float64 `json:"maturity"`
}

func parsePortfolio(config []byte) (Portfolio, error) {
	var p Portfolio
	if len(config) == 0 {
		return p, errors.New("config: a portfolio is needed, see portfolio.json")
	}
	if err := skeinwasm.DecodeConfig(config, &p); err != nil {
		return p, err
	}
	if len(p.Options) == 0 || len(p.Options) > maxOptions {
		return p, fmt.Errorf("config: %d options, want 1-%d", len(p.Options), maxOptions)
	}
	names := map[string]bool{}
	for i, o := range p.Options {
		if err := o.validate(); err != nil {
			return p, fmt.Errorf("config: option %d %q: %w", i+1, o.Name, err)
		}
		if names[o.Name] {
			return p, fmt.Errorf("config: option %d: name %q stands twice", i+1, o.Name)
		}
		names[o.Name] = true
	}
	return p, nil
}

func (o Option) validate() error {
	switch {
	case o.Name == "" || len(o.Name) > maxName:
		return fmt.Errorf("name has %d bytes, want 1-%d", len(o.Name), maxName)
	case o.Kind != call && o.Kind != put:
		return fmt.Errorf("kind is %q, want %s or %s", o.Kind, call, put)
	case !(o.Spot > 0 && o.Spot <= 1e9) || !(o.Strike > 0 && o.Strike <= 1e9):
		return errors.New("spot and strike must be above 0 and at most 1e9")
	case !(math.Abs(o.Rate) <= 1):
		return errors.New("rate must lie in -1 to 1")
	case !(o.Volatility > 0 && o.Volatility <= 5):
		return errors.New("volatility must be above 0 and at most 5")
	case !(o.Maturity > 0 && o.Maturity <= 100):
		return errors.New("maturity must be above 0 and at most 100 years")
	}
	return nil
}

// discountedPayoff returns today's worth of the option as a function of a
// standard normal number.
func (o Option) discountedPayoff() func(z float64) float64 {
	drift := (o.Rate - o.Volatility*o.Volatility/2) * o.Maturity
	spread := o.Volatility * math.Sqrt(o.Maturity)
	discount := math.Exp(-o.Rate * o.Maturity)
	// sign*(S-K), cut at 0, with the discount and the drift multiplied in.
	sign := discount
	if o.Kind == put {
		sign = -discount
	}
	spot, strike := sign*o.Spot*math.Exp(drift), sign*o.Strike
	return func(z float64) float64 {
		return max(0, spot*math.Exp(spread*z)-strike)
	}
}
