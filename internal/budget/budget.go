package budget

import (
	"sync"
	"time"
)

// The budget of retries: a share of the calls, and some per second, so that a cluster
// that cannot keep up is not given even more to do.
const (
	Share = 0.1
	Rate  = 1.0 // a second
	Most  = 10.0
)

// Budget counts the tries that are left. The zero value is full at its first use.
type Budget struct {
	mu   sync.Mutex
	left float64
	at   time.Time
}

func (b *Budget) fill(now time.Time) {
	if b.at.IsZero() {
		b.left = Most
	} else {
		b.left = min(Most, b.left+Rate*now.Sub(b.at).Seconds())
	}
	b.at = now
}

// Call counts a request.
func (b *Budget) Call(now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.fill(now)
	b.left = min(Most, b.left+Share)
}

// Take reports whether there is a further try, and takes it.
func (b *Budget) Take(now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.fill(now)
	if b.left < 1 {
		return false
	}
	b.left--
	return true
}
