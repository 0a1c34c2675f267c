package forward

import (
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/overload"
)

// DebugRequest says what to gather: a profile of the processor over so many seconds as
// well, warnings of so many seconds, 0: all.
type DebugRequest struct {
	ProfileSeconds int   `json:"profile_seconds,omitempty"`
	SinceSeconds   int64 `json:"since_seconds,omitempty"`
}

// Ask is r as the API says it.
func (r DebugRequest) Ask() api.DebugAsk {
	return api.DebugAsk{Profile: time.Duration(r.ProfileSeconds) * time.Second, Since: time.Duration(r.SinceSeconds) * time.Second}
}

// NewDebugRequest is what another host is asked for.
func NewDebugRequest(a api.DebugAsk) DebugRequest {
	return DebugRequest{ProfileSeconds: int(a.Profile.Seconds()), SinceSeconds: int64(a.Since.Seconds())}
}

// Debug has a host gather what it knows of itself. Who asked on another host only that
// host knows, so it must be one that could make operators anyway; to all others comes the
// request of an operator, whose proof is checked where it is carried out (Carry).
var Debug = &Op[DebugRequest, api.DebugFiles]{
	Name: "debug", At: Host, Lane: overload.Control, Key: "debug",
	Doc: "gathers views, metrics, warnings and profiles of the host", Answers: "the files, packed, without secrets",
	Who: "the host itself, sponsors; for an operator any member (`carry`)",
	Check: func(r DebugRequest) error {
		if r.ProfileSeconds < 0 || r.ProfileSeconds > int(api.MaxDebugProfile/time.Second) {
			return api.Errorf(api.CodeInvalidRequest, "a profile of %d seconds", r.ProfileSeconds)
		}
		if r.SinceSeconds < 0 || r.SinceSeconds > int64(api.MaxDebugSince/time.Second) {
			return api.Errorf(api.CodeInvalidRequest, "warnings of %d seconds", r.SinceSeconds)
		}
		return nil
	},
	Allow: func(a Asker, _ DebugRequest) error {
		if a.Own() || a.Sponsor() {
			return nil
		}
		return api.Errorf(api.CodeForbidden, "%s is no sponsor: what %s knows of itself it gathers for an operator who proves to ask", a.From, a.Self).
			WithHint("name an operator's key, `skein --key FILE debug bundle`, or ask on a sponsor: see `skein members -o wide`")
	},
	Quota: Quota{Name: "debug", Burst: 4, Every: 30 * time.Second},
}
