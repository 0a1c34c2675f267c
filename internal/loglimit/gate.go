package loglimit

import (
	"sync"
	"time"
)

// maxKeys bounds the memory of a Gate. Keys consist of names of members and
// reasons, so more of them means that something is wrong, and all start afresh.
const maxKeys = 4096

// Gate lets one line per key and interval through. It is safe for concurrent
// use.
type Gate struct {
	now      func() time.Duration
	interval time.Duration

	mu   sync.Mutex
	last map[string]time.Duration // guarded by mu
}

// New returns a Gate that lets one line per key through in each interval.
func New(now func() time.Duration, interval time.Duration) *Gate {
	return &Gate{now: now, interval: interval, last: make(map[string]time.Duration)}
}

// Pass reports whether the line with this key is to be written.
func (g *Gate) Pass(key string) bool {
	now := g.now()
	g.mu.Lock()
	defer g.mu.Unlock()
	if at, ok := g.last[key]; ok && now-at < g.interval {
		return false
	}
	if len(g.last) >= maxKeys {
		clear(g.last)
	}
	g.last[key] = now
	return true
}
