package forward

import (
	"encoding/json"

	"github.com/skein-project/skein/cluster/flow"
	"github.com/skein-project/skein/overload"
)

// RunSubmission asks for a run of a workflow.
type RunSubmission struct {
	Key        string                     `json:"key"`
	Definition flow.Def                   `json:"definition"`
	Params     map[string]json.RawMessage `json:"params,omitempty"`
	// Zoned is a job that runs once in each of several zones, which the holder chooses: there
	// is no definition then, the holder makes it.
	Zoned *flow.Zoned `json:"zoned,omitempty"`
}

// RunSubmitted says under which name there is a run.
type RunSubmitted struct {
	Run     flow.RunID `json:"run"`
	Created bool       `json:"created"`
	Zones   []string   `json:"zones,omitempty"` // of one whose zones were chosen
}

// RunWorkflow gives the scheduler a workflow. Every host that hands one on has checked it;
// the holder checks again, because it answers for what is logged.
var RunWorkflow = &Op[RunSubmission, RunSubmitted]{
	Name: "workflow", At: Holder, Lane: overload.Submit, Key: "workflow",
	Doc: "gives the scheduler a workflow", Answers: "the id of its run",
	Who: "any member", Owner: true,
}

// RunStop asks for the end of a run.
type RunStop struct {
	Run    flow.RunID `json:"run"`
	Reason string     `json:"reason,omitempty"`
	Now    bool       `json:"now,omitempty"`
}

// StopWorkflow ends a run of a workflow.
var StopWorkflow = &Op[RunStop, None]{
	Name: "workflow_stop", At: Holder, Lane: overload.Control,
	Doc: "ends a run of a workflow", Answers: "nothing, once it is logged",
	Who: "any member",
}

// RunRetry asks for another round of a run.
type RunRetry struct {
	Run   flow.RunID `json:"run"`
	Round int        `json:"round"` // that is to begin: asked for twice, it begins once
	From  string     `json:"from,omitempty"`
}

// RetryWorkflow has a run of a workflow go on again.
var RetryWorkflow = &Op[RunRetry, None]{
	Name: "workflow_retry", At: Holder, Lane: overload.Submit,
	Doc: "has what a run of a workflow has not completed begin again", Answers: "nothing, once it is logged",
	Who: "any member",
}
