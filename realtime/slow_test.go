package realtime

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestSlow: on a host that has too much to do a topic is looked at once a second, however
// often the log changes, and as often as before once it has not.
func TestSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newWorld()
		var slow atomic.Bool
		h := o.hub("b")
		h.o.Paused = slow.Load
		w := h.Watch(Request{Topics: []string{TopicMembers}})
		until(t, w, "synced")
		looks := func() int {
			o.mu.Lock()
			defer o.mu.Unlock()
			n := o.looks
			o.looks = 0
			return n
		}
		during := func(d time.Duration) int {
			looks()
			for range d / (10 * time.Millisecond) {
				o.update(func() {})
				time.Sleep(10 * time.Millisecond)
			}
			return looks()
		}
		if n := during(10 * time.Second); n < 40 {
			t.Errorf("%d looks in 10 s of a host that is well", n)
		}
		slow.Store(true)
		during(time.Second) // one that has begun
		if n := during(10 * time.Second); n < 9 || n > 11 {
			t.Errorf("%d looks in 10 s, once a second is wanted", n)
		}
		slow.Store(false)
		during(time.Second)
		if n := during(10 * time.Second); n < 40 {
			t.Errorf("%d looks in 10 s of a host that is well again", n)
		}
		w.Close()
	})
}
