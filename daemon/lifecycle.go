package daemon

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/rs/zerolog"
)

// stage is one part of a running daemon.
type stage struct {
	name string
	// run blocks until its context ends; returning earlier ends the daemon.
	run func(context.Context) error
	// stop is called before run's context ends, to leave cleanly; may be nil.
	stop func(context.Context) error
	// grace bounds stop, and again the return of run.
	grace time.Duration
}

// lifecycle starts stages in the order given and stops them in reverse.
type lifecycle struct {
	log    zerolog.Logger
	failed chan error // capacity 1: the first failure ends the daemon, later ones are logged

	running []*runningStage
}

type runningStage struct {
	stage
	cancel context.CancelFunc
	done   chan struct{} // closed when run returned
	err    error         // read after done
}

func newLifecycle(log zerolog.Logger) *lifecycle {
	return &lifecycle{log: log, failed: make(chan error, 1)}
}

// start runs s in a goroutine of its own. Its context is independent of the
// caller's: only stop ends it, so that stages end in order.
func (l *lifecycle) start(s stage) {
	ctx, cancel := context.WithCancel(context.Background())
	r := &runningStage{stage: s, cancel: cancel, done: make(chan struct{})}
	l.running = append(l.running, r)
	go func() {
		defer close(r.done)
		err := s.run(ctx)
		if ctx.Err() != nil && (err == nil || errors.Is(err, context.Canceled)) {
			return
		}
		if err == nil {
			err = errors.New("ended unexpectedly")
		}
		r.err = fmt.Errorf("%s: %w", s.name, err)
		select {
		case l.failed <- r.err:
		default:
			l.log.Error().Err(r.err).Msg("stage failed")
		}
	}()
}

// await waits until up is closed, a stage fails, or ctx ends.
func (l *lifecycle) await(ctx context.Context, up <-chan struct{}) error {
	select {
	case <-up:
		return nil
	case err := <-l.failed:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// stop ends every stage, last started first, each within its grace.
func (l *lifecycle) stop() error {
	var errs []error
	for _, r := range slices.Backward(l.running) {
		if r.stop != nil {
			ctx, cancel := context.WithTimeout(context.Background(), r.grace)
			if err := r.stop(ctx); err != nil {
				errs = append(errs, fmt.Errorf("stop %s: %w", r.name, err))
			}
			cancel()
		}
		r.cancel()
		timer := time.NewTimer(r.grace)
		select {
		case <-r.done:
		case <-timer.C:
			errs = append(errs, fmt.Errorf("stop %s: still running after %s", r.name, r.grace))
		}
		timer.Stop()
	}
	l.running = nil
	return errors.Join(errs...)
}
