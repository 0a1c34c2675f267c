package eventlog

import (
	"errors"
	"fmt"
)

// What Append answers. A rejected group is certainly not in the log and never
// will be; an unknown one may be, and the caller must look before repeating.
var (
	// ErrRejected is wrapped by every error of an append that wrote nothing.
	ErrRejected = errors.New("append rejected")
	// ErrFull says that the context ended while the intake was full.
	ErrFull = fmt.Errorf("%w: intake full", ErrRejected)
	// ErrClosed says that the log takes nothing more.
	ErrClosed = fmt.Errorf("%w: log closed", ErrRejected)
	// ErrTooLarge says that the group exceeds wire.MaxAppend or an event
	// record.MaxBody.
	ErrTooLarge = fmt.Errorf("%w: too large", ErrRejected)
	// ErrFenced says that this host may not act in the draft's term.
	ErrFenced = fmt.Errorf("%w: no lease in this term", ErrRejected)
	// ErrDiskFull says that there is no room for new work, or, for what ends
	// work and passes the lease on, none at all. It can be tried again when
	// Log.Disk says that there is room.
	ErrDiskFull = fmt.Errorf("%w: disk full", ErrRejected)
	// ErrDraft says that a draft is malformed.
	ErrDraft = fmt.Errorf("%w: invalid draft", ErrRejected)

	// ErrPoisoned is wrapped after a failed write or sync: nothing more is
	// written until the log has been recovered, which finds out what survived.
	ErrPoisoned = errors.New("log poisoned by an i/o error")
)
