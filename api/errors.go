package api

import (
	"errors"
	"fmt"
)

// UnreachableError reports that nobody answered at Target. The request did
// not reach a daemon.
type UnreachableError struct {
	Target string
	Err    error
}

// Error names the target and the cause.
func (e *UnreachableError) Error() string {
	return fmt.Sprintf("daemon unreachable at %s: %v", e.Target, e.Err)
}

// Unwrap returns the cause.
func (e *UnreachableError) Unwrap() error { return e.Err }

// ErrInterrupted is wrapped by errors of calls whose answer broke off: the
// request may have taken effect.
var ErrInterrupted = errors.New("connection to the daemon broke")

// ErrAnswer is wrapped by errors about answers that are not of this API.
var ErrAnswer = errors.New("unexpected answer")

// Temporary reports whether the same call may succeed later: nobody answered,
// the connection broke, or the daemon said so.
func Temporary(err error) bool {
	var unreachable *UnreachableError
	var problem *Problem
	switch {
	case errors.As(err, &problem):
		return problem.Retryable()
	case errors.As(err, &unreachable), errors.Is(err, ErrInterrupted):
		return true
	}
	return false
}

// IsCode reports whether err is a Problem with the given code.
func IsCode(err error, code Code) bool {
	var problem *Problem
	return errors.As(err, &problem) && problem.Code == code
}
