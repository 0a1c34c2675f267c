package overload

import (
	"math"
	"time"
)

// Sample is what was measured of a host. A share that is not known is below 0.
type Sample struct {
	// Work and Control are the least delays of half a second: of the queues through
	// which work goes, and of those of the lease and of who is alive.
	Work, Control time.Duration
	// CPU, Memory and IO are for which share of the last ten seconds something had to
	// wait for it, in percent.
	CPU, Memory, IO float64
	// MemoryLeft is what of the memory nobody uses, in percent.
	MemoryLeft float64
	// Health is how unwell the host finds itself as a member, from 0 to 8.
	Health int
}

// Signal says what a score comes from.
type Signal string

// Signals.
const (
	SignalNone    Signal = ""
	SignalWork    Signal = "work delay"
	SignalControl Signal = "control delay"
	SignalCPU     Signal = "cpu"
	SignalMemory  Signal = "memory"
	SignalIO      Signal = "io"
	SignalLeft    Signal = "memory left"
	SignalHealth  Signal = "local health"
)

// Config is what an operator may set.
type Config struct {
	// Delay is from which delay of the work on a host is overloaded; control counts
	// from two fifths of it on. 0: DefaultDelay.
	Delay time.Duration
}

// DefaultDelay is what Config.Delay is if nobody sets it.
const DefaultDelay = 50 * time.Millisecond

// From where on what is measured means overload.
const (
	cpuStalls    = 60.0
	memoryStalls = 10.0
	ioStalls     = 40.0
	leastMemory  = 10.0
	timesUsual   = 3
)

// maxDelay bounds what a delay may say: none is longer before somebody looks.
const maxDelay = time.Hour

// share makes a percentage of what a sensor says; -1: not known.
func share(v float64) float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) || v < 0 || v > 100 {
		return -1
	}
	return v
}

// clean drops what cannot be.
func (s Sample) clean() Sample {
	s.Work, s.Control = min(max(s.Work, 0), maxDelay), min(max(s.Control, 0), maxDelay)
	s.CPU, s.Memory, s.IO, s.MemoryLeft = share(s.CPU), share(s.Memory), share(s.IO), share(s.MemoryLeft)
	s.Health = min(max(s.Health, 0), int(maxScore))
	return s
}

// scoreOf makes a score of how many times something is what means overload: 2 where
// it is just that, and 2 more each time that it doubles.
func scoreOf(times float64) float64 {
	if times <= 1 {
		return 2 * max(times, 0)
	}
	return min(2+2*math.Log2(times), maxScore)
}

// Weight is what one signal says.
type Weight struct {
	Signal Signal
	// Value is what was measured, From from where on it means overload: delays in seconds,
	// shares and what is left in percent, the local health in points. Below 0: not known.
	Value, From float64
	Score       float64
}

// Weigh says what each signal of a sample says, of a host of which usually work and control
// wait so long.
func (c Config) Weigh(s Sample, work, control time.Duration) []Weight {
	weights := c.weigh(s.clean(), delays{work, control})
	return weights[:]
}

func (c Config) weigh(s Sample, usual delays) [7]Weight {
	limits := c.limits(usual)
	above := func(what Signal, value, from float64) Weight {
		return Weight{what, value, from, scoreOf(value / from)}
	}
	delay := func(what Signal, value, from time.Duration) Weight {
		return Weight{what, value.Seconds(), from.Seconds(), scoreOf(float64(value) / float64(from))}
	}
	left := Weight{Signal: SignalLeft, Value: s.MemoryLeft, From: leastMemory}
	switch {
	case s.MemoryLeft == 0:
		left.Score = maxScore
	case s.MemoryLeft > 0:
		left.Score = scoreOf(leastMemory / s.MemoryLeft)
	}
	return [...]Weight{
		delay(SignalWork, s.Work, limits.work),
		delay(SignalControl, s.Control, limits.control),
		above(SignalCPU, s.CPU, cpuStalls),
		above(SignalMemory, s.Memory, memoryStalls),
		above(SignalIO, s.IO, ioStalls),
		left,
		{SignalHealth, float64(s.Health), begins[Elevated], float64(s.Health)},
	}
}

// score is the worst that a sample says, and by which signal. usual are the delays
// that this host has while it is normal.
func (c Config) score(s Sample, usual delays) (float64, Signal) {
	worst, by := 0.0, SignalNone
	for _, w := range c.weigh(s, usual) {
		if w.Score > worst {
			worst, by = w.Score, w.Signal
		}
	}
	return worst, by
}
