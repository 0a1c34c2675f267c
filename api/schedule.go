package api

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"time"

	"github.com/skein-project/skein/cluster/flow"
)

// ScheduleRequest is the body of PUT /v1/schedules/{id}, where the id is a name.
type ScheduleRequest struct {
	Definition flow.Def                   `json:"definition"`
	Params     map[string]json.RawMessage `json:"params,omitempty"` // by name; those left out have their defaults
	// Cron is a crontab line: minute, hour, day of the month, month, day of the week; or
	// @hourly, @daily, @weekly, @monthly, @yearly. Zone is the time zone, none: UTC.
	Cron string `json:"cron"`
	Zone string `json:"zone,omitempty"`
	// Missed is skip, last (the default) or all; MissedSeconds is for how long what was
	// missed is made up for, none: a day.
	Missed        flow.Missed `json:"missed,omitempty"`
	MissedSeconds *int64      `json:"missed_seconds,omitempty"`
	// Overlap is skip, queue_one, queue, replace or allow; none: that of the definition,
	// or else skip.
	Overlap flow.Overlap `json:"overlap,omitempty"`
	Paused  bool         `json:"paused,omitempty"`
	// CheckOnly checks all that and changes nothing.
	CheckOnly bool `json:"check_only,omitempty"`
}

// Schedules answers GET /v1/schedules, by owner and name.
type Schedules struct {
	Header
	Schedules []Schedule `json:"schedules"`
}

// Schedule answers GET /v1/schedules/{id}: when a workflow runs by itself.
type Schedule struct {
	Header
	ID            flow.ScheduleID `json:"id"`
	Name          string          `json:"name"`
	Owner         string          `json:"owner"`    // whose its runs are
	Workflow      string          `json:"workflow"` // the name of it
	Cron          string          `json:"cron"`
	Zone          string          `json:"zone"`
	Missed        flow.Missed     `json:"missed"`
	MissedSeconds int64           `json:"missed_seconds"`
	Overlap       flow.Overlap    `json:"overlap"`
	Paused        bool            `json:"paused"`
	SetAt         time.Time       `json:"set_at"`
	SetBy         string          `json:"set_by"`
	Next          []time.Time     `json:"next"`      // the next three times; none while it is paused
	Last          []ScheduleTime  `json:"last"`      // what came of the latest sixteen, newest first
	OpenRuns      int             `json:"open_runs"` // of it that have not ended
}

// ScheduleTime is what came of a time of a schedule.
type ScheduleTime struct {
	At       time.Time  `json:"at"`
	LoggedAt time.Time  `json:"logged_at"`
	Run      flow.RunID `json:"run,omitempty"`     // that began
	Skipped  string     `json:"skipped,omitempty"` // why none did
	Missed   int        `json:"missed,omitempty"`  // how many times before it got no run, as nobody kept them
}

// ScheduleRun is the body of POST /v1/schedules/{id}/run.
type ScheduleRun struct {
	Key string `json:"key"` // the same key again is the same run
}

// ScheduleChange is the body of POST /v1/schedules/{id}/pause and resume.
type ScheduleChange struct{}

func schedulePath(id string) string { return "/v1/schedules/" + url.PathEscape(id) }

// Schedules lists when workflows run by themselves.
func (c *Client) Schedules(ctx context.Context) (Schedules, error) {
	return get[Schedules](ctx, c, "/v1/schedules")
}

// SetSchedule makes a schedule, or another of the one of that name.
func (c *Client) SetSchedule(ctx context.Context, name string, req ScheduleRequest) (Schedule, error) {
	return send[Schedule](ctx, c, http.MethodPut, schedulePath(name), req)
}

// ChangeSchedule pauses or resumes a schedule.
func (c *Client) ChangeSchedule(ctx context.Context, id, what string) (Schedule, error) {
	return send[Schedule](ctx, c, http.MethodPost, schedulePath(id)+"/"+what, ScheduleChange{})
}

// RemoveSchedule ends a schedule; its runs go on.
func (c *Client) RemoveSchedule(ctx context.Context, id string) error {
	_, err := send[Header](ctx, c, http.MethodDelete, schedulePath(id), nil)
	return err
}

// RunSchedule begins a run of a schedule now.
func (c *Client) RunSchedule(ctx context.Context, id, key string) (WorkflowSubmitted, error) {
	return send[WorkflowSubmitted](ctx, c, http.MethodPost, schedulePath(id)+"/run", ScheduleRun{Key: key})
}
