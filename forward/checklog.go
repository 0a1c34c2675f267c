package forward

import (
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/overload"
)

// LogCheckRun names a check of a host's own log: the run of that number, or
// with 0 one that it starts unless one is running.
type LogCheckRun struct {
	Run uint64 `json:"run,omitempty"`
}

// CheckLog has a host check its log, or reports how far a check is. Only starting
// one counts.
var CheckLog = &Op[LogCheckRun, api.LogCheck]{
	Name: "check_log", At: Host, Lane: overload.Telemetry, Key: "check",
	Doc: "starts a check of the host's whole log, or reports how far one is", Answers: "the check so far",
	Who: "any member", Quota: Quota{Name: "check_log", Burst: 8, Every: 30 * time.Second, Late: true},
}
