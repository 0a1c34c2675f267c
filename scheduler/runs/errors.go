package runs

import "errors"

// What requests are answered. Nothing was changed.
var (
	// ErrUnknown says that there is no such run.
	ErrUnknown = errors.New("unknown run")
	// ErrOver says that the run has ended, ErrOpen that it has not.
	ErrOver = errors.New("run has ended")
	ErrOpen = errors.New("run has not ended")
	// ErrKeyReused says that the owner has submitted another workflow under the same key,
	// or one that is forgotten.
	ErrKeyReused = errors.New("key was used for a different workflow")
	// ErrMany says that as many runs are open as may be.
	ErrMany = errors.New("too many open workflows")
	// ErrOverlap says that as many runs of its group go on, and wait, as may.
	ErrOverlap = errors.New("other runs of its group have not ended")
	// ErrNoSchedule says that there is no such schedule, ErrManySchedules that there are as
	// many as may be.
	ErrNoSchedule    = errors.New("unknown schedule")
	ErrManySchedules = errors.New("too many schedules")
	// ErrNoStep says that a workflow has no step of that name.
	ErrNoStep = errors.New("no such step")
	// ErrRounds says that the run was retried as often as may be.
	ErrRounds = errors.New("the run was retried too often")
)
