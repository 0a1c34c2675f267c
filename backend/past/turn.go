package past

import (
	"context"
	"sync"

	"github.com/skein-project/skein/api"
)

// turn lets one in at a time. Of those that wait only the latest stays.
type turn struct {
	taken chan struct{} // holds one while somebody is in

	mu     sync.Mutex
	waiter *waiter
}

type waiter struct{ giveUp chan struct{} }

func newTurn() *turn { return &turn{taken: make(chan struct{}, 1)} }

// enter returns when nobody else is in, until leave is called.
func (t *turn) enter(ctx context.Context) (leave func(), err error) {
	leave = func() { <-t.taken }
	select {
	case t.taken <- struct{}{}:
		return leave, nil
	default:
	}
	me := &waiter{giveUp: make(chan struct{})}
	t.mu.Lock()
	if t.waiter != nil {
		close(t.waiter.giveUp)
	}
	t.waiter = me
	t.mu.Unlock()
	defer t.forget(me)
	select {
	case t.taken <- struct{}{}:
		return leave, nil
	case <-me.giveUp:
		p := api.Errorf(api.CodeOverloaded, "another replay was asked for after this one, while one was running")
		p.RetryAfterSeconds = new(1.0)
		return nil, p
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (t *turn) forget(me *waiter) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.waiter == me {
		t.waiter = nil
	}
}
