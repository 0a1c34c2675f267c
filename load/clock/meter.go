package clock

import (
	"math"
	"runtime"
	"time"
)

// span is over how many windows a Meter looks for the most: 10 s of 100 ms.
const span = 100

// Meter tells the share of the processors that this process takes, in windows.
type Meter struct {
	window time.Duration
	last   time.Duration
	ring   [span]float64
	n      int
	sum    float64
	most   float64
	risen  bool
}

// NewMeter is one for windows of a length. It begins now.
func NewMeter(window time.Duration) Meter { return Meter{window: window, last: ProcessorTime()} }

// Begin has what was taken until now not count.
func (m *Meter) Begin() { m.last = ProcessorTime() }

// Next is the share in the window that ends now, by what the process has taken by then.
func (m *Meter) Next(now time.Duration) float64 {
	share := (now - m.last).Seconds() / m.window.Seconds() / float64(runtime.NumCPU())
	m.last = now
	share = math.Min(share, 1)
	m.sum += share - m.ring[m.n%span]
	m.ring[m.n%span] = share
	m.n++
	m.risen = false
	if m.n >= span/2 {
		mean := m.sum / float64(min(m.n, span))
		if m.risen = mean > m.most; m.risen {
			m.most = mean
		}
	}
	return share
}

// Risen reports that the window that ended last has made it more.
func (m *Meter) Risen() bool { return m.risen }

// Most is the most over 10 s, or over all of a shorter run.
func (m *Meter) Most() float64 { return m.most }
