package source

import (
	"net/netip"
	"slices"
	"time"
)

// How long an answer counts, and when a source that did not answer is asked again.
const (
	LeastTTL   = 5 * time.Second
	MostTTL    = 300 * time.Second
	DefaultTTL = 60 * time.Second // where none is told
	NoneTTL    = 30 * time.Second // that there are none
	firstPause = 500 * time.Millisecond
	mostPause  = 15 * time.Second
)

// Cache is what sources said last. The zero value is ready. Time is counted from any moment.
type Cache struct{ of map[Source]entry }

type entry struct {
	list  []netip.AddrPort
	until time.Duration
	fails int
}

// Due reports that a source is to be asked now.
func (c *Cache) Due(s Source, now time.Duration) bool {
	e, ok := c.of[s]
	return !ok || now >= e.until
}

// Put takes in what a source said; ttl 0: it did not tell for how long that counts.
func (c *Cache) Put(s Source, list []netip.AddrPort, ttl, now time.Duration) {
	switch {
	case len(list) == 0:
		ttl = NoneTTL
	case ttl == 0:
		ttl = DefaultTTL
	default:
		ttl = min(max(ttl, LeastTTL), MostTTL)
	}
	c.set(s, entry{list: list, until: now + ttl})
}

// Fail takes in that a source did not answer: what it said before goes on to count, and it is
// asked again after a pause, which grows. rnd is a jitter in [0,1).
func (c *Cache) Fail(s Source, now time.Duration, rnd float64) {
	e := c.of[s]
	pause := min(firstPause<<min(e.fails, 10), mostPause)
	e.fails++
	e.until = now + pause/2 + time.Duration(rnd*float64(pause)/2)
	c.set(s, e)
}

func (c *Cache) set(s Source, e entry) {
	if c.of == nil {
		c.of = make(map[Source]entry)
	}
	c.of[s] = e
}

// Next is when one of the sources is due.
func (c *Cache) Next(list []Source, now time.Duration) time.Duration {
	next := now + MostTTL
	for _, s := range list {
		next = min(next, c.of[s].until)
	}
	return max(next, now)
}

// Endpoints are those of the sources, each once, in their order.
func (c *Cache) Endpoints(list []Source) (out []netip.AddrPort) {
	for _, s := range list {
		for _, at := range c.of[s].list {
			if !slices.Contains(out, at) {
				out = append(out, at)
			}
		}
	}
	return out
}
