package onion

import (
	"sync"
	"time"
)

const (
	repeatGap  = time.Minute // between two equal events or lines of the log
	maxRepeats = 4096        // kept
)

// repeats keeps equal events and lines of the log apart. It is safe for
// concurrent use.
type repeats struct {
	mu   sync.Mutex
	last map[string]time.Time
}

func newRepeats() *repeats { return &repeats{last: map[string]time.Time{}} }

// first reports whether what was not reported for repeatGap.
func (r *repeats) first(what string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	if now.Sub(r.last[what]) < repeatGap {
		return false
	}
	if len(r.last) > maxRepeats {
		clear(r.last)
	}
	r.last[what] = now
	return true
}
