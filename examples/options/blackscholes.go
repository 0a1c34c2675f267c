package main

import "math"

// blackScholes is the price in closed form (Black and Scholes 1973): what the
// simulation converges to.
func (o Option) blackScholes() float64 {
	spread := o.Volatility * math.Sqrt(o.Maturity)
	d1 := (math.Log(o.Spot/o.Strike) + (o.Rate+o.Volatility*o.Volatility/2)*o.Maturity) / spread
	d2 := d1 - spread
	strike := o.Strike * math.Exp(-o.Rate*o.Maturity)
	if o.Kind == put {
		return strike*phi(-d2) - o.Spot*phi(-d1)
	}
	return o.Spot*phi(d1) - strike*phi(d2)
}

// phi is the standard normal distribution function.
func phi(x float64) float64 { return math.Erfc(-x/math.Sqrt2) / 2 }
