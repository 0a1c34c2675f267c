package loadview

import (
	"cmp"
	"slices"
	"time"

	"github.com/skein-project/skein/api"
)

// sums are what was counted so far.
type sums struct {
	requests, failed, dropped uint64
	most                      float64 // the longest latency
	steps                     []*step // in the order of the scenario
	phases                    []*step // parts of requests, in their order; of these only the times
	byName                    map[string]*step
	hosts                     map[string]*host
	errors                    map[[2]string]uint64 // class, step
	p99                       []float64            // a second each; 0: nothing ended
	second                    int64
}

// step is what is known of one.
type step struct {
	name                      string
	requests, failed, dropped uint64
	checks                    api.LoadChecks
	near                      []sample
}

// host is what is known of one.
type host struct {
	name  string
	at    []reached
	sent  uint64
	quiet bool // lost, or silent: nothing of it is known now
}

// sample is a span of one step.
type sample struct {
	at       time.Time
	requests uint64
	failed   uint64
	latency  api.LoadTimes
}

// reached is how much a host had sent at a time of the run.
type reached struct {
	at   float64
	sent uint64
}

func (s *sums) add(x api.LoadLive, now time.Time) {
	if x.Again || s.byName == nil {
		*s = sums{byName: map[string]*step{}, hosts: map[string]*host{}, errors: map[[2]string]uint64{}, p99: s.p99, second: s.second}
	}
	for _, st := range x.Steps {
		one := s.byName[st.Name]
		if one == nil {
			one = &step{name: st.Name}
			s.byName[st.Name] = one
			s.steps = append(s.steps, one)
		}
		one.requests, one.failed, one.dropped = one.requests+st.Requests, one.failed+st.Failed, one.dropped+st.Dropped
		one.checks.Passed, one.checks.Failed = one.checks.Passed+st.Checks.Passed, one.checks.Failed+st.Checks.Failed
		s.requests, s.failed, s.dropped = s.requests+st.Requests, s.failed+st.Failed, s.dropped+st.Dropped
		s.most = max(s.most, st.Latency.Max)
		for class, n := range st.Classes {
			if class != "ok" {
				s.errors[[2]string{class, st.Name}] += n
			}
		}
		if st.Requests+st.Failed > 0 && !x.Again { // what comes again is of more than the last seconds
			one.near = append(one.near, sample{now, st.Requests, st.Failed, st.Latency})
		}
	}
	for _, p := range x.Phases {
		i := slices.IndexFunc(s.phases, func(o *step) bool { return o.name == p.Name })
		if i < 0 {
			i = len(s.phases)
			s.phases = append(s.phases, &step{name: p.Name})
		}
		if !x.Again {
			s.phases[i].near = append(s.phases[i].near, sample{now, p.Count, 0, p.Times})
		}
	}
	for _, h := range x.Hosts {
		one := s.hosts[string(h.Host)]
		if one == nil {
			one = &host{name: string(h.Host)}
			s.hosts[string(h.Host)] = one
		}
		one.sent += h.Requests
		one.quiet = h.Lost != "" || h.Stage == "silent"
		if n := len(one.at); n == 0 || h.At > one.at[n-1].at {
			one.at = append(one.at, reached{h.At, one.sent})
		} else {
			one.at[n-1].sent = one.sent
		}
		for len(one.at) > 2 && one.at[len(one.at)-1].at-one.at[1].at >= recent.Seconds() {
			one.at = one.at[1:]
		}
	}
}

// tick forgets what is not of the last seconds any more.
func (s *sums) tick(now time.Time) {
	for _, one := range slices.Concat(s.steps, s.phases) {
		one.near = slices.DeleteFunc(one.near, func(x sample) bool { return now.Sub(x.at) > recent })
	}
	if second := now.Unix(); second != s.second && len(s.steps) > 0 {
		s.second = second
		s.p99 = append(s.p99, s.latency(s.steps...).P99)
		s.p99 = s.p99[max(0, len(s.p99)-sparks):]
	}
}

// rate of a host is exact: what it sent, over the time of the run in which it did; 0 of one of
// which nothing is known now.
func (h *host) rate() float64 {
	n := len(h.at)
	if n < 2 || h.quiet {
		return 0
	}
	return float64(h.at[n-1].sent-h.at[0].sent) / (h.at[n-1].at - h.at[0].at)
}

// rate is that of all hosts.
func (s *sums) rate() (sum float64) {
	for _, h := range s.hosts {
		sum += h.rate()
	}
	return sum
}

// part is which share of the requests of the last seconds is of a step.
func (s *sums) part(of *step) float64 {
	own, every := uint64(0), uint64(0)
	for _, one := range s.steps {
		for _, x := range one.near {
			every += x.requests
			if one == of {
				own += x.requests
			}
		}
	}
	return float64(own) / max(1, float64(every))
}

// latency is the mean of the windows of the last seconds by their requests, and the longest.
func (s *sums) latency(of ...*step) (out api.LoadTimes) {
	n := 0.0
	for _, one := range of {
		for _, x := range one.near {
			if x.latency.P50 == 0 {
				continue
			}
			w := float64(x.requests)
			n += w
			out.P50, out.P95, out.P99 = out.P50+w*x.latency.P50, out.P95+w*x.latency.P95, out.P99+w*x.latency.P99
			out.Max = max(out.Max, x.latency.Max)
		}
	}
	if n > 0 {
		out.P50, out.P95, out.P99 = out.P50/n, out.P95/n, out.P99/n
	}
	return out
}

// failure is a class of errors of a step.
type failure struct {
	class, step string
	n           uint64
}

// failures are all classes of errors, the most frequent first.
func (s *sums) failures() []failure {
	out := make([]failure, 0, len(s.errors))
	for k, n := range s.errors {
		out = append(out, failure{k[0], k[1], n})
	}
	slices.SortFunc(out, func(a, b failure) int {
		return cmp.Or(cmp.Compare(b.n, a.n), cmp.Compare(a.class, b.class), cmp.Compare(a.step, b.step))
	})
	return out
}
