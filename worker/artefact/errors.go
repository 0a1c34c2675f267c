package artefact

import (
	"errors"
	"fmt"
)

// Errors of the artefact store.
var (
	// ErrNotFound: no host that was asked has the artefact.
	ErrNotFound = errors.New("artefact not found")
	// ErrCorrupt: the bytes do not have the digest that names them. The bytes
	// were dropped; fetching again may succeed.
	ErrCorrupt = errors.New("artefact does not match its digest")
	// ErrTooLarge: the bytes exceed the limit for this artefact.
	ErrTooLarge = errors.New("artefact too large")
)

// QuotaError says that an artefact does not fit into the store's quota.
// Nothing was stored; it can succeed after others were removed.
type QuotaError struct {
	Need, Used, Quota int64
}

// Error implements error.
func (e *QuotaError) Error() string {
	return fmt.Sprintf("artefact store is full: %d bytes needed, %d of %d in use", e.Need, e.Used, e.Quota)
}
