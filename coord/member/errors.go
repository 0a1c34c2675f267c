package member

import "errors"

// Reasons why a record is refused; every error of this package wraps one. None
// is retryable with the same table, except ErrNoIssuer and ErrNoCert, which
// another record can cure. A refused record changed no member; what
// contradicts another record is kept as Evidence.
var (
	ErrFormat    = errors.New("malformed record")
	ErrCluster   = errors.New("record of another cluster")
	ErrSignature = errors.New("record with a wrong signature")
	ErrNoIssuer  = errors.New("record of an issuer that is no certified sponsor")
	ErrNoCert    = errors.New("announcement without a certificate")
	ErrExpired   = errors.New("record expired")
	ErrFuture    = errors.New("record issued in the future")
	ErrRevoked   = errors.New("key was revoked")
	ErrConflict  = errors.New("node id or address belongs to another key")
	ErrSlice     = errors.New("address outside the sponsor's slice")
	ErrForked    = errors.New("two announcements of one epoch")
	ErrFull      = errors.New("too many records")
	ErrNoAddress = errors.New("no free address")
)
