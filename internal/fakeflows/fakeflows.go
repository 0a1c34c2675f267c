package fakeflows

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster/flow"
)

// Run is the id of the run that there is, Owner whose it is.
const (
	Run   = flow.RunID("waaaaaaaaaaaaaaaaaaaaaaaaaa")
	Owner = "uid:1000"
	// Schedule is the schedule that there is.
	Schedule = flow.ScheduleID("saaaaaaaaaaaaaaaaaaaaaaaaaa")
)

// Control is the part of a backend about workflows.
type Control struct{}

func one() api.Workflow {
	at := time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)
	return api.Workflow{
		ID: Run, Name: "risk", Owner: Owner, State: flow.Running, SubmittedAt: at, ElapsedSeconds: 245, Params: map[string]any{"day": "x"},
		Steps: []api.WorkflowStep{
			{
				Name: "prepare", State: flow.Completed, Total: 1, Counts: map[flow.State]int{flow.Completed: 1},
				Instances: []api.WorkflowInstance{{State: flow.Completed, Try: 1, Job: "jgoodaaaaaaaaaaaaaaaaaaaaaa", Outputs: map[string]json.RawMessage{"mean": json.RawMessage("3.5")}}},
			},
			{
				Name: "price", After: []string{"prepare"}, State: flow.Running, Many: true, Total: 2, Counts: map[flow.State]int{flow.Running: 1, flow.Completed: 1},
				Instances: []api.WorkflowInstance{
					{State: flow.Completed, Try: 1, Job: "jgoodaaaaaaaaaaaaaaaaaaaaaa", Item: "fx"}, {Index: 1, State: flow.Running, Try: 2, Job: "jbadaaaaaaaaaaaaaaaaaaaaaaa", Item: "eq"},
				},
			},
			{
				Name: "check", After: []string{"prepare"}, State: flow.Failed, Reason: "exit 3\x1b[2J", OnFailure: flow.FailureIgnore, Total: 1, Counts: map[flow.State]int{flow.Failed: 1},
				Instances: []api.WorkflowInstance{{State: flow.Failed, Try: 1, Job: "jbadaaaaaaaaaaaaaaaaaaaaaaa", Reason: "exit 3"}},
			},
			{Name: "report", After: []string{"price", "check"}, State: flow.Blocked, Counts: map[flow.State]int{}, Instances: []api.WorkflowInstance{}},
		},
	}
}

// SubmitWorkflow finds the run.
func (Control) SubmitWorkflow(_ context.Context, _ string, req api.WorkflowRequest) (api.WorkflowSubmitted, error) {
	for _, s := range req.Definition.Steps {
		if len(s.After) > 0 && s.After[0] == s.Name {
			return api.WorkflowSubmitted{}, api.Errorf(api.CodeInvalidJob, "invalid workflow: the steps wait for each other: %[1]s -> %[1]s", s.Name)
		}
	}
	return api.WorkflowSubmitted{Run: Run, Created: !req.CheckOnly}, nil
}

// StopWorkflow stops it.
func (Control) StopWorkflow(_ context.Context, actor string, _ flow.RunID, req api.WorkflowStop) (api.Workflow, error) {
	w := one()
	w.State, w.StoppedBy, w.StopReason = flow.Stopping, actor, req.Reason
	return w, nil
}

// RetryWorkflow refuses: it is open.
func (Control) RetryWorkflow(context.Context, string, flow.RunID, api.WorkflowRetry) (api.Workflow, error) {
	return api.Workflow{}, api.Errorf(api.CodeConflict, "run has not ended").WithHint("`skein workflow stop` ends it")
}

// Workflows lists it.
func (Control) Workflows(context.Context) (api.Workflows, error) {
	w := one()
	w.Steps, w.Params = nil, nil
	return api.Workflows{Workflows: []api.Workflow{w}}, nil
}

// Workflow shows it.
func (Control) Workflow(context.Context, flow.RunID) (api.Workflow, error) { return one(), nil }

// FindWorkflow finds it.
func (Control) FindWorkflow(text, owner string) (flow.RunID, error) {
	if owner != "" && owner != Owner || text != "risk" && !strings.HasPrefix(string(Run), text) {
		return "", api.Errorf(api.CodeNotFound, "no run of a workflow is called or begins with %.64q", text).WithHint("see `skein workflow ls`")
	}
	return Run, nil
}

// WorkflowOwner says whose it is.
func (Control) WorkflowOwner(flow.RunID) string { return Owner }

func schedule() api.Schedule {
	at := time.Date(2026, 1, 2, 1, 30, 0, 0, time.UTC)
	return api.Schedule{
		ID: Schedule, Name: "nightly", Owner: Owner, Workflow: "risk", Cron: "30 2 * * *", Zone: "Europe/Berlin", Missed: flow.MissedLast,
		MissedSeconds: flow.DefaultMissed, Overlap: flow.OverlapSkip, SetAt: at, SetBy: Owner + "@n1", Next: []time.Time{at.AddDate(0, 0, 1)},
		Last: []api.ScheduleTime{{At: at, LoggedAt: at.Add(time.Second), Run: Run, Missed: 2}, {At: at.AddDate(0, 0, -1), LoggedAt: at, Skipped: "other runs have not ended\x1b[2J"}},
	}
}

// SetSchedule sets the schedule.
func (Control) SetSchedule(_ context.Context, actor, name string, req api.ScheduleRequest) (api.Schedule, error) {
	s := schedule()
	s.Name, s.Cron, s.Zone, s.SetBy, s.Paused = name, req.Cron, req.Zone, actor, req.Paused
	if req.Cron == "never" {
		return s, api.Errorf(api.CodeInvalidJob, "cron %q is never due", req.Cron)
	}
	return s, nil
}

// ChangeSchedule changes it.
func (Control) ChangeSchedule(_ context.Context, _ string, _ flow.ScheduleID, what string) (api.Schedule, error) {
	s := schedule()
	s.Paused = what == "pause"
	return s, nil
}

// RunSchedule finds its run.
func (Control) RunSchedule(context.Context, string, flow.ScheduleID, string) (api.WorkflowSubmitted, error) {
	return api.WorkflowSubmitted{Run: Run, Created: true}, nil
}

// Schedules lists it.
func (Control) Schedules(context.Context) (api.Schedules, error) {
	return api.Schedules{Schedules: []api.Schedule{schedule()}}, nil
}

// Schedule shows it.
func (Control) Schedule(context.Context, flow.ScheduleID) (api.Schedule, error) {
	return schedule(), nil
}

// FindSchedule finds it.
func (Control) FindSchedule(text, owner string) (flow.ScheduleID, error) {
	if owner != "" && owner != Owner || text != "nightly" && !strings.HasPrefix(string(Schedule), text) {
		return "", api.Errorf(api.CodeNotFound, "no schedule is called or begins with %.64q", text).WithHint("see `skein schedule ls`")
	}
	return Schedule, nil
}
