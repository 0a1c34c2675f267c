package api

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/skein-project/skein/cluster"
)

// Code names a kind of error; codes are stable.
type Code string

// Codes.
const (
	CodeInvalidRequest Code = "invalid_request" // malformed, too long, unknown field
	CodeInvalidJob     Code = "invalid_job"     // the job cannot be accepted
	CodeNotFound       Code = "not_found"
	CodeUnauthorized   Code = "unauthorized"       // no proof of who asks, or none that is good
	CodeForbidden      Code = "forbidden"          // the peer may read, not change
	CodeConflict       Code = "conflict"           // same key, other content; job already final
	CodeTooLarge       Code = "too_large"          // body over its limit
	CodeMethod         Code = "method_not_allowed" // path exists, method does not
	CodeOverloaded     Code = "overloaded"         // retry later
	CodeNoHolder       Code = "no_holder"          // nobody may schedule now: retry later
	CodeNotStable      Code = "not_stable"         // written, not yet on a majority: retry with the same key
	CodeNotReady       Code = "not_ready"          // starting, joining or stopping
	CodeCompacted      Code = "compacted"          // these events are no longer kept; see Problem.Cursor
	CodeTimeout        Code = "timeout"
	CodeInternal       Code = "internal"
)

// Codes are all of them.
func Codes() []Code {
	return []Code{
		CodeInvalidRequest, CodeInvalidJob, CodeNotFound, CodeUnauthorized, CodeForbidden, CodeConflict, CodeTooLarge, CodeMethod, CodeOverloaded,
		CodeNoHolder, CodeNotStable, CodeNotReady, CodeCompacted, CodeTimeout, CodeInternal,
	}
}

// Problem is the body of every error (RFC 9457), and the error itself.
type Problem struct {
	Header
	Type   string `json:"type"` // "urn:skein:problem:" and the code
	Title  string `json:"title"`
	Status int    `json:"status"`
	Code   Code   `json:"code"`
	Detail string `json:"detail"`
	Hint   string `json:"hint,omitempty"` // what to do next
	// RetryAfterSeconds says when trying again makes sense; null: it does not.
	RetryAfterSeconds *float64 `json:"retry_after_seconds"`
	// Cursor is, with code compacted, the position after which every event is
	// kept.
	Cursor string `json:"cursor,omitempty"`
	// ServerTime is, with code unauthorized, the clock of the host: a proof made by
	// another clock is refused.
	ServerTime *time.Time `json:"server_time,omitempty"`
}

// Errorf returns a Problem with the HTTP status and title of its code.
func Errorf(code Code, format string, args ...any) *Problem {
	status := httpStatus(code)
	p := &Problem{
		Type: "urn:skein:problem:" + string(code), Title: http.StatusText(status),
		Status: status, Code: code, Detail: fmt.Sprintf(format, args...),
	}
	switch code {
	case CodeOverloaded, CodeNoHolder, CodeNotStable, CodeNotReady:
		after := 1.0
		p.RetryAfterSeconds = &after
	}
	return p
}

// WithHint adds what to do next.
func (p *Problem) WithHint(format string, args ...any) *Problem {
	p.Hint = fmt.Sprintf(format, args...)
	return p
}

// NoMember is the answer about a host that is not a member.
func NoMember(id cluster.NodeID) *Problem {
	return Errorf(CodeNotFound, "no member %s", id).WithHint("see `skein members`")
}

// NoPath is the problem of a path that the host does not have.
func NoPath(path string) *Problem {
	return Errorf(CodeNotFound, noPath+"%s", path).WithHint("paths begin with /v1/, or are /healthz, /readyz and /metrics")
}

const noPath = "nothing at "

// OfAnotherRelease reports that the host does not have a path of this package: its skein
// is of another release.
func (p *Problem) OfAnotherRelease() bool {
	return p.Code == CodeNotFound && strings.HasPrefix(p.Detail, noPath+"/v1/")
}

// Error returns the detail.
func (p *Problem) Error() string { return p.Detail }

// Retryable reports whether the same request may succeed later.
func (p *Problem) Retryable() bool { return p.RetryAfterSeconds != nil }

func httpStatus(code Code) int {
	switch code {
	case CodeInvalidRequest:
		return http.StatusBadRequest
	case CodeInvalidJob:
		return http.StatusUnprocessableEntity
	case CodeNotFound:
		return http.StatusNotFound
	case CodeUnauthorized:
		return http.StatusUnauthorized
	case CodeForbidden:
		return http.StatusForbidden
	case CodeConflict:
		return http.StatusConflict
	case CodeCompacted:
		return http.StatusGone
	case CodeTooLarge:
		return http.StatusRequestEntityTooLarge
	case CodeMethod:
		return http.StatusMethodNotAllowed
	case CodeOverloaded:
		return http.StatusTooManyRequests
	case CodeNoHolder, CodeNotReady:
		return http.StatusServiceUnavailable
	case CodeNotStable, CodeTimeout:
		return http.StatusGatewayTimeout
	default:
		return http.StatusInternalServerError
	}
}
