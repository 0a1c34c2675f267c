package executor

import (
	"context"
	"time"

	"github.com/skein-project/skein/cluster/job"
)

// A trial ends when the iterations of a run took trialRun, or all runs trialAll.
const (
	trialRun = 100 * time.Millisecond
	trialAll = 2 * time.Second
	// trialGrowth is the most by which a run has more iterations than the one before.
	trialGrowth = 20
)

// Trial runs a few iterations of a job, then more, and returns how many one slot does
// per second; 0 if it cannot tell. Nothing counts. A program of the host is not tried,
// because it may have effects, nor what has files. Its runs have a child of their own, beside the slots.
func (e *WASM) Trial(ctx context.Context, spec job.Spec) float64 {
	if spec.Executor != job.ExecutorWASM || spec.MemoryBytes > e.opts.MemoryBytes || spec.HasFiles() {
		return 0
	}
	ctx, cancel := context.WithTimeout(ctx, trialAll+e.opts.LoadTimeout)
	defer cancel()
	defer e.rest()
	run := func(n uint64, most time.Duration) (time.Duration, error) {
		task := e.task(spec, 0)
		task.Iterations = n
		began := time.Now()
		done, err := e.perform(ctx, e.opts.Slots, task, hearing{}, within(most))
		took := time.Since(began)
		if err == nil {
			_, err = decodeResult(done.Stdout, n)
		}
		return took, err
	}
	return measure(spec.Iterations, run)
}

// measure finds how many iterations of most are done per second, by runs of more and
// more of them, until one takes long beside what a run takes without them.
func measure(most uint64, run func(n uint64, limit time.Duration) (time.Duration, error)) (perSecond float64) {
	if _, err := run(1, trialAll); err != nil { // it loads the module
		return 0
	}
	spent, first := time.Duration(0), time.Duration(0)
	for n := uint64(1); ; {
		took, err := run(n, trialAll-spent)
		if err != nil {
			return perSecond
		}
		took = max(took, time.Microsecond)
		if n == 1 {
			first = took
		}
		// If a run of one is a large part of it, the rate is higher than this.
		net, clear := took-first, took-first >= max(trialRun, 2*first)
		perSecond = float64(n) / took.Seconds()
		if net > first {
			perSecond = float64(n-1) / net.Seconds()
		}
		spent += took
		if n >= most || clear || spent >= trialAll {
			return perSecond
		}
		more := 1.5 * float64(max(trialRun, 2*first)) / float64(max(net, first/4, 1))
		n = min(most, max(2*n, uint64(float64(n)*min(more, trialGrowth))))
	}
}
