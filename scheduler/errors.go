package scheduler

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
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
	// ErrMany says that there are as many groups, or users, as there may be.
	ErrMany = errors.New("too many")
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

// UnawareError says that members which live run a program that does not know events of
// this kind: none is written before they do.
type UnawareError struct {
	Kind  event.Kind
	Nodes []cluster.NodeID
}

// Error implements error.
func (e *UnawareError) Error() string {
	return fmt.Sprintf("the skein of %s is too old for %s", names(e.Nodes), e.Kind)
}

// names lists the first hosts.
func names(list []cluster.NodeID) string {
	const most = 5
	var b strings.Builder
	for i, n := range list[:min(most, len(list))] {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(string(n))
	}
	if more := len(list) - most; more > 0 {
		fmt.Fprintf(&b, " and %d more", more)
	}
	return b.String()
}
