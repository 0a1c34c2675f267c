package overload

import "time"

// Times of the ladder.
const (
	// RiseAfter is how long the score is higher before the level rises by one, FallAfter
	// how long it is lower before it falls by one.
	RiseAfter = 2 * time.Second
	FallAfter = 10 * time.Second
	// strainAfter is how long the score must be where a host is strained before it counts
	// as strained: what is refused then goes before what is refused at severe.
	strainAfter = RiseAfter / 2
	// fallBelow is the part of where a level begins below which it is left.
	fallBelow = 0.7
	// usualOver is the time over which the usual delays are averaged.
	usualOver = 10 * time.Minute
	// MaxGap is the longest pause between two samples after which what was counted still
	// counts: a host that slept knows nothing of the time between.
	MaxGap = 5 * time.Second
)

// delays are those of the two kinds of queue.
type delays struct{ work, control time.Duration }

// State is how a host is. The zero value is a host that nothing is known of. It is a
// value: Step changes none.
type State struct {
	level Level
	score float64
	by    Signal
	usual delays

	begun  bool
	at     time.Duration // of the last sample
	higher time.Duration // since when the score is in a higher band; never: none
	lower  time.Duration // since when it is low enough for the level below; never: it is not

	strained bool
	turning  time.Duration // since when the score says that it is otherwise; never: it does not
}

// never stands for the time since which something holds that does not hold.
const never = time.Duration(-1)

// Level is how loaded the host is.
func (s State) Level() Level { return s.level }

// Load is by what the host refuses requests.
func (s State) Load() Load { return Load{Level: s.level, Strained: s.strained} }

// Score is what the last sample said, from 0 to 8, and By from what that comes.
func (s State) Score() float64 { return s.score }

// By is the signal that says most.
func (s State) By() Signal { return s.by }

// Usual is the delay of work and of control that the host has while it is normal.
func (s State) Usual() (work, control time.Duration) { return s.usual.work, s.usual.control }

// limits are the delays from which on a host is overloaded.
func (c Config) limits(usual delays) delays {
	work := c.Delay
	if work <= 0 {
		work = DefaultDelay
	}
	control := max(work*2/5, time.Nanosecond)
	return delays{
		work:    max(work, timesUsual*min(usual.work, work)),
		control: max(control, timesUsual*min(usual.control, control)),
	}
}

// Step takes a sample at now, a monotonic time. Samples that are older than the last
// one change nothing.
func (c Config) Step(s State, m Sample, now time.Duration) State {
	if s.begun && now < s.at {
		return s
	}
	gap := now - s.at
	if !s.begun || gap > MaxGap {
		s.higher, s.lower, s.turning = never, never, never
		gap = 0
	}
	m = m.clean()
	s.begun, s.at = true, now
	s.score, s.by = c.score(m, s.usual)
	wasNormal := s.level == Normal
	s.climb(now)
	s.strain(now)
	if wasNormal && levelOf(s.score) == Normal {
		s.usual = s.usual.learn(delays{m.Work, m.Control}, gap)
	}
	return s
}

// climb moves the level by one step at most.
func (s *State) climb(now time.Duration) {
	switch {
	case levelOf(s.score) <= s.level:
		s.higher = never
	case s.higher == never:
		s.higher = now
	}
	switch {
	case s.level == Normal || s.score >= fallBelow*begins[s.level]:
		s.lower = never
	case s.lower == never:
		s.lower = now
	}
	switch {
	case s.higher != never && now-s.higher >= RiseAfter:
		s.level++
		s.higher, s.lower = never, never
		if levelOf(s.score) > s.level {
			s.higher = now
		}
	case s.lower != never && now-s.lower >= FallAfter:
		s.level--
		s.higher, s.lower = never, never
		if s.level > Normal && s.score < fallBelow*begins[s.level] {
			s.lower = now
		}
	}
}

// strain says whether a host that is high is strained.
func (s *State) strain(now time.Duration) {
	if s.level < High {
		s.strained, s.turning = false, never
		return
	}
	is, after := s.strained, FallAfter
	switch {
	case s.score >= strainedFrom:
		is, after = true, strainAfter
	case s.score < fallBelow*strainedFrom:
		is = false
	}
	switch {
	case is == s.strained:
		s.turning = never
	case s.turning == never:
		s.turning = now
	case now-s.turning >= after:
		s.strained, s.turning = is, never
	}
}

// learn averages what is usual over usualOver; gap is the time since the last sample.
func (d delays) learn(m delays, gap time.Duration) delays {
	part := float64(gap) / float64(usualOver)
	return delays{work: toward(d.work, m.work, part), control: toward(d.control, m.control, part)}
}

func toward(from, to time.Duration, part float64) time.Duration {
	return from + time.Duration(float64(to-from)*part)
}
