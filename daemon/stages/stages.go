package stages

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/rs/zerolog"
)

// Stage is one part of a running daemon.
type Stage struct {
	Name string
	// Run blocks until its context ends; returning earlier ends the daemon.
	Run func(context.Context) error
	// Stop is called before Run's context ends, to leave cleanly; may be nil.
	Stop func(context.Context) error
	// Grace bounds Stop, and again the return of Run.
	Grace time.Duration
}

// Sequence starts stages in the order given and stops them in reverse. One goroutine
// starts and stops them.
type Sequence struct {
	log    zerolog.Logger
	failed chan error // capacity 1: the first failure ends the daemon, later ones are logged

	running []*running
}

type running struct {
	Stage
	cancel context.CancelFunc
	done   chan struct{} // closed when run returned
	err    error         // read after done
}

// New returns a Sequence without a stage.
func New(log zerolog.Logger) *Sequence { return &Sequence{log: log, failed: make(chan error, 1)} }

// Failed gives the error of the first stage that fails.
func (l *Sequence) Failed() <-chan error { return l.failed }

// Start runs s in a goroutine of its own. Its context is independent of the
// caller's: only Stop ends it, so that stages end in order.
func (l *Sequence) Start(s Stage) {
	ctx, cancel := context.WithCancel(context.Background())
	r := &running{Stage: s, cancel: cancel, done: make(chan struct{})}
	l.running = append(l.running, r)
	go func() {
		defer close(r.done)
		err := s.Run(ctx)
		if ctx.Err() != nil && (err == nil || errors.Is(err, context.Canceled)) {
			return
		}
		if err == nil {
			err = errors.New("ended unexpectedly")
		}
		r.err = fmt.Errorf("%s: %w", s.Name, err)
		select {
		case l.failed <- r.err:
		default:
			l.log.Error().Err(r.err).Msg("stage failed")
		}
	}()
}

// Await waits until up is closed, a stage fails, or ctx ends.
func (l *Sequence) Await(ctx context.Context, up <-chan struct{}) error {
	select {
	case <-up:
		return nil
	case err := <-l.failed:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Stop ends every stage, last started first, each within its grace.
func (l *Sequence) Stop() error {
	var errs []error
	for _, r := range slices.Backward(l.running) {
		if r.Stop != nil {
			ctx, cancel := context.WithTimeout(context.Background(), r.Grace)
			if err := r.Stop(ctx); err != nil {
				errs = append(errs, fmt.Errorf("stop %s: %w", r.Name, err))
			}
			cancel()
		}
		r.cancel()
		timer := time.NewTimer(r.Grace)
		select {
		case <-r.done:
		case <-timer.C:
			errs = append(errs, fmt.Errorf("stop %s: still running after %s", r.Name, r.Grace))
		}
		timer.Stop()
	}
	l.running = nil
	return errors.Join(errs...)
}
