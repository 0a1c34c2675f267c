package record

import (
	"errors"
	"fmt"
)

var (
	// ErrInvalid is wrapped by every refusal of a payload or value.
	ErrInvalid = errors.New("invalid log record")
	// ErrTorn reports input that ends inside a frame.
	ErrTorn = errors.New("frame cut short")
	// ErrCorrupt reports a frame whose checksum, type or length is wrong.
	ErrCorrupt = errors.New("frame corrupt")
	// ErrBlank reports zero bytes where a frame should start.
	ErrBlank = errors.New("blank space")
	// ErrSignature reports a head that its source did not sign.
	ErrSignature = errors.New("head signature does not verify")
)

// Damage says where and how a run of frames ends other than at a clean end.
// It wraps ErrTorn, ErrCorrupt or ErrBlank. Nothing after it was read.
type Damage struct {
	Offset int64  // of the frame's first byte
	Record int    // the frame's number in the file, from 0
	Reason string // for people
	Err    error
}

// Error implements error.
func (d *Damage) Error() string {
	return fmt.Sprintf("offset %d, record %d: %v: %s", d.Offset, d.Record, d.Err, d.Reason)
}

// Unwrap returns the class of the damage.
func (d *Damage) Unwrap() error { return d.Err }

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrInvalid, fmt.Sprintf(format, args...))
}
