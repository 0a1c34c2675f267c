package executor

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skein-project/skein/cluster/job"
)

// An attempt that showed progress has its time up to the hard timeout, another one up
// to the timeout.
func TestLimit(t *testing.T) {
	for _, c := range []struct {
		hard  float64
		moves bool
		want  string
	}{
		{0, false, "10s"}, {0, true, "10s"}, {30, false, "10s"}, {30, true, "30s"}, {5, true, "10s"},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := job.Spec{TimeoutSeconds: 10, Policy: job.Policy{HardTimeoutSeconds: c.hard}}
			began := time.Now()
			var seen atomic.Uint64
			timed, told, stop := limitOf(s).apply(t.Context(), "longer than %s", func(done uint64) { seen.Store(done) })
			defer stop()
			if c.moves {
				time.AfterFunc(time.Second, func() { told(7) })
			}
			<-timed.Done()
			err := context.Cause(timed)
			if took := time.Since(began).String(); took != c.want || !errors.Is(err, errStopped) || !strings.HasSuffix(err.Error(), "longer than "+c.want) || c.moves != (seen.Load() == 7) {
				t.Errorf("%+v: after %s: %v, %d told", c, took, err, seen.Load())
			}
		})
	}
}
