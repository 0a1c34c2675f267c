package store

import (
	"errors"
	"fmt"

	"github.com/skein-project/skein/cluster/event"
)

var (
	// ErrEquivocation says that a source signed two histories.
	ErrEquivocation = errors.New("source signed two different histories")
	// ErrGap says that events before those that were given are missing here.
	ErrGap = errors.New("gap in chain")
	// ErrRenewal says that a new incarnation was asked for that cannot be.
	ErrRenewal = errors.New("incarnation is not above that of the own chain")
	// ErrRolledBack says that another host holds more of this host's own
	// chain than its disk does.
	ErrRolledBack = errors.New("own chain is longer on another host")
	// ErrCompacted is wrapped when events are asked for that are no longer
	// retained.
	ErrCompacted = errors.New("events are no longer retained")
)

// Contradiction says that a run cannot follow what is here of its chain.
func Contradiction(src event.SourceID, seq uint64) error {
	return fmt.Errorf("%w: %s at seq %d", ErrEquivocation, src, seq)
}

// CompactedError says that a reader missed events that are no longer retained.
type CompactedError struct {
	Source event.SourceID
	Seq    uint64       // the first event that it would have read
	Oldest event.Cursor // from which everything is there
}

// Error implements error.
func (e *CompactedError) Error() string {
	return fmt.Sprintf("%v: %s from seq %d to %d", ErrCompacted, e.Source, e.Seq, e.Oldest[e.Source])
}

// Unwrap returns ErrCompacted.
func (e *CompactedError) Unwrap() error { return ErrCompacted }
