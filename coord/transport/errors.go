package transport

import (
	"errors"
	"fmt"

	"github.com/skein-project/skein/cluster"
)

// Errors that callers branch on.
var (
	// ErrNotMember: the other host is not in the membership table. Retryable
	// once its records arrived.
	ErrNotMember = errors.New("not a member")
	// ErrBusy: a bound on streams is reached. Retryable.
	ErrBusy = errors.New("too many streams")
	// ErrStopped: Run has ended or never began.
	ErrStopped = errors.New("coordination stopped")
	// ErrIdentity: the other end of a stream is not who it should be.
	ErrIdentity = errors.New("wrong identity")
	// ErrBulk: the protocol is too big for the onion service, which is the only
	// path that is left to that host. Retryable when the mesh carries again.
	ErrBulk = errors.New("too big for the onion service, and the mesh does not carry")
)

// DialError says which host and protocol a stream was for. It wraps the
// cause; no state changed.
type DialError struct {
	To    cluster.NodeID
	Proto string
	Err   error
}

// Error implements error.
func (e *DialError) Error() string { return fmt.Sprintf("dial %s %s: %v", e.To, e.Proto, e.Err) }

// Unwrap returns the cause.
func (e *DialError) Unwrap() error { return e.Err }
