package client

import (
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"
)

// forget is how long a failure of an endpoint counts.
const forget = 30 * time.Second

// endpoint is one host and how it did. What is below mu is guarded by it.
type endpoint struct {
	name string
	base *url.URL
	rt   http.RoundTripper

	mu       sync.Mutex
	failures int
	failedAt time.Time
	latency  time.Duration // average; 0: not known
}

// score is what endpoints are compared by; less is better.
type score struct {
	failures int
	latency  time.Duration
}

func (e *endpoint) score(now time.Time) score {
	e.mu.Lock()
	defer e.mu.Unlock()
	s := score{e.failures, e.latency}
	if now.Sub(e.failedAt) > forget {
		s.failures = 0
	}
	return s
}

func (s score) better(o score) bool {
	if s.failures != o.failures {
		return s.failures < o.failures
	}
	return s.latency < o.latency
}

// failed notes that a request failed there.
func (e *endpoint) failed(now time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if now.Sub(e.failedAt) > forget {
		e.failures = 0
	}
	e.failures++
	e.failedAt = now
}

// answered notes that it answered, and after what time; 0: that says nothing.
func (e *endpoint) answered(after time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.failures = 0
	switch {
	case after == 0:
	case e.latency == 0:
		e.latency = after
	default:
		e.latency += (after - e.latency) / 4
	}
}

// pick returns the better of two random ones of those that were tried least, by a
// count of tries beside list.
func pick(list []*endpoint, tried []int, now time.Time) int {
	least := slices.Min(tried)
	var fresh []int
	for i := range list {
		if tried[i] == least {
			fresh = append(fresh, i)
		}
	}
	rand.Shuffle(len(fresh), func(i, j int) { fresh[i], fresh[j] = fresh[j], fresh[i] })
	if len(fresh) > 1 && list[fresh[1]].score(now).better(list[fresh[0]].score(now)) {
		return fresh[1]
	}
	return fresh[0]
}
