package event

import (
	"encoding/json"

	"github.com/skein-project/skein/cluster/flow"
	"github.com/skein-project/skein/cluster/job"
)

// The bodies of events about workflows. A round is what a run does between its
// submission or a retry and its end; the first is 0.

// WorkflowSubmitted makes a run.
type WorkflowSubmitted struct {
	Run    flow.RunID      `json:"run"`            // its id
	Owner  string          `json:"owner"`          // whose it is, "uid:1000"
	Name   string          `json:"name,omitempty"` // of the workflow, for people
	Def    json.RawMessage `json:"def"`            // the definition, whole; at most 256 KiB
	Params json.RawMessage `json:"params"`         // the value of each parameter

	Schedule flow.ScheduleID `json:"schedule,omitempty"` // that began it; none: somebody did
	At       int64           `json:"at,omitempty"`       // the time of the schedule that it is for, in seconds since the Unix epoch
	Group    string          `json:"group,omitempty"`    // with which runs of its owner it shares places; none: it shares none
	Limit    int             `json:"limit,omitempty"`    // how many of these go on at once
	Keeps    bool            `json:"keeps,omitempty"`    // a try may go on with the job of the one before, and what is lost is computed again alone
	// Holds says that jobs of steps that failed in part wait for a retry of the run, and that
	// what a provider leaves may have up to 1 MiB.
	Holds bool `json:"holds,omitempty"`

	KeepSeconds float64 `json:"keep_seconds,omitempty"` // for how long the run is known after its end; none: 7 days
}

// StepsStarted says which jobs were submitted for instances of steps.
type StepsStarted struct {
	Run    flow.RunID  `json:"run"`    // its id
	Starts []StepStart `json:"starts"` // at most 512
}

// StepStart is one try at an instance of a step.
type StepStart struct {
	Step  string `json:"step"`            // its name
	Index int    `json:"index,omitempty"` // of the instance, from 0
	Round int    `json:"round,omitempty"` // in which it began
	Try   int    `json:"try"`             // from 1, over all rounds
	Job   job.ID `json:"job"`             // that does it
	// Provider says that the job is the provider of the try, whose own job has ended.
	Provider bool `json:"provider,omitempty"`
	// Part are the chunks of the instance's job that this one computes again, as files that
	// they left are on no host any more; none: it is the job of a whole try.
	Part *job.Span `json:"part,omitempty"`
}

// StepsEnded says how tries at instances of steps ended, and what came of them.
type StepsEnded struct {
	Run  flow.RunID `json:"run"`  // its id
	Ends []StepEnd  `json:"ends"` // at most 512
}

// StepEnd is the end of one try at an instance of a step.
type StepEnd struct {
	Step   string     `json:"step"`             // its name
	Index  int        `json:"index,omitempty"`  // of the instance, from 0
	Round  int        `json:"round,omitempty"`  // in which it began
	Try    int        `json:"try"`              // as in its start
	State  flow.State `json:"state"`            // completed, partial, failed, timeout or cancelled
	Reason string     `json:"reason,omitempty"` // of a failure
	// Final says that another try would fail as this one.
	Final bool `json:"final,omitempty"`
	// Lost says that the files that it was given are on no host any more: that is no failure
	// of its own.
	Lost bool `json:"lost,omitempty"`
	// Disputed says that chunks of its job have results that differ; the first of each counts.
	Disputed bool `json:"disputed,omitempty"`
	// Kept says that another try goes on with the same job, of which nothing is computed again
	// that has a result.
	Kept    bool                       `json:"kept,omitempty"`
	Outputs map[string]json.RawMessage `json:"outputs,omitempty"` // by name; together at most 16 KiB, or 1 MiB where the run holds
}

// WorkflowStopped says that a run is to end.
type WorkflowStopped struct {
	Run    flow.RunID `json:"run"`              // its id
	Round  int        `json:"round,omitempty"`  // that is stopped
	Actor  string     `json:"actor"`            // who asked, "uid:1000@n1"; "holder": nobody did
	Reason string     `json:"reason,omitempty"` // in the words of who asked
	Cause  flow.Cause `json:"cause,omitempty"`  // none: somebody wants it; timeout, failure or teardown
	// Now ends the teardown as well.
	Now bool `json:"now,omitempty"`
}

// WorkflowRetried begins another round of a run that has ended: what is not completed
// begins again.
type WorkflowRetried struct {
	Run   flow.RunID `json:"run"`            // its id
	Round int        `json:"round"`          // that begins, from 1
	From  string     `json:"from,omitempty"` // a step that begins again with all that follow it, completed or not
	Actor string     `json:"actor"`          // who asked, "uid:1000@n1"
}

// WorkflowDone ends a round of a run.
type WorkflowDone struct {
	Run    flow.RunID `json:"run"`              // its id
	Round  int        `json:"round,omitempty"`  // that ended
	State  flow.State `json:"state"`            // completed, partial, failed, timeout or cancelled
	Reason string     `json:"reason,omitempty"` // what failed first
}

// WorkflowsForgotten ends the memory of runs that ended long ago.
type WorkflowsForgotten struct {
	Runs []flow.RunID `json:"runs"` // at most 256
}

// ScheduleSet says when a workflow is to run by itself; the latest event decides.
type ScheduleSet struct {
	Schedule flow.ScheduleID `json:"schedule"`             // its id, which follows from owner and name
	Owner    string          `json:"owner"`                // whose it is, and whose its runs are, "uid:1000"
	Name     string          `json:"name"`                 // what the owner calls it
	Cron     string          `json:"cron,omitempty"`       // when: minute, hour, day of the month, month, day of the week
	Zone     string          `json:"zone,omitempty"`       // the time zone of these; none: UTC
	Missed   flow.Missed     `json:"missed,omitempty"`     // what becomes of missed times: skip, last or all
	Overlap  flow.Overlap    `json:"overlap,omitempty"`    // what becomes of a run while the one before goes on
	Paused   bool            `json:"paused,omitempty"`     // nothing begins
	Removed  bool            `json:"removed,omitempty"`    // it was removed
	Since    int64           `json:"since"`                // nothing up to then is due, in seconds since the Unix epoch
	Def      json.RawMessage `json:"definition,omitempty"` // of the workflow, whole; at most 256 KiB
	Params   json.RawMessage `json:"params,omitempty"`     // the value of each parameter
	Actor    string          `json:"actor"`                // who asked, "uid:1000@n1"
	// MissedSeconds is for how long what was missed is made up for.
	MissedSeconds int64 `json:"missed_seconds,omitempty"`
}

// ScheduleFired says what came of a time of a schedule; nothing up to it is due any more.
type ScheduleFired struct {
	Schedule flow.ScheduleID `json:"schedule"`          // its id
	At       int64           `json:"at"`                // the time, in seconds since the Unix epoch
	Run      flow.RunID      `json:"run,omitempty"`     // that began
	Skipped  string          `json:"skipped,omitempty"` // why none did
	Missed   int             `json:"missed,omitempty"`  // how many earlier times were missed, and got no run
}

// Weight is an upper bound of the encoded size, in bytes.
func (b ScheduleSet) Weight() int { return 1024 + len(b.Def) + len(b.Params) }

// Weight is an upper bound of the encoded size, in bytes.
func (b WorkflowSubmitted) Weight() int { return 1024 + len(b.Def) + len(b.Params) }

// Weight is an upper bound of the encoded size, in bytes.
func (b StepsStarted) Weight() int { return 256 * len(b.Starts) }

// Weight is an upper bound of the encoded size, in bytes.
func (b StepsEnded) Weight() int {
	n := 0
	for _, e := range b.Ends {
		n += 256 + 6*len(e.Reason)
		for name, v := range e.Outputs {
			n += 16 + len(name) + len(v)
		}
	}
	return n
}

// Weight is an upper bound of the encoded size, in bytes.
func (b WorkflowsForgotten) Weight() int { return 64 * len(b.Runs) }
