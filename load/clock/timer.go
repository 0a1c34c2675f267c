package clock

import (
	"sync"
	"time"
)

// Timer waits for instants. Until reports false when it was ended, which another
// goroutine may do at any time.
type Timer interface {
	Until(at time.Time) bool
	End()
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

// Until implements Timer.
func (p *plainTimer) Until(at time.Time) bool {
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

// End implements Timer.
func (p *plainTimer) End() { p.once.Do(func() { close(p.done) }) }
