package live

import (
	"maps"
	"slices"

	"github.com/skein-project/skein/api"
)

// Sum adds up what a follower is told. Its zero value is of a follower that knows nothing.
type Sum struct {
	after string
	now   api.LoadNow
	near  []reached // of the last seconds
}

// reached is how many requests there were at a time of the run.
type reached struct {
	at       float64
	requests uint64
}

// recent is of how many seconds a rate is: hosts tell what they counted one after the other.
const recent = 5

// After is the position to ask from.
func (s *Sum) After() string { return s.after }

// Add takes an answer in.
func (s *Sum) Add(x api.LoadLive) {
	if x.Again {
		s.now.Steps, s.near = nil, nil
	}
	s.after = x.Next
	n := &s.now
	n.Doing, n.At, n.Of, n.Warm, n.Users, n.Queue, n.Planned = x.Doing, x.At, x.Of, x.Warm, x.Users, x.Queue, x.Planned
	if len(x.Thresholds) > 0 {
		n.Thresholds = x.Thresholds
	}
	told := uint64(0)
	n.Steps = slices.Clone(n.Steps) // whoever has what Now returned keeps it as it was
	for _, one := range x.Steps {
		i := slices.IndexFunc(n.Steps, func(old api.LoadStep) bool { return old.Name == one.Name })
		told += one.Requests
		if i < 0 {
			one.Classes = maps.Clone(one.Classes)
			n.Steps = append(n.Steps, one)
			continue
		}
		n.Steps[i] = add(n.Steps[i], one)
	}
	n.Requests, n.Failed, n.Dropped = 0, 0, 0
	for _, one := range n.Steps {
		n.Requests, n.Failed, n.Dropped = n.Requests+one.Requests, n.Failed+one.Failed, n.Dropped+one.Dropped
	}
	if x.Seconds > 0 {
		n.Rate = float64(told) / x.Seconds
		s.near = append(s.near, reached{x.At, n.Requests})
		for len(s.near) > 2 && x.At-s.near[1].at >= recent {
			s.near = s.near[1:]
		}
		if span := x.At - s.near[0].at; span > 0 {
			n.Rate = float64(n.Requests-s.near[0].requests) / span
		}
		if x.Latency.P50 > 0 {
			n.Latency = x.Latency
		}
	}
	n.Hosts = make([]api.LoadHostLive, 0, len(x.Hosts))
	for _, h := range x.Hosts {
		h.Requests = 0 // of what was told only
		n.Hosts = append(n.Hosts, h)
	}
}

// add is what two answers have of a step; its latency is that of the later one.
func add(a, b api.LoadStep) api.LoadStep {
	classes := maps.Clone(a.Classes)
	if classes == nil && len(b.Classes) > 0 {
		classes = map[string]uint64{}
	}
	for c, n := range b.Classes {
		classes[c] += n
	}
	a.Classes = classes
	a.Requests, a.Failed, a.Dropped, a.Warm = a.Requests+b.Requests, a.Failed+b.Failed, a.Dropped+b.Dropped, a.Warm+b.Warm
	a.Checks.Passed, a.Checks.Failed = a.Checks.Passed+b.Checks.Passed, a.Checks.Failed+b.Checks.Failed
	if b.Latency.P50 > 0 {
		a.Latency = b.Latency
	}
	return a
}

// Now is how the test gets on. Nothing in it is to be changed; it stays as it is.
func (s *Sum) Now() api.LoadNow { return s.now }

// Brief leaves out what is of steps, hosts and thresholds.
func Brief(n api.LoadNow) api.LoadNow {
	n.Steps, n.Hosts, n.Thresholds = nil, nil, nil
	return n
}
