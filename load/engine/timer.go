package engine

import (
	"sync"
	"time"
)

// timer waits for instants. until reports false when it was ended, which another
// goroutine may do at any time.
type timer interface {
	until(at time.Time) bool
	end()
}

// plainTimer is that of the runtime.
type plainTimer struct {
	t    *time.Timer
	done chan struct{}
	once sync.Once
}

func newPlainTimer() *plainTimer {
	t := time.NewTimer(time.Hour)
	t.Stop()
	return &plainTimer{t: t, done: make(chan struct{})}
}

func (p *plainTimer) until(at time.Time) bool {
	select {
	case <-p.done:
		return false
	default:
	}
	d := time.Until(at)
	if d <= 0 {
		return true
	}
	p.t.Reset(d)
	select {
	case <-p.t.C:
		return true
	case <-p.done:
		p.t.Stop()
		return false
	}
}

func (p *plainTimer) end() { p.once.Do(func() { close(p.done) }) }
