package coord

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/skein-project/skein/coord/transport"
)

const commandSize = 64 // calls of other goroutines; a full one makes the caller wait

// loop is how other goroutines reach the one that owns the state, and how that
// one starts others.
type loop struct {
	running  atomic.Bool
	commands chan func()
	done     chan struct{} // closed when the loop ended
	tasks    sync.WaitGroup
	ctx      context.Context //nolint:containedctx // lent to tasks, which the owner starts
}

func newLoop() *loop {
	return &loop{commands: make(chan func(), commandSize), done: make(chan struct{})}
}

// begin lets tasks start, until ctx ends. It may be called once.
func (l *loop) begin(ctx context.Context) error {
	if !l.running.CompareAndSwap(false, true) {
		return errors.New("run twice")
	}
	l.ctx = ctx
	return nil
}

// call runs f in the loop and waits for it.
func (l *loop) call(ctx context.Context, f func()) error {
	ran := make(chan struct{})
	select {
	case l.commands <- func() { f(); close(ran) }:
	case <-l.done:
		return transport.ErrStopped
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case <-ran:
		return nil
	case <-l.done:
		return transport.ErrStopped
	}
}

// post runs f in the loop some time; it waits only while the loop is busy with
// commandSize other calls, and does nothing after the loop ended.
func (l *loop) post(f func()) {
	select {
	case l.commands <- f:
	case <-l.done:
	}
}

// start runs f in a goroutine whose context ends with the loop; it reports
// whether the loop runs.
func (l *loop) start(f func(context.Context)) bool {
	if l.ctx == nil {
		return false
	}
	ctx := l.ctx
	l.tasks.Go(func() { f(ctx) })
	return true
}
