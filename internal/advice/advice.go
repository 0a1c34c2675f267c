package advice

import "errors"

// Error says what is wrong, and what to do next.
type Error struct {
	Err  error
	Next string
}

// Error implements error.
func (e *Error) Error() string { return e.Err.Error() + ": " + e.Next }

// Unwrap returns what is wrong.
func (e *Error) Unwrap() error { return e.Err }

// New returns an error of two texts.
func New(what, next string) error { return &Error{errors.New(what), next} }

// Of takes an error apart; next is empty where nothing is advised.
func Of(err error) (what, next string) {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Err.Error(), e.Next
	}
	return err.Error(), ""
}
