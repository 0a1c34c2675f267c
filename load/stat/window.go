package stat

import (
	"time"

	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/load"
)

// Step is how long a window is.
const Step = 100 * time.Millisecond

// Phase is a part of a request.
type Phase uint8

// Phases. Service is from the actual start to the last byte; latency adds Late, from
// the intended start to the actual one.
const (
	Latency Phase = iota
	Service
	Late
	DNS
	Connect
	TLS
	Send
	FirstByte
	Receive
	Phases // their number
)

var phaseNames = [Phases]string{"latency", "service", "late", "dns", "connect", "tls", "send", "first_byte", "receive"}

func (p Phase) String() string { return phaseNames[p] }

// PhaseNamed finds a phase by its name.
func PhaseNamed(name string) (Phase, bool) {
	for i, n := range phaseNames {
		if n == name {
			return Phase(i), true
		}
	}
	return 0, false
}

// Sample is one request that has ended.
type Sample struct {
	Series int
	Class  load.Class
	Times  [Phases]time.Duration
	// Have are the phases that the request had.
	Have       [Phases]bool
	In, Out    uint64 // bytes
	FirstCheck int
	Checks     []bool
	// OwnLate says that the lateness was the generator's: a user was free.
	OwnLate bool
}

// Series is what is counted of a step.
type Series struct {
	Classes [load.Classes]uint64
	Times   [Phases]Hist
	In, Out uint64
}

// Count is the number of requests of all classes.
func (s *Series) Count() (n uint64) {
	for _, c := range s.Classes {
		n += c
	}
	return n
}

// Failed counts those that are not ok.
func (s *Series) Failed() uint64 { return s.Count() - s.Classes[load.OK] }

// Sent counts those that were begun.
func (s *Series) Sent() uint64 {
	return s.Count() - s.Classes[load.Skipped] - s.Classes[load.Dropped] - s.Classes[load.Generator]
}

// Add counts what o has as well.
func (s *Series) Add(o *Series) {
	for i, n := range o.Classes {
		s.Classes[i] += n
	}
	for i := range o.Times {
		s.Times[i].Add(&o.Times[i])
	}
	s.In += o.In
	s.Out += o.Out
}

func (s *Series) reset() {
	for i := range s.Times {
		s.Times[i].Reset()
	}
	s.Classes, s.In, s.Out = [load.Classes]uint64{}, 0, 0
}

// Tally counts how often a check held.
type Tally struct{ Passed, Failed uint64 }

// Add counts what o has as well.
func (t *Tally) Add(o Tally) { t.Passed += o.Passed; t.Failed += o.Failed }

// Bank is a set of series: of one processor in one window, of a window, of a run.
type Bank struct {
	Series  []Series
	Checks  []Tally
	OwnLate Hist // the generator's lateness
	// Iterations that have ended, of all flows.
	Iterations uint64
}

// NewBank makes an empty one.
func NewBank(series, checks int) *Bank {
	return &Bank{Series: make([]Series, series), Checks: make([]Tally, checks)}
}

// Record counts a request.
func (b *Bank) Record(s *Sample) {
	one := &b.Series[s.Series]
	one.Classes[s.Class]++
	one.In += s.In
	one.Out += s.Out
	if s.Class.Timed() {
		for i := range s.Have {
			if s.Have[i] {
				one.Times[i].Record(s.Times[i])
			}
		}
	}
	if s.OwnLate {
		b.OwnLate.Record(s.Times[Late])
	}
	for i, ok := range s.Checks {
		if ok {
			b.Checks[s.FirstCheck+i].Passed++
		} else {
			b.Checks[s.FirstCheck+i].Failed++
		}
	}
}

// Add counts what o has as well.
func (b *Bank) Add(o *Bank) {
	for i := range o.Series {
		b.Series[i].Add(&o.Series[i])
	}
	for i, t := range o.Checks {
		b.Checks[i].Add(t)
	}
	b.OwnLate.Add(&o.OwnLate)
	b.Iterations += o.Iterations
}

// Reset empties it and keeps its memory.
func (b *Bank) Reset() {
	for i := range b.Series {
		b.Series[i].reset()
	}
	clear(b.Checks)
	b.OwnLate.Reset()
	b.Iterations = 0
}

// All is the sum of the series.
func (b *Bank) All() *Series {
	var all Series
	for i := range b.Series {
		all.Add(&b.Series[i])
	}
	return &all
}

// Ended is how many requests ended so.
func (b *Bank) Ended(as load.Class) (n uint64) {
	for i := range b.Series {
		n += b.Series[i].Classes[as]
	}
	return n
}

// Gauges are what is at a time, not what was within one.
type Gauges struct {
	Users int     // that are busy
	Queue int     // arrivals that wait for a user
	CPU   float64 // share of the processors that this process took
}

// When has the times of a run at which a generator was in doubt, in seconds: the ends of the windows
// in which it was worst, or so for the first time. 0: in none.
type When struct {
	Late   float64 `json:"late,omitempty"`
	CPU    float64 `json:"cpu,omitempty"`
	Own    float64 `json:"own,omitempty"`
	Gap    float64 `json:"gap,omitempty"`
	Slowed float64 `json:"slowed,omitempty"`
}

// Point is a span of the timeline.
type Point struct {
	At       time.Duration // its end
	Span     time.Duration
	Requests uint64
	Failed   uint64
	Dropped  uint64
	Latency  job.Metric
	Gauges
}

// join is the span of both.
func (p Point) join(o Point) Point {
	return Point{
		At: o.At, Span: p.Span + o.Span, Requests: p.Requests + o.Requests, Failed: p.Failed + o.Failed, Dropped: p.Dropped + o.Dropped,
		Latency: p.Latency.Merge(o.Latency), Gauges: Gauges{max(p.Users, o.Users), max(p.Queue, o.Queue), max(p.CPU, o.CPU)},
	}
}

// maxPoints bounds a timeline: when there would be more, pairs of points become one.
const maxPoints = 600

// Timeline is a run as points, a second each or longer.
type Timeline struct {
	Points []Point
	span   time.Duration
	open   Point
	times  Hist
}

// Add counts a window that ended at a time.
func (t *Timeline) Add(at time.Duration, w *Bank, g Gauges) { t.AddSpan(at, Step, w, g) }

// AddSpan counts a window of another length.
func (t *Timeline) AddSpan(at, span time.Duration, w *Bank, g Gauges) {
	if t.span == 0 {
		t.span = time.Second
	}
	t.count(w)
	t.open.At = at
	t.open.Span += span
	t.open.Users, t.open.Queue, t.open.CPU = max(t.open.Users, g.Users), max(t.open.Queue, g.Queue), max(t.open.CPU, g.CPU)
	if t.open.Span >= t.span {
		t.End()
	}
}

func (t *Timeline) count(w *Bank) {
	for i := range w.Series {
		s := &w.Series[i]
		t.open.Requests += s.Sent()
		t.open.Failed += s.Failed()
		t.open.Dropped += s.Classes[load.Dropped]
		t.times.Add(&s.Times[Latency])
	}
}

// Tail counts what ended after the last window, in the last point. A point that is far
// shorter than the others says little of its rate, so it is a part of the one before.
func (t *Timeline) Tail(w *Bank) {
	switch n := len(t.Points); {
	case n > 0 && 2*t.open.Span < t.span:
		last := t.Points[n-1]
		t.times.AddMetric(last.Latency)
		t.open.At = max(t.open.At, last.At)
		t.open, t.Points = last.join(t.open), t.Points[:n-1]
	case t.open.Span == 0: // it ended within its first window
		t.open.At, t.open.Span = Step, Step
	}
	t.count(w)
}

// End ends the open point.
func (t *Timeline) End() {
	if t.open.Span == 0 {
		return
	}
	t.open.Latency = t.times.Metric()
	t.Points = append(t.Points, t.open)
	t.open = Point{}
	t.times.Reset()
	if len(t.Points) < maxPoints {
		return
	}
	for i := range maxPoints / 2 {
		t.Points[i] = t.Points[2*i].join(t.Points[2*i+1])
	}
	t.Points = t.Points[:maxPoints/2]
	t.span *= 2
}
