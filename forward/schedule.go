package forward

import (
	"encoding/json"

	"github.com/skein-project/skein/cluster/flow"
	"github.com/skein-project/skein/overload"
)

// ScheduleSet says when a workflow is to run by itself.
type ScheduleSet struct {
	Name          string                     `json:"name"`
	Definition    flow.Def                   `json:"definition"`
	Params        map[string]json.RawMessage `json:"params,omitempty"`
	Cron          string                     `json:"cron"`
	Zone          string                     `json:"zone,omitempty"`
	Missed        flow.Missed                `json:"missed"`
	MissedSeconds int64                      `json:"missed_seconds"`
	Overlap       flow.Overlap               `json:"overlap"`
	Paused        bool                       `json:"paused,omitempty"`
}

// SetSchedule gives the scheduler a schedule. The holder checks it again, as it does a
// workflow.
var SetSchedule = &Op[ScheduleSet, None]{
	Name: "schedule", At: Holder, Lane: overload.Submit,
	Doc: "has a workflow run by itself at times", Answers: "nothing, once it is logged",
	Who: "any member", Owner: true,
}

// ScheduleChange asks for another state of a schedule, or a run of it.
type ScheduleChange struct {
	Schedule flow.ScheduleID `json:"schedule"`
	What     string          `json:"what"`          // pause, resume, remove or run
	Key      string          `json:"key,omitempty"` // of the run
}

// ChangeSchedule changes a schedule that there is.
var ChangeSchedule = &Op[ScheduleChange, RunSubmitted]{
	Name: "schedule_change", At: Holder, Lane: overload.Status,
	Doc: "pauses, resumes, removes or runs a schedule", Answers: "the id of the run, once it is logged",
	Who: "any member",
}
