package wire

import (
	"errors"
	"fmt"
)

// Reason says why a message was refused. The set is closed: it is the label
// of a counter.
type Reason string

// Reasons, in the order in which a message is checked.
const (
	ReasonSize          Reason = "size"           // empty, above MaxDatagram, or a probe that is not as long as it says
	ReasonParse         Reason = "parse"          // not strict JSON, or an envelope field is missing or malformed
	ReasonVersion       Reason = "version"        // another protocol version
	ReasonUnknownSender Reason = "unknown_sender" // node_id is no member
	ReasonSource        Reason = "source"         // source address is not the sender's certified one
	ReasonRate          Reason = "rate"           // sender above its rate
	ReasonClock         Reason = "clock"          // timestamp outside the window, or before own start
	ReasonBoot          Reason = "boot"           // of an earlier start of the sender
	ReasonReplay        Reason = "replay"         // sequence number seen, or too old
	ReasonTo            Reason = "to"             // addressed to another host
	ReasonSignature     Reason = "signature"      // not signed by the sender
	ReasonUnknownType   Reason = "unknown_type"   // type outside the protocol
	ReasonPayload       Reason = "payload"        // payload malformed or out of bounds
	ReasonTerm          Reason = "term"           // lease_claim without a term
	ReasonRecord        Reason = "record"         // membership record refused
)

// Reasons returns every Reason, in the order of checking.
func Reasons() []Reason {
	return []Reason{
		ReasonSize, ReasonParse, ReasonVersion, ReasonUnknownSender, ReasonSource, ReasonRate, ReasonClock,
		ReasonBoot, ReasonReplay, ReasonTo, ReasonSignature, ReasonUnknownType, ReasonPayload, ReasonTerm, ReasonRecord,
	}
}

// Error is a refusal. It is never retryable with the same bytes and changed no
// state.
type Error struct {
	Reason Reason
	Detail string
	Err    error // cause that a caller may branch on, or nil
}

// Error implements error.
func (e *Error) Error() string { return fmt.Sprintf("message refused (%s): %s", e.Reason, e.Detail) }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Refuse returns an *Error; the caller's own checks use it too.
func Refuse(r Reason, format string, args ...any) error {
	return &Error{Reason: r, Detail: fmt.Sprintf(format, args...)}
}

// ReasonOf returns the Reason that err carries, ReasonParse if it has none.
func ReasonOf(err error) Reason {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Reason
	}
	return ReasonParse
}
