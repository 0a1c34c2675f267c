package descriptor

import "errors"

// What is wrong with an input. Each error that this package returns wraps one
// of these and says where. None of them is worth a retry with the same input,
// except ErrExpired with another clock.
var (
	ErrAddress     = errors.New("not an onion address")
	ErrKey         = errors.New("not an onion key")
	ErrSyntax      = errors.New("malformed document")
	ErrTooLarge    = errors.New("document too large")
	ErrCert        = errors.New("bad certificate")
	ErrExpired     = errors.New("certificate expired")
	ErrSignature   = errors.New("signature does not verify")
	ErrForeign     = errors.New("descriptor of another address or time period")
	ErrDecrypt     = errors.New("descriptor does not decrypt")
	ErrClientAuth  = errors.New("client authorization needed")
	ErrPoint       = errors.New("bad introduction point")
	ErrNoPoints    = errors.New("no introduction points")
	ErrTooMany     = errors.New("too many introduction points")
	ErrDuplicate   = errors.New("two introduction points at one relay")
	ErrMismatch    = errors.New("descriptor is not what was to be published")
	ErrRevision    = errors.New("no revision left above the one seen")
	ErrConsensus   = errors.New("bad consensus")
	ErrNoDirs      = errors.New("no usable directory in the consensus")
	ErrClientKey   = errors.New("bad client key")
	errUnsupported = errors.New("unsupported version")
)
