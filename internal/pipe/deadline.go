package pipe

import (
	"sync"
	"time"
)

// Deadline is a time that can be moved while others wait for it: a wait that
// began before the move ends with the old time and begins anew. The zero value
// never passes.
type Deadline struct {
	mu    sync.Mutex
	timer *time.Timer
	ch    chan struct{} // closed when the time has come
}

// Passed returns a channel that is closed when the time has come.
func (d *Deadline) Passed() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ch == nil {
		d.ch = make(chan struct{})
	}
	return d.ch
}

// Set moves the deadline to t; the zero time means never.
func (d *Deadline) Set(t time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.timer != nil && !d.timer.Stop() {
		<-d.ch // the timer is about to close it
	}
	d.timer = nil
	passed := false
	select {
	case <-d.ch:
		passed = true
	default:
	}
	if d.ch == nil || passed {
		d.ch = make(chan struct{})
	}
	if t.IsZero() {
		return
	}
	if left := time.Until(t); left > 0 {
		ch := d.ch
		d.timer = time.AfterFunc(left, func() { close(ch) })
		return
	}
	close(d.ch)
}
