package loads

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/status/door"
	"github.com/skein-project/skein/status/openapi"
)

const (
	// Idempotency is the header that may stand for the key of a submission.
	Idempotency = "Idempotency-Key"

	maxReason = 256
	maxCursor = 16 << 10
	maxWait   = 2000 // milliseconds
)

// Control submits, shows and stops load tests; it is part of the Backend.
type Control interface {
	// SubmitLoad returns when a majority of the voters has the test.
	SubmitLoad(ctx context.Context, actor string, req api.LoadRequest) (api.LoadSubmitted, error)
	StopLoad(ctx context.Context, actor string, id event.LoadID, req api.LoadStopRequest) (api.LoadRun, error)
	LoadRuns(ctx context.Context) (api.LoadRuns, error)
	LoadRun(ctx context.Context, id event.LoadID) (api.LoadRun, error)
	LoadReport(ctx context.Context, id event.LoadID) (api.LoadReport, error)
	// LoadLive asks the holder what was counted since a position.
	LoadLive(ctx context.Context, id event.LoadID, after string, wait time.Duration) (api.LoadLive, error)
	// FindLoad finds a test by a unique prefix of its id, or a unique name. Of an owner,
	// unless that is empty, no other exists.
	FindLoad(text, owner string) (event.LoadID, error)
}

// List answers GET /v1/load.
func List(c Control) func(*http.Request) (api.LoadRuns, error) {
	return func(r *http.Request) (api.LoadRuns, error) {
		out, err := c.LoadRuns(r.Context())
		if only := door.Of(r.Context()).Only; only != "" {
			out.Runs = slices.DeleteFunc(out.Runs, func(x api.LoadRun) bool { return x.Owner != only })
		}
		return out, err
	}
}

// find finds the test in the path, which must be of whoever asks if they see no others.
func find(c Control, r *http.Request) (event.LoadID, error) {
	text := r.PathValue("id")
	if text == "" || len(text) > event.MaxLoadName {
		return "", api.Errorf(api.CodeNotFound, "no load test %.64q", text)
	}
	return c.FindLoad(text, door.Of(r.Context()).Only)
}

// One answers GET /v1/load/{id}.
func One(c Control) func(*http.Request) (api.LoadRun, error) {
	return func(r *http.Request) (api.LoadRun, error) {
		id, err := find(c, r)
		if err != nil {
			return api.LoadRun{}, err
		}
		return c.LoadRun(r.Context(), id)
	}
}

// Report answers GET /v1/load/{id}/report.
func Report(c Control) func(*http.Request) (api.LoadReport, error) {
	return func(r *http.Request) (api.LoadReport, error) {
		id, err := find(c, r)
		if err != nil {
			return api.LoadReport{}, err
		}
		return c.LoadReport(r.Context(), id)
	}
}

// LiveParams are those of Live.
var LiveParams = []openapi.Param{
	{Name: "after", Type: "", About: "the position to go on from, `next` of the answer before; none: from the beginning"},
	{Name: "wait_ms", Type: 0, About: "for how long to wait for something new, at most 2000"},
}

// Live answers GET /v1/load/{id}/live.
func Live(c Control) func(*http.Request) (api.LoadLive, error) {
	return func(r *http.Request) (api.LoadLive, error) {
		after := r.URL.Query().Get("after")
		if len(after) > maxCursor {
			return api.LoadLive{}, api.Errorf(api.CodeInvalidRequest, "after has %d bytes", len(after))
		}
		wait := uint64(0)
		if text := r.URL.Query().Get("wait_ms"); text != "" {
			var err error
			if wait, err = strconv.ParseUint(text, 10, 32); err != nil || wait > maxWait {
				return api.LoadLive{}, api.Errorf(api.CodeInvalidRequest, "wait_ms is %.32q, want 0-%d", text, maxWait)
			}
		}
		id, err := find(c, r)
		if err != nil {
			return api.LoadLive{}, err
		}
		return c.LoadLive(r.Context(), id, after, time.Duration(wait)*time.Millisecond) //nolint:gosec // at most maxWait
	}
}

// Submit answers POST /v1/load.
func Submit(c Control) func(*http.Request, api.LoadRequest) (api.LoadSubmitted, error) {
	return func(r *http.Request, req api.LoadRequest) (api.LoadSubmitted, error) {
		if key := r.Header.Get(Idempotency); key != "" {
			if req.Key != "" && req.Key != key {
				return api.LoadSubmitted{}, api.Errorf(api.CodeInvalidRequest, "the header %s and key differ", Idempotency)
			}
			req.Key = key
		}
		if req.Key == "" {
			return api.LoadSubmitted{}, api.Errorf(api.CodeInvalidRequest, "the idempotency key is missing").
				WithHint("set key or the header %s to a text of your own; the same text again is the same test", Idempotency)
		}
		return c.SubmitLoad(r.Context(), door.Of(r.Context()).Actor(), req)
	}
}

// Stop answers POST /v1/load/{id}/stop.
func Stop(c Control) func(*http.Request, api.LoadStopRequest) (api.LoadRun, error) {
	return func(r *http.Request, req api.LoadStopRequest) (api.LoadRun, error) {
		if len(req.Reason) > maxReason {
			return api.LoadRun{}, api.Errorf(api.CodeInvalidRequest, "the reason has %d bytes, at most %d are allowed", len(req.Reason), maxReason)
		}
		id, err := find(c, r)
		if err != nil {
			return api.LoadRun{}, err
		}
		return c.StopLoad(r.Context(), door.Of(r.Context()).Actor(), id, req)
	}
}
