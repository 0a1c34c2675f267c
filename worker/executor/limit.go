package executor

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/skein-project/skein/cluster/job"
)

// limit is how long an attempt may take: soft, or hard if it showed progress by then.
type limit struct{ soft, hard time.Duration }

func limitOf(s job.Spec) limit { return limit{soft: s.Timeout(), hard: s.HardTimeout()} }

// within is a limit that progress does not change.
func within(d time.Duration) limit { return limit{soft: d, hard: d} }

// apply returns a context that ends with ctx or at the limit; its cause is then an
// error that says tooLong of the limit, which has a place for it. What is reported to
// told counts as progress and is passed on to report. The caller calls stop.
func (l limit) apply(ctx context.Context, tooLong string, report func(uint64)) (timed context.Context, told func(uint64), stop func()) {
	timed, end := context.WithCancelCause(ctx)
	var moved atomic.Bool
	over := func(d time.Duration) { end(fmt.Errorf("%w: "+tooLong, errStopped, d)) }
	hard := time.AfterFunc(l.hard, func() { over(l.hard) })
	soft := time.AfterFunc(l.soft, func() {
		if !moved.Load() {
			over(l.soft)
		}
	})
	told = func(done uint64) {
		moved.Store(true)
		if report != nil {
			report(done)
		}
	}
	return timed, told, func() { hard.Stop(); soft.Stop(); end(nil) }
}
