package scheduler

import (
	"context"
	"sync"
	"time"

	"github.com/skein-project/skein/scheduler/plan/fair"
)

// Bounds of trials.
const (
	// trialTime bounds a trial, and the wait for those of others. A module that was
	// never here is compiled within it, which the first chunk need not do then.
	trialTime = 15 * time.Second
	// trialShare is how long a trial takes while another owner waits.
	trialShare = 4 * time.Second
	// maxTrials wait, maxOwnerTrials of one owner; further jobs have none.
	maxTrials      = 256
	maxOwnerTrials = 64
)

// trials has one trial run at a time, of the owners in turn.
type trials struct {
	mu     sync.Mutex
	turns  fair.Turns
	asked  uint64                   // numbers who asks
	called map[uint64]chan struct{} // of who waits; closed when it is its turn
	// Of the trial that runs:
	ends  context.CancelFunc
	began time.Time
	short bool // it ends after trialShare
}

func newTrials() *trials {
	return &trials{turns: fair.Turns{Most: maxTrials, Each: maxOwnerTrials}, called: make(map[uint64]chan struct{})}
}

// begin waits for owner's turn, for as long as ctx allows. The trial is to end with
// its context, and leave is to be called then. It is not ok if there is to be none.
func (t *trials) begin(ctx context.Context, owner string) (trying context.Context, leave func(), ok bool) {
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
func (t *trials) hurry() {
	if t.ends == nil || t.short || !t.turns.Others() {
		return
	}
	t.short = true
	time.AfterFunc(trialShare-time.Since(t.began), t.ends) // what is over already it ends no more
}

func (t *trials) leave() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ends()
	t.next()
}

// next calls who is next. The caller holds mu.
func (t *trials) next() {
	t.ends = nil
	if id, next := t.turns.Done(); next {
		close(t.called[id])
	}
}
