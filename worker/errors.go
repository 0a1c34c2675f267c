package worker

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/skein-project/skein/cluster"
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

// ErrModule is wrapped by every error of CheckModule.
var ErrModule = errors.New("invalid module")

// reason turns an error into a failure reason: valid UTF-8 of one line
// without control characters, 1 to cluster.MaxReason bytes. A guest's own
// words may be in it, and it will be shown on terminals.
func reason(err error) string {
	s := clean(err.Error())
	if s == "" {
		return "failed without a reason"
	}
	return clip(s, cluster.MaxReason)
}

func clean(s string) string {
	s = strings.Map(func(r rune) rune {
		if r == '\n' || r == '\r' || r == '\t' || !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "?"))
	return strings.Join(strings.Fields(s), " ")
}

// clip cuts s to at most n bytes without cutting a rune.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	const mark = "..."
	cut := n - len(mark)
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + mark
}
