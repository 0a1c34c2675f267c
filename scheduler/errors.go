package scheduler

import (
	"errors"
	"time"

	"github.com/skein-project/skein/scheduler/plan/eligible"
)

// RetryAfter is how long a caller should wait after ErrBusy.
const RetryAfter = time.Second

// What Submit, Stop, Quiesce and Run answer. Nothing was changed unless the
// comment says otherwise.
var (
	// ErrNotHolder says that no term runs here, or that it is being handed
	// over. Retry on the holder.
	ErrNotHolder = errors.New("this host does not schedule")
	// ErrBusy says that too many requests wait. Retry after RetryAfter.
	ErrBusy = errors.New("scheduler is busy")
	// ErrNoRoom says that the log has no room for a new job or group. Retry when the
	// operator has made some.
	ErrNoRoom = errors.New("no room for new jobs in the event log")
	// ErrKeyReused says that the owner has submitted another job under the
	// same key. Retrying is useless.
	ErrKeyReused = errors.New("key was used for a different job")
	// ErrNoWorker says that no worker may ever run the job, see NoWorkerError.
	ErrNoWorker = errors.New("no worker can run it")
	// ErrManyGroups says that there are as many groups as there may be.
	ErrManyGroups = errors.New("too many groups")
	// ErrUnknownJob says that no job has this id.
	ErrUnknownJob = errors.New("unknown job")
	// ErrJobOver says that the job has ended already.
	ErrJobOver = errors.New("job has ended")
	// ErrUnknownOutcome says that the request may have been carried out, or
	// may not survive the loss of this host. Retrying with the same key is
	// safe.
	ErrUnknownOutcome = errors.New("outcome unknown")
	// ErrLeaseLost ends Run when the lease of its term is gone.
	ErrLeaseLost = errors.New("lease lost")
)

// errUnmeasured says that a submission leaves the size of its chunks to the cluster, which
// knows nothing of the work and may try it.
var errUnmeasured = errors.New("the work was not measured yet")

// NoWorkerError is ErrNoWorker with what keeps each worker from the job. It can be
// submitted to wait for a worker.
type NoWorkerError struct{ Why eligible.Explanation }

// Error implements error.
func (e *NoWorkerError) Error() string { return ErrNoWorker.Error() + ": " + e.Why.String() }

// Unwrap returns ErrNoWorker.
func (e *NoWorkerError) Unwrap() error { return ErrNoWorker }
