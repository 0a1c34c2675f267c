package worker

import (
	"context"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/scheduler/stream"
)

// Task is one attempt at one chunk.
type Task struct {
	Ref  stream.Ref
	Spec cluster.JobSpec
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
