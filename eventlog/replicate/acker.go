package replicate

import (
	"context"
	"sync"

	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/eventlog/wire"
)

// acker acknowledges pushed runs, in the order of their arrival, when they are on
// this disk. While one run is being synced the next ones are verified and staged,
// and all that arrived meanwhile share the next sync. It writes to the stream only
// while something is to be acknowledged; whoever else writes drains it first.
type acker struct {
	s     *stream
	queue chan *offer // capacity pushAhead; closed by stop; full: the reader waits
	run   sync.WaitGroup

	mu      sync.Mutex
	idle    *sync.Cond // signalled when left becomes 0
	started bool
	left    int   // runs that are not acknowledged
	err     error // why the stream ended
}

func newAcker(s *stream) *acker {
	a := &acker{s: s, queue: make(chan *offer, pushAhead)}
	a.idle = sync.NewCond(&a.mu)
	return a
}

// add has an offered run acknowledged. It reports false when the stream has
// ended. The first run starts the goroutine, which ends with stop.
func (a *acker) add(ctx context.Context, o *offer) bool {
	a.mu.Lock()
	if a.err != nil {
		a.mu.Unlock()
		return false
	}
	a.left++
	first := !a.started
	a.started = true
	a.mu.Unlock()
	if first {
		a.run.Go(func() { a.loop(ctx) })
	}
	a.queue <- o // the goroutine takes them, whatever happened
	return true
}

func (a *acker) loop(ctx context.Context) {
	for o := range a.queue {
		a.mu.Lock()
		err := a.err
		a.mu.Unlock()
		if err == nil {
			if err = a.s.reply(a.s.acknowledge(ctx, o)); err != nil {
				_ = a.s.conn.Close() // wakes the reader
			}
		}
		a.mu.Lock()
		a.err = err
		if a.left--; a.left == 0 {
			a.idle.Broadcast()
		}
		a.mu.Unlock()
	}
}

// drain waits until everything is acknowledged. It reports false when the stream
// has ended.
func (a *acker) drain() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	for a.left > 0 {
		a.idle.Wait()
	}
	return a.err == nil
}

// stop waits for the goroutine and returns why it ended the stream, if it did.
func (a *acker) stop() error {
	close(a.queue)
	a.run.Wait()
	return a.err
}

// acknowledge returns the answer to a pushed run when it is durable here.
func (s *stream) acknowledge(ctx context.Context, o *offer) (wire.Type, []byte, error) {
	ctx, cancel := context.WithTimeout(ctx, s.r.o.IOTimeout)
	defer cancel()
	if err := s.r.stored(ctx, o); err != nil {
		return 0, nil, err
	}
	ru := o.run
	if ru.MovesCut() {
		if err := s.r.Level(ctx, s.from); err != nil {
			return 0, nil, err
		}
	}
	// The promise is read after the run is durable: a candidate that was
	// promised more before this moment gets heads that include it. The runs
	// after this one are not acknowledged yet, even if they are durable: one may
	// move the cut.
	a := s.position(ru.Head.Source)
	if a.Mark.Seq > ru.Head.Seq {
		a.Mark = event.Mark{Seq: ru.Head.Seq, Hash: ru.Head.Hash}
	}
	return wire.MsgAck, a.Encode(), nil
}
