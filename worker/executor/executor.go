package executor

import (
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/worker/runner"
	"github.com/skein-project/skein/worker/words"
)

// MaxSlots is the most chunks that one host runs at once.
const MaxSlots = 4096

// Task is one attempt at one chunk.
type Task struct {
	Attempt job.Attempt
	Spec    job.Spec
	// Report tells how many iterations are done; nil: nobody wants to know. It
	// may be called from any goroutine until Execute returns.
	Report func(done uint64)
	// Ask tells that the attempt wants more time; nil: nobody wants to know. As Report.
	Ask func(runner.Ask)
	// Save hears of checkpoints of the attempt, which are stored; nil: there are to be none.
	// As Report.
	Save func(job.Checkpoint)
	// Resume is the checkpoint of an earlier attempt; nil: none.
	Resume *job.Checkpoint
	// Ending is closed when the attempt is ended soon, whatever it does; nil: that is not
	// known before.
	Ending <-chan struct{}
	// Words hears what the attempt says on standard error; nil: nobody wants to.
	Words *words.Words
}

// infraError is a failure that says nothing of the work: this host could not
// run it.
type infraError struct{ error }

// Unwrap gives the cause.
func (e infraError) Unwrap() error { return e.error }

// Infra marks err as no fault of the work; nil stays nil.
func Infra(err error) error {
	if err == nil {
		return nil
	}
	return infraError{err}
}

// ClassOf says whose fault an executor's error is.
func ClassOf(err error) job.FailureClass {
	if _, ok := errors.AsType[infraError](err); ok {
		return job.FailedInfra
	}
	return job.FailedWork
}

// registerMetrics registers metrics of executors, unless there is no registry.
func registerMetrics(reg prometheus.Registerer, all ...prometheus.Collector) error {
	if reg == nil {
		return nil
	}
	for _, c := range all {
		if err := reg.Register(c); err != nil {
			return fmt.Errorf("register executor metrics: %w", err)
		}
	}
	return nil
}
