package rule

import (
	"math"
	"time"

	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/load"
	"github.com/skein-project/skein/load/stat"
)

// Outcome is what a threshold came to.
type Outcome struct {
	Text  string
	Value float64
	Unit  string
	Bound float64
	// Samples: there was something to judge. Without, the threshold is breached.
	Samples bool
	OK      bool
	// Close: the value is no further from the bound than quantiles are exact.
	Close bool
	Since time.Duration // since when it was breached for longer than allowed; 0: judged at the end
	Abort bool          // its breach ends the run
}

// granules is in how many parts a window that slides is cut.
const granules = 50

// Judge looks at each window, and in the end at the whole.
type Judge struct {
	rules []*state
	whole *stat.Bank
	len   time.Duration
	step  time.Duration // that a window is long
}

// state is what a rule has seen.
type state struct {
	*Rule
	slide   *slide // nil: the whole run counts
	since   time.Duration
	breach  bool // now
	failed  time.Duration
	value   float64
	samples bool
}

// NewJudge begins; nothing of the warm-up is to be shown to it.
func NewJudge(rules []*Rule, series, checks int) *Judge {
	return NewCoarseJudge(rules, series, checks, stat.Step)
}

// NewCoarseJudge is NewJudge for windows of another length.
func NewCoarseJudge(rules []*Rule, series, checks int, step time.Duration) *Judge {
	j := &Judge{whole: stat.NewBank(series, checks), step: step}
	for _, r := range rules {
		st := &state{Rule: r}
		if r.Window > 0 {
			st.slide = newSlide(r.Window, step)
		}
		j.rules = append(j.rules, st)
	}
	return j
}

// Whole is the sum of what the judge was shown.
func (j *Judge) Whole() *stat.Bank { return j.whole }

// Length is how long that was.
func (j *Judge) Length() time.Duration { return j.len }

// Add shows a window that ended at a time of the run. It returns the threshold that
// ends the run, nil if none does.
func (j *Judge) Add(at time.Duration, w *stat.Bank) *Outcome {
	j.whole.Add(w)
	j.len += j.step
	var abort *Outcome
	for _, st := range j.rules {
		if st.slide != nil {
			st.slide.add(st.Rule, w)
		}
		if st.slide == nil && st.Hold == 0 && !st.Abort {
			continue // it is judged at the end
		}
		if at < st.Delay || st.slide != nil && !st.slide.full() {
			continue
		}
		x, samples := j.now(st)
		if !samples && st.slide == nil {
			continue // nothing has ended yet
		}
		if samples && st.holds(x) {
			st.breach = false
			continue
		}
		if !st.breach {
			st.breach, st.since = true, at
		}
		if st.failed == 0 && at-st.since >= st.Hold {
			st.failed, st.value, st.samples = at, x, samples
			if st.Abort && abort == nil {
				o := st.outcome()
				abort = &o
			}
		}
	}
	return abort
}

// now is the value of a rule as it is.
func (j *Judge) now(st *state) (float64, bool) {
	if st.slide != nil {
		return st.slide.value(st.Rule)
	}
	var counts [load.Classes]uint64
	var times stat.Hist
	var checks stat.Tally
	collect(st.Rule, j.whole, &counts, &checks, func(h *stat.Hist) { times.Add(h) })
	return value(st.Rule, &counts, checks, &times, j.len)
}

// collect adds up what a rule is about.
func collect(r *Rule, b *stat.Bank, counts *[load.Classes]uint64, checks *stat.Tally, times func(*stat.Hist)) {
	for i := range b.Series {
		if r.step >= 0 && r.step != i {
			continue
		}
		for c, n := range b.Series[i].Classes {
			counts[c] += n
		}
		if r.timed() {
			times(&b.Series[i].Times[r.phase])
		}
	}
	if r.checks {
		for i, t := range b.Checks {
			if r.step < 0 || i >= r.firstCheck && i < r.lastCheck {
				checks.Add(t)
			}
		}
	}
}

// value computes what is compared.
func value(r *Rule, counts *[load.Classes]uint64, checks stat.Tally, times *stat.Hist, length time.Duration) (float64, bool) {
	all, sent := uint64(0), uint64(0)
	for c, n := range counts {
		all += n
		if c := load.Class(c); c != load.Skipped && c != load.Dropped && c != load.Generator {
			sent += n
		}
	}
	switch r.of {
	case percentile:
		return times.Quantile(r.p), times.N > 0
	case average:
		return times.Mean(), times.N > 0
	case least:
		return times.Min(), times.N > 0
	case greatest:
		return times.Max(), times.N > 0
	case perSecond:
		return float64(sent) / max(length.Seconds(), 1e-9), length > 0
	}
	part, of := float64(counts[r.class]), all
	switch {
	case r.checks:
		part, of = float64(checks.Passed), checks.Passed+checks.Failed
	case r.failed:
		part = float64(all - counts[load.OK])
	}
	if r.of == count {
		return part, all > 0
	}
	return part / math.Max(float64(of), 1), of > 0
}

func (st *state) outcome() Outcome {
	o := Outcome{Text: st.When, Value: st.value, Unit: st.Unit(), Bound: st.bound, Samples: st.samples, Since: st.failed, Abort: st.Abort}
	o.OK = st.failed == 0 && st.samples && st.holds(st.value)
	if !st.samples {
		o.Value = 0
		return o
	}
	o.Close = st.of == percentile && math.Abs(st.value-st.bound) <= stat.Accuracy()*st.value
	return o
}

// Now is what thresholds come to as things are: one that was breached for too long stays
// so.
func (j *Judge) Now() []Outcome {
	out := make([]Outcome, 0, len(j.rules))
	for _, st := range j.rules {
		at := *st
		if at.failed == 0 {
			at.value, at.samples = j.now(st)
		}
		out = append(out, at.outcome())
	}
	return out
}

// End judges the whole.
func (j *Judge) End() []Outcome {
	out := make([]Outcome, 0, len(j.rules))
	for _, st := range j.rules {
		if st.failed == 0 {
			st.value, st.samples = j.now(st)
		}
		out = append(out, st.outcome())
	}
	return out
}

// slide is the last window of a rule: as many granules, each as a sketch, and their
// sum. Counts are whole numbers, so what leaves takes exactly what it brought.
type slide struct {
	step   time.Duration // of a window
	each   int           // windows of a granule
	ring   []granule
	next   int
	filled int
	open   granule
	times  stat.Hist // of the open granule
	sum    stat.Hist
	total  granule
}

type granule struct {
	windows int
	counts  [load.Classes]uint64
	checks  stat.Tally
	times   job.Metric
}

func newSlide(window, step time.Duration) *slide {
	n := max(1, int(window/step))
	each := max(1, n/granules)
	return &slide{step: step, each: each, ring: make([]granule, max(1, n/each))}
}

func (s *slide) full() bool { return s.filled >= len(s.ring) }

func (s *slide) add(r *Rule, w *stat.Bank) {
	collect(r, w, &s.open.counts, &s.open.checks, func(h *stat.Hist) { s.times.Add(h) })
	if s.open.windows++; s.open.windows < s.each {
		return
	}
	s.open.times = s.times.Metric()
	s.times.Reset()
	old := s.ring[s.next]
	for c := range s.total.counts {
		s.total.counts[c] += s.open.counts[c] - old.counts[c]
	}
	s.total.checks.Passed += s.open.checks.Passed - old.checks.Passed
	s.total.checks.Failed += s.open.checks.Failed - old.checks.Failed
	s.total.windows += s.open.windows - old.windows
	s.sum.AddMetric(s.open.times)
	s.sum.SubMetric(old.times)
	s.ring[s.next] = s.open
	s.open = granule{}
	s.next = (s.next + 1) % len(s.ring)
	s.filled++
}

func (s *slide) value(r *Rule) (float64, bool) {
	length := time.Duration(s.total.windows) * s.step
	if r.of != least && r.of != greatest {
		return value(r, &s.total.counts, s.total.checks, &s.sum, length)
	}
	low, high, any := math.Inf(1), 0.0, false
	for _, g := range s.ring {
		if g.times.N > 0 {
			low, high, any = math.Min(low, g.times.Min), math.Max(high, g.times.Max), true
		}
	}
	if r.of == least {
		return low, any
	}
	return high, any
}
