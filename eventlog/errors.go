package eventlog

import (
	"errors"
	"fmt"

	"github.com/skein-project/skein/cluster"
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
	// ErrTooLarge says that the group exceeds MaxAppend or an event MaxBody.
	ErrTooLarge = fmt.Errorf("%w: too large", ErrRejected)
	// ErrFenced says that this host may not act in the draft's term.
	ErrFenced = fmt.Errorf("%w: no lease in this term", ErrRejected)
	// ErrDiskFull says that there is no room for new work, or, for what ends
	// work and passes the lease on, none at all. It can be tried again when
	// Disk says so.
	ErrDiskFull = fmt.Errorf("%w: disk full", ErrRejected)
	// ErrDraft says that a draft is malformed.
	ErrDraft = fmt.Errorf("%w: invalid draft", ErrRejected)

	// ErrUnknown is wrapped when the fate of an append, or the stability of
	// an event, cannot be told.
	ErrUnknown = errors.New("outcome unknown")
	// ErrPoisoned is wrapped after a failed write or sync: nothing more is
	// written until the log is opened again, which finds out what survived.
	ErrPoisoned = errors.New("log poisoned by an i/o error")

	// ErrPeer is wrapped when another host sends what a correct one would
	// not.
	ErrPeer = errors.New("invalid data from peer")
	// ErrRefused says that a voter has promised a higher term, or not yet
	// the term asked about.
	ErrRefused = errors.New("refused by voter")
	// ErrQuota says that a host has written more than the log takes from one.
	ErrQuota = errors.New("quota of the source exceeded")
	// ErrEquivocation says that a source signed two histories.
	ErrEquivocation = errors.New("source signed two different histories")
	// ErrRolledBack says that another host holds more of this host's own
	// chain than its disk does.
	ErrRolledBack = errors.New("own chain is longer on another host")
	// ErrPosition is wrapped when a position lies beyond what this log holds.
	ErrPosition = errors.New("position is not in the log")
	// ErrCompacted is wrapped when events are asked for that are kept no more.
	ErrCompacted = errors.New("events are kept no more")
)

// CompactedError says that a reader missed events that are kept no more.
type CompactedError struct {
	Source cluster.SourceID
	Seq    uint64         // the first event that it would have read
	Oldest cluster.Cursor // from which everything is there
}

// Error implements error.
func (e *CompactedError) Error() string {
	return fmt.Sprintf("%v: %s from seq %d to %d", ErrCompacted, e.Source, e.Seq, e.Oldest[e.Source])
}

// Unwrap returns ErrCompacted.
func (e *CompactedError) Unwrap() error { return ErrCompacted }

// CorruptError says that a chain on disk is damaged where no interrupted
// write can have damaged it. Opening the log changes nothing and is refused
// until an operator acts.
type CorruptError struct {
	Segment string // path
	Offset  int64  // byte where the unreadable or wrong record starts
	Record  int    // its number in the segment, from 0
	Source  cluster.SourceID
	Seq     uint64 // the event that should stand there
	Reason  string
	Own     bool // the chain was written by this host
}

// Error implements error.
func (e *CorruptError) Error() string {
	return fmt.Sprintf("corrupt segment %s: offset %d, record %d (source %s, seq %d): %s",
		e.Segment, e.Offset, e.Record, e.Source, e.Seq, e.Reason)
}

// Hint returns the next command to try.
func (e *CorruptError) Hint() string {
	const first = "run 'skein log repair' while the daemon is stopped and start it again: "
	if e.Own {
		return first + "the other hosts have this host's events, and it goes on as a new incarnation"
	}
	return first + "what is missing is fetched again from the other hosts"
}
