package client

import (
	"sync"
	"time"
)

// The budget of further tries: a share of the calls, and some a second, so that a
// cluster that cannot keep up does not get the more to do.
const (
	budgetShare = 0.1
	budgetRate  = 1.0 // a second
	budgetMost  = 10.0
)

// budget counts the tries that are left. The zero value is full at its first use.
type budget struct {
	mu   sync.Mutex
	left float64
	at   time.Time
}

func (b *budget) fill(now time.Time) {
	if b.at.IsZero() {
		b.left = budgetMost
	} else {
		b.left = min(budgetMost, b.left+budgetRate*now.Sub(b.at).Seconds())
	}
	b.at = now
}

// call counts a request.
func (b *budget) call(now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.fill(now)
	b.left = min(budgetMost, b.left+budgetShare)
}

// take reports whether there is a further try, and takes it.
func (b *budget) take(now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.fill(now)
	if b.left < 1 {
		return false
	}
	b.left--
	return true
}
