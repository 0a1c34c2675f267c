package forward

import (
	"time"

	"github.com/skein-project/skein/api"
)

// DebugRequest asks for a profile of the processor over so many seconds as well.
type DebugRequest struct {
	ProfileSeconds int `json:"profile_seconds,omitempty"`
}

// Debug has a host gather what it knows of itself.
var Debug = &Op[DebugRequest, api.DebugFiles]{
	Name: "debug", At: Host, Key: "debug",
	Doc: "gathers views, metrics, warnings and profiles of the host", Answers: "the files, packed, without secrets",
	Who:   "any member; on the asking host an administrator must have asked on the socket",
	Quota: Quota{Name: "debug", Burst: 4, Every: 30 * time.Second},
}
