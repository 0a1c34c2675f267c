package segment

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/skein-project/skein/cluster/event"
)

// CorruptError says that a chain on disk is damaged where no interrupted
// write can have damaged it. Opening the log changes nothing and is refused
// until an operator acts.
type CorruptError struct {
	Segment string // path
	Offset  int64  // byte where the unreadable or wrong record starts
	Record  int    // its number in the segment, from 0
	Source  event.SourceID
	Seq     uint64 // the event that should stand there
	Reason  string
	Own     bool // the chain was written by this host
}

// Damaged is the error for a file of no chain that cannot be what was written.
func Damaged(path string, err error) *CorruptError {
	if named, ok := errors.AsType[*fs.PathError](err); ok && named.Path == path {
		err = named.Err
	}
	return &CorruptError{Segment: path, Reason: err.Error()}
}

// Error implements error.
func (e *CorruptError) Error() string {
	if e.Source.Inc == 0 { // no chain
		return fmt.Sprintf("damaged event log: %s: %s", e.Segment, e.Reason)
	}
	return fmt.Sprintf("corrupt segment %s: offset %d, record %d (source %s, seq %d): %s",
		e.Segment, e.Offset, e.Record, e.Source, e.Seq, e.Reason)
}

// Hint returns the next command to try.
func (e *CorruptError) Hint() string {
	if e.Source.Inc == 0 && e.Own { // all of them
		return "put it back: perhaps a volume is not mounted. If it is lost, run 'skein log repair' while the daemon is stopped and " +
			"start it again: this host goes on as a new incarnation, with what the other hosts have"
	}
	if e.Source.Inc == 0 {
		return "run 'skein log repair' while the daemon is stopped and start it again: it sets the file aside"
	}
	const first = "run 'skein log repair' while the daemon is stopped and start it again: "
	if e.Own {
		return first + "the other hosts have this host's events, and it goes on as a new incarnation"
	}
	return first + "what is missing is fetched again from the other hosts"
}
