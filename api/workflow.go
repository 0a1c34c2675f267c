package api

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/skein-project/skein/cluster/flow"
	"github.com/skein-project/skein/cluster/job"
)

// WorkflowRequest is the body of POST /v1/workflows.
type WorkflowRequest struct {
	// Key is the idempotency key: the same key again is the same run.
	Key        string                     `json:"key"`
	Definition flow.Def                   `json:"definition"`
	Params     map[string]json.RawMessage `json:"params,omitempty"` // by name; those left out have their defaults
	// CheckOnly checks the definition and submits nothing.
	CheckOnly bool `json:"check_only,omitempty"`
	// WaitForWorker takes a step in a zone that no host is in, instead of refusing it.
	WaitForWorker bool `json:"wait_for_worker,omitempty"`
}

// WorkflowSubmitted answers it.
type WorkflowSubmitted struct {
	Header
	Run     flow.RunID `json:"run"`
	Created bool       `json:"created"` // false: it was submitted before, or is only checked
}

// Workflows answers GET /v1/workflows, newest first. The runs carry no steps.
type Workflows struct {
	Header
	Workflows []Workflow `json:"workflows"`
	Omitted   int        `json:"omitted,omitempty"` // how many more there are than MaxWorkflows
}

// MaxWorkflows bounds Workflows.
const MaxWorkflows = 1000

// Workflow answers GET /v1/workflows/{id}: one run of a workflow.
type Workflow struct {
	Header
	ID     flow.RunID `json:"id"`
	Name   string     `json:"name"`
	Owner  string     `json:"owner"`
	State  flow.State `json:"state"`
	Reason string     `json:"reason"` // why it failed
	// Place is that of a queued run among those that wait in its group, from 1; Group is with
	// which runs of its owner it shares places, none: with no others.
	Place int    `json:"place,omitempty"`
	Group string `json:"group,omitempty"`
	// Schedule is the one that began it, none: somebody did.
	Schedule flow.ScheduleID `json:"schedule,omitempty"`
	// Round counts the retries of the run.
	Round       int        `json:"round"`
	SubmittedAt time.Time  `json:"submitted_at"`
	FinishedAt  *time.Time `json:"finished_at"`
	// ElapsedSeconds counts from the submission to the end, or to now.
	ElapsedSeconds float64 `json:"elapsed_seconds"`
	StoppedBy      string  `json:"stopped_by,omitempty"`
	StopReason     string  `json:"stop_reason,omitempty"`
	Params         any     `json:"params,omitempty"` // by name
	// Disputed says that some instance is: see there.
	Disputed bool `json:"disputed,omitempty"`
	// Steps are those of the definition, in its order.
	Steps []WorkflowStep `json:"steps,omitempty"`
}

// MaxInstances bounds WorkflowStep.Instances, MaxItemBytes the item of one as JSON: of a
// larger one a text is told instead.
const (
	MaxInstances = 256
	MaxItemBytes = 4096
)

// WorkflowStep is how a step of a run is getting on.
type WorkflowStep struct {
	Name   string     `json:"name"`
	Role   string     `json:"role,omitempty"` // setup or teardown
	State  flow.State `json:"state"`
	Reason string     `json:"reason"` // why it was skipped or failed; skipped without one: its condition was false
	// After, AfterFailed and AfterDone are the steps that it names as those before it.
	After       []string `json:"after,omitempty"`
	AfterFailed []string `json:"after_failed,omitempty"`
	AfterDone   []string `json:"after_done,omitempty"`
	OnFailure   string   `json:"on_failure,omitempty"` // ignore or stop
	// Many says that it has an instance for each of several items; Total is how many these
	// are, once that is known, and Counts how many are in each state.
	Many   bool               `json:"many,omitempty"`
	Total  int                `json:"total"`
	Counts map[flow.State]int `json:"counts"`
	// Disputed counts the instances that are: see there.
	Disputed int `json:"disputed,omitempty"`
	// Instances are at most MaxInstances: those first that have not ended, have failed, were
	// tried again or are disputed.
	Instances []WorkflowInstance `json:"instances"`
}

// WorkflowInstance is how one instance of a step is getting on.
type WorkflowInstance struct {
	Index int        `json:"index"`
	State flow.State `json:"state"`
	Try   int        `json:"try"`           // the last one; 0: none began
	Job   job.ID     `json:"job,omitempty"` // of that try
	// Provider is the job of the step's provider, behind that of the try; none: it did not begin.
	Provider job.ID `json:"provider,omitempty"`
	Reason   string `json:"reason,omitempty"`
	// Disputed says that what came of it is in doubt: chunks of its job have results that differ,
	// or two holders ended it differently, as in mode available. The first one counts.
	Disputed bool                       `json:"disputed,omitempty"`
	Item     any                        `json:"item,omitempty"`
	Outputs  map[string]json.RawMessage `json:"outputs,omitempty"` // by name
}

// Plain reports that nobody needs to look at an instance: it waits for its turn, or completed
// at once.
func (in WorkflowInstance) Plain() bool {
	switch in.State {
	case flow.Completed:
		return in.Try <= 1 && !in.Disputed
	case flow.Ready:
		return in.Try == 0
	}
	return in.State == flow.Blocked
}

// MaxWatchedInstances bounds the instances of all steps that a watch tells of a run.
const MaxWatchedInstances = 512

// Watched is w as a watch tells it: without outputs, and of the instances those first that
// have not ended, have failed or were tried again, as far as there is room for them.
func (w Workflow) Watched() Workflow {
	room := MaxWatchedInstances
	steps := make([]WorkflowStep, len(w.Steps))
	for i, s := range w.Steps {
		some := make([]WorkflowInstance, 0, min(len(s.Instances), room))
		for _, plain := range []bool{false, true} {
			for _, in := range s.Instances {
				if in.Plain() == plain && len(some) < room {
					in.Outputs = nil
					some = append(some, in)
				}
			}
		}
		slices.SortFunc(some, func(a, b WorkflowInstance) int { return cmp.Compare(a.Index, b.Index) })
		s.Instances = some
		room -= len(some)
		steps[i] = s
	}
	w.Steps = steps
	return w
}

// WorkflowStop is the body of POST /v1/workflows/{id}/stop.
type WorkflowStop struct {
	Reason string `json:"reason,omitempty"`
	Now    bool   `json:"now,omitempty"` // without its teardown
}

// WorkflowRetry is the body of POST /v1/workflows/{id}/retry.
type WorkflowRetry struct {
	// From is a step that begins again with all that follow it; none: only what is not
	// completed does.
	From string `json:"from,omitempty"`
}

const workflowsPath = "/v1/workflows"

func workflowPath(id string) string { return workflowsPath + "/" + url.PathEscape(id) }

// SubmitWorkflow submits a run of a workflow, or finds it under its key.
func (c *Client) SubmitWorkflow(ctx context.Context, req WorkflowRequest) (WorkflowSubmitted, error) {
	return send[WorkflowSubmitted](ctx, c, http.MethodPost, workflowsPath, req)
}

// Workflows lists the runs of workflows, newest first.
func (c *Client) Workflows(ctx context.Context) (Workflows, error) {
	return get[Workflows](ctx, c, workflowsPath)
}

// Workflow shows a run by its id, any unique prefix of it, or its name.
func (c *Client) Workflow(ctx context.Context, id string) (Workflow, error) {
	return get[Workflow](ctx, c, workflowPath(id))
}

// FollowWorkflow calls f with a run that has not ended, and again whenever something of it
// has changed; when it has ended, it returns the run whole. It reconnects as
// Watch does.
func (c *Client) FollowWorkflow(ctx context.Context, id string, o FollowOptions, f func(Workflow) error) (Workflow, error) {
	w, err := c.Workflow(ctx, id)
	if err != nil || w.State.Final() {
		return w, err
	}
	if err := f(w); err != nil {
		return w, err
	}
	id = string(w.ID)
	// A watch has a topic: one that is small and quiet.
	err = c.Watch(ctx, WatchQuery{Topics: []string{"onion"}, Workflows: []string{id}}, o, func(m WatchMessage) error {
		if m.Event != "snapshot" && m.Event != "delta" {
			return nil
		}
		var d struct {
			Topic     string
			Rows, Set []Workflow
			Last      bool
			Del       []string
		}
		if err := json.Unmarshal(m.Data, &d); err != nil {
			return fmt.Errorf("watch: %s: %w: %w", m.Event, ErrAnswer, err)
		}
		if d.Topic != "workflow/"+id {
			return nil
		}
		for _, w := range append(d.Rows, d.Set...) {
			if err := f(w); err != nil {
				return err
			}
			if w.State.Final() {
				return ErrStop
			}
		}
		if len(d.Del) > 0 || d.Last && len(d.Rows) == 0 {
			return ErrStop // it was forgotten, as is said below
		}
		return nil
	})
	if err != nil {
		return w, err
	}
	err = c.follow(ctx, o, func(ctx context.Context) error {
		if w, err = c.Workflow(ctx, id); err != nil {
			return err
		}
		return ErrStop
	})
	return w, err
}

// StopWorkflow ends a run.
func (c *Client) StopWorkflow(ctx context.Context, id string, req WorkflowStop) (Workflow, error) {
	return send[Workflow](ctx, c, http.MethodPost, workflowPath(id)+"/stop", req)
}

// RetryWorkflow has a run that has ended go on again.
func (c *Client) RetryWorkflow(ctx context.Context, id string, req WorkflowRetry) (Workflow, error) {
	return send[Workflow](ctx, c, http.MethodPost, workflowPath(id)+"/retry", req)
}
