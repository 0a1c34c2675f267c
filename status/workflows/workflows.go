package workflows

import (
	"context"
	"net/http"
	"slices"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster/flow"
	"github.com/skein-project/skein/status/door"
)

// MaxBody bounds the body of a submission, in bytes.
const MaxBody = 512 << 10

// Idempotency is the header that may stand for the key of a submission.
const Idempotency = "Idempotency-Key"

const maxReason = 256

// Control submits, shows and changes runs of workflows; it is part of the Backend.
type Control interface {
	ScheduleControl
	// SubmitWorkflow returns when a majority of the voters has the run.
	SubmitWorkflow(ctx context.Context, actor string, req api.WorkflowRequest) (api.WorkflowSubmitted, error)
	StopWorkflow(ctx context.Context, actor string, id flow.RunID, req api.WorkflowStop) (api.Workflow, error)
	RetryWorkflow(ctx context.Context, actor string, id flow.RunID, req api.WorkflowRetry) (api.Workflow, error)
	Workflows(ctx context.Context) (api.Workflows, error)
	Workflow(ctx context.Context, id flow.RunID) (api.Workflow, error)
	// FindWorkflow finds a run by a unique prefix of its id, or a unique name. Of an
	// owner, unless that is empty, no other run exists.
	FindWorkflow(text, owner string) (flow.RunID, error)
	// WorkflowOwner tells whose a run is; empty: there is no such run.
	WorkflowOwner(id flow.RunID) string
}

// List answers GET /v1/workflows.
func List(c Control) func(*http.Request) (api.Workflows, error) {
	return func(r *http.Request) (api.Workflows, error) {
		out, err := c.Workflows(r.Context())
		if only := door.Of(r.Context()).Only; only != "" {
			out.Workflows = slices.DeleteFunc(out.Workflows, func(w api.Workflow) bool { return w.Owner != only })
		}
		return out, err
	}
}

// run finds the run in the path, which must be of whoever asks if they see no others.
func run(c Control, r *http.Request) (flow.RunID, error) {
	return Find(c, r.PathValue("id"), door.Of(r.Context()).Only)
}

// Find finds a run; of an owner, unless that is empty, no other exists.
func Find(c Control, text, only string) (flow.RunID, error) {
	if text == "" || len(text) > flow.MaxName {
		return "", api.Errorf(api.CodeNotFound, "no run %.64q of a workflow", text)
	}
	return c.FindWorkflow(text, only)
}

// One answers GET /v1/workflows/{id}.
func One(c Control) func(*http.Request) (api.Workflow, error) {
	return func(r *http.Request) (api.Workflow, error) {
		id, err := run(c, r)
		if err != nil {
			return api.Workflow{}, err
		}
		return c.Workflow(r.Context(), id)
	}
}

// Submit answers POST /v1/workflows.
func Submit(c Control) func(*http.Request, api.WorkflowRequest) (api.WorkflowSubmitted, error) {
	return func(r *http.Request, req api.WorkflowRequest) (api.WorkflowSubmitted, error) {
		if key := r.Header.Get(Idempotency); key != "" {
			if req.Key != "" && req.Key != key {
				return api.WorkflowSubmitted{}, api.Errorf(api.CodeInvalidRequest, "the header %s and key differ", Idempotency)
			}
			req.Key = key
		}
		if req.Key == "" {
			return api.WorkflowSubmitted{}, api.Errorf(api.CodeInvalidJob, "the idempotency key is missing").
				WithHint("set key or the header %s to a text of your own; the same text again is the same run", Idempotency)
		}
		return c.SubmitWorkflow(r.Context(), door.Of(r.Context()).Actor(), req)
	}
}

// Stop answers POST /v1/workflows/{id}/stop.
func Stop(c Control) func(*http.Request, api.WorkflowStop) (api.Workflow, error) {
	return func(r *http.Request, req api.WorkflowStop) (api.Workflow, error) {
		if len(req.Reason) > maxReason {
			return api.Workflow{}, api.Errorf(api.CodeInvalidRequest, "the reason has %d bytes, at most %d are allowed", len(req.Reason), maxReason)
		}
		id, err := run(c, r)
		if err != nil {
			return api.Workflow{}, err
		}
		return c.StopWorkflow(r.Context(), door.Of(r.Context()).Actor(), id, req)
	}
}

// Retry answers POST /v1/workflows/{id}/retry.
func Retry(c Control) func(*http.Request, api.WorkflowRetry) (api.Workflow, error) {
	return func(r *http.Request, req api.WorkflowRetry) (api.Workflow, error) {
		if len(req.From) > flow.MaxName {
			return api.Workflow{}, api.Errorf(api.CodeInvalidRequest, "from has %d bytes, at most %d are allowed", len(req.From), flow.MaxName)
		}
		id, err := run(c, r)
		if err != nil {
			return api.Workflow{}, err
		}
		return c.RetryWorkflow(r.Context(), door.Of(r.Context()).Actor(), id, req)
	}
}
