package mesh

import (
	"errors"
	"strings"

	"github.com/skein-project/skein/mesh/topo"
)

// Errors that callers branch on.
var (
	// ErrClosed is returned by every method once Run has ended.
	ErrClosed = errors.New("mesh is closed")
	// ErrBackend reports a backend that this build does not have.
	ErrBackend = errors.New("unknown mesh backend")
	// ErrRunning is returned by a second Run.
	ErrRunning = errors.New("mesh was already run")
	// ErrRefused is matched by *RefusedError.
	ErrRefused = errors.New("refused by the mesh")
)

// RefusedError says which parts of a Desired were not carried out; all else
// was. Repeating the same Set changes nothing.
type RefusedError struct {
	Refusals []topo.Refusal
}

// Error lists the refusals.
func (e *RefusedError) Error() string {
	parts := make([]string, len(e.Refusals))
	for i, r := range e.Refusals {
		parts[i] = r.String()
	}
	return ErrRefused.Error() + ": " + strings.Join(parts, "; ")
}

// Is matches ErrRefused.
func (e *RefusedError) Is(target error) bool { return target == ErrRefused }
