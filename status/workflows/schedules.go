package workflows

import (
	"context"
	"net/http"
	"slices"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster/flow"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/status/door"
)

// ScheduleControl shows and changes when workflows run by themselves.
type ScheduleControl interface {
	// SetSchedule returns when a majority of the voters has it, as the others do.
	SetSchedule(ctx context.Context, actor, name string, req api.ScheduleRequest) (api.Schedule, error)
	// ChangeSchedule does what is asked for: pause, resume or remove.
	ChangeSchedule(ctx context.Context, actor string, id flow.ScheduleID, what string) (api.Schedule, error)
	RunSchedule(ctx context.Context, actor string, id flow.ScheduleID, key string) (api.WorkflowSubmitted, error)
	Schedules(ctx context.Context) (api.Schedules, error)
	Schedule(ctx context.Context, id flow.ScheduleID) (api.Schedule, error)
	// FindSchedule finds one by a unique name, or a unique prefix of its id. Of an owner,
	// unless that is empty, no other schedule exists.
	FindSchedule(text, owner string) (flow.ScheduleID, error)
}

// Schedules answers GET /v1/schedules.
func Schedules(c ScheduleControl) func(*http.Request) (api.Schedules, error) {
	return func(r *http.Request) (api.Schedules, error) {
		out, err := c.Schedules(r.Context())
		if only := door.Of(r.Context()).Only; only != "" {
			out.Schedules = slices.DeleteFunc(out.Schedules, func(s api.Schedule) bool { return s.Owner != only })
		}
		return out, err
	}
}

func scheduleOf(c ScheduleControl, r *http.Request) (flow.ScheduleID, error) {
	text, only := r.PathValue("id"), door.Of(r.Context()).Only
	if text == "" || len(text) > flow.MaxName {
		return "", api.Errorf(api.CodeNotFound, "no schedule %.64q", text)
	}
	return c.FindSchedule(text, only)
}

// Schedule answers GET /v1/schedules/{id}.
func Schedule(c ScheduleControl) func(*http.Request) (api.Schedule, error) {
	return func(r *http.Request) (api.Schedule, error) {
		id, err := scheduleOf(c, r)
		if err != nil {
			return api.Schedule{}, err
		}
		return c.Schedule(r.Context(), id)
	}
}

// SetSchedule answers PUT /v1/schedules/{id}, where the id is a name that whoever asks
// has given it.
func SetSchedule(c ScheduleControl) func(*http.Request, api.ScheduleRequest) (api.Schedule, error) {
	return func(r *http.Request, req api.ScheduleRequest) (api.Schedule, error) {
		return c.SetSchedule(r.Context(), door.Of(r.Context()).Actor(), r.PathValue("id"), req)
	}
}

// ChangeSchedule answers POST /v1/schedules/{id}/pause and resume.
func ChangeSchedule(c ScheduleControl, what string) func(*http.Request, api.ScheduleChange) (api.Schedule, error) {
	return func(r *http.Request, _ api.ScheduleChange) (api.Schedule, error) {
		id, err := scheduleOf(c, r)
		if err != nil {
			return api.Schedule{}, err
		}
		return c.ChangeSchedule(r.Context(), door.Of(r.Context()).Actor(), id, what)
	}
}

// RemoveSchedule answers DELETE /v1/schedules/{id}.
func RemoveSchedule[Q any](c ScheduleControl) func(*http.Request, Q) (api.Header, error) {
	return func(r *http.Request, _ Q) (api.Header, error) {
		id, err := scheduleOf(c, r)
		if err == nil {
			_, err = c.ChangeSchedule(r.Context(), door.Of(r.Context()).Actor(), id, "remove")
		}
		return api.Header{}, err
	}
}

// RunSchedule answers POST /v1/schedules/{id}/run.
func RunSchedule(c ScheduleControl) func(*http.Request, api.ScheduleRun) (api.WorkflowSubmitted, error) {
	return func(r *http.Request, req api.ScheduleRun) (api.WorkflowSubmitted, error) {
		if key := r.Header.Get(Idempotency); req.Key == "" {
			req.Key = key
		}
		if req.Key == "" || len(req.Key) > job.MaxKeyBytes {
			return api.WorkflowSubmitted{}, api.Errorf(api.CodeInvalidRequest, "key has %d bytes, want 1-%d", len(req.Key), job.MaxKeyBytes).
				WithHint("set key or the header %s to a text of your own; the same text again is the same run", Idempotency)
		}
		id, err := scheduleOf(c, r)
		if err != nil {
			return api.WorkflowSubmitted{}, err
		}
		return c.RunSchedule(r.Context(), door.Of(r.Context()).Actor(), id, req.Key)
	}
}
