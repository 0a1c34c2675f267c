package channel

import (
	"strings"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/internal/bucket"
)

// Asking is how often a worker asks for anything, over all its connections; who does so more
// often loses them. It is more than all that a gateway answers.
var Asking = bucket.Rate{PerSecond: 150, Burst: 300}

// Most of what a worker has.
const (
	MaxMessage     = 64 << 10 // bytes of one; longer ones go by HTTP
	MaxQueue       = 4 << 20  // bytes that wait for a client: then its connection is ended
	MaxChannels    = 4        // of a connection
	MaxConnections = 4
)

// Error is how the protocol says that something failed.
type Error struct {
	Code      uint32 `json:"code"`
	Message   string `json:"message"`
	Temporary bool   `json:"temporary,omitempty"`
}

// Error implements error.
func (e *Error) Error() string { return e.Message }

// Errors of the protocol's own.
var (
	errUnknown   = Error{Code: 102, Message: "unknown channel"}
	errForbidden = Error{Code: 103, Message: "permission denied"}
)

// Listen says why a worker may not listen to a channel; nil: it may.
func Listen(worker cluster.NodeID, name string) *Error {
	of, known := strings.CutPrefix(name, api.WorkChannel)
	switch {
	case !known:
		return new(errUnknown)
	case of != string(worker):
		return new(errForbidden)
	}
	return nil
}

// ErrorOf is how the protocol says a problem: its HTTP status, and 1000.
func ErrorOf(p *api.Problem) *Error {
	return &Error{Code: uint32(1000 + p.Status), Message: p.Detail, Temporary: p.Retryable()}
}
