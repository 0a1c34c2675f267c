package trials

import (
	"context"
	"sync"
	"time"

	"github.com/skein-project/skein/scheduler/plan/fair"
)

// Bounds of trials.
const (
	// Time bounds a trial, and the wait for those of others. A module that was
	// never here is compiled within it, which the first chunk need not do then.
	Time = 15 * time.Second
	// Share is how long a trial takes while another owner waits.
	Share = 4 * time.Second
	// maxWait wait, maxOwnerWait of one owner; further jobs have none.
	maxWait      = 256
	maxOwnerWait = 64
)

// Line has one trial run at a time, of the owners in turn.
type Line struct {
	mu     sync.Mutex
	turns  fair.Turns
	asked  uint64                   // numbers who asks
	called map[uint64]chan struct{} // of who waits; closed when it is its turn
	// Of the trial that runs:
	ends  context.CancelFunc
	began time.Time
	short bool // it ends after Share
}

// New returns a line in which nobody waits.
func New() *Line {
	return &Line{turns: fair.Turns{Most: maxWait, Each: maxOwnerWait}, called: make(map[uint64]chan struct{})}
}

// Begin waits for owner's turn, for as long as ctx allows. The trial is to end with
// its context, and leave is to be called then. It is not ok if there is to be none.
func (t *Line) Begin(ctx context.Context, owner string) (trying context.Context, leave func(), ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.asked++
	id := t.asked
	now, ok := t.turns.Ask(owner, id)
	if !ok {
		return nil, nil, false
	}
	if !now {
		called := make(chan struct{})
		t.called[id] = called
		t.hurry()
		t.mu.Unlock()
		select {
		case <-called:
		case <-ctx.Done():
		}
		t.mu.Lock()
		delete(t.called, id)
		if ctx.Err() != nil {
			if !t.turns.Leave(owner, id) {
				t.next() // it was called at the same time
			}
			return nil, nil, false
		}
	}
	trying, t.ends = context.WithCancel(ctx)
	t.began, t.short = time.Now(), false
	t.hurry()
	return trying, t.leave, true
}

// hurry ends the trial that runs after its share, if another owner waits. The caller
// holds mu.
func (t *Line) hurry() {
	if t.ends == nil || t.short || !t.turns.Others() {
		return
	}
	t.short = true
	time.AfterFunc(Share-time.Since(t.began), t.ends) // what is over already it ends no more
}

func (t *Line) leave() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ends()
	t.next()
}

// next calls who is next. The caller holds mu.
func (t *Line) next() {
	t.ends = nil
	if id, next := t.turns.Done(); next {
		close(t.called[id])
	}
}

// Idle reports that no trial runs or waits.
func (t *Line) Idle() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.ends == nil && len(t.called) == 0
}
