package worker

import (
	"context"
	"errors"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/scheduler/stream"
)

// Task is one attempt at one chunk.
type Task struct {
	Ref  stream.Ref
	Spec cluster.JobSpec
	// Report tells how many iterations are done; nil: nobody wants to know. It
	// may be called from any goroutine until Execute returns.
	Report func(done uint64)
}

// infraError is a failure that says nothing of the work: this host could not
// run it.
type infraError struct{ error }

// Unwrap gives the cause.
func (e infraError) Unwrap() error { return e.error }

// infra marks err as no fault of the work; nil stays nil.
func infra(err error) error {
	if err == nil {
		return nil
	}
	return infraError{err}
}

// classOf says whose fault an executor's error is.
func classOf(err error) cluster.FailureClass {
	if _, ok := errors.AsType[infraError](err); ok {
		return cluster.FailedInfra
	}
	return cluster.FailedWork
}

// Executor runs attempts. The worker calls Run once, in a goroutine of its
// own, and Execute from many goroutines, at most once at a time for a slot.
type Executor interface {
	// Run serves Execute until ctx ends, then ends what still runs.
	Run(ctx context.Context) error
	// Execute runs one attempt in a slot, counted from 0. It returns soon
	// after ctx ends. The text of an error is the failure reason that the
	// submitter reads. The result has been validated.
	Execute(ctx context.Context, slot int, t Task) (cluster.ChunkResult, error)
}
