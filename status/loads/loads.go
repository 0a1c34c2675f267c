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
	"github.com/skein-project/skein/status/stream"
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

// FollowParams are those of Follow.
var FollowParams = []openapi.Param{
	{Name: "after", Type: "", About: "the position to go on from, `next` of the line before; none: from the beginning"},
	{Name: "step_ms", Type: 0, About: "a line at most that often, 200-60000 (200): what is counted meanwhile is in the next one"},
}

const (
	// minStep bounds how often a follower is told; keepalive is when one is told that there is
	// nothing, a third of what clients bear.
	minStep, maxStep = 200 * time.Millisecond, time.Minute
	keepalive        = 5 * time.Second
	// asking is for how long one question to the holder waits for something new, pause lies between
	// two where it was not answered, and without is for how long there may be no answer.
	asking  = 2 * time.Second
	pause   = 500 * time.Millisecond
	without = 20 * time.Second
)

// Follow answers GET /v1/load/{id}/follow: what is counted, line by line, until the end of the test.
// Whoever holds the lease is asked, from where the line before ended.
func Follow(c Control, header func() api.Header, pool *stream.Pool, places *door.Places) func(http.ResponseWriter, *http.Request) error {
	return func(w http.ResponseWriter, r *http.Request) error {
		after := r.URL.Query().Get("after")
		if len(after) > maxCursor {
			return api.Errorf(api.CodeInvalidRequest, "after has %d bytes", len(after))
		}
		step := minStep
		if text := r.URL.Query().Get("step_ms"); text != "" {
			ms, err := strconv.ParseUint(text, 10, 32)
			if step = time.Duration(ms) * time.Millisecond; err != nil || step < minStep || step > maxStep { //nolint:gosec // 32 bits
				return api.Errorf(api.CodeInvalidRequest, "step_ms is %.32q, want %d-%d", text, minStep.Milliseconds(), maxStep.Milliseconds())
			}
		}
		id, err := find(c, r)
		if err != nil {
			return err
		}
		return pool.Serve(places, w, r, func(ctx context.Context, out *stream.Writer) error {
			return follow(ctx, c, id, after, step, out, header, pool.Stopping())
		})
	}
}

func follow(ctx context.Context, c Control, id event.LoadID, after string, step time.Duration, out *stream.Writer, header func() api.Header, stopping <-chan struct{}) error {
	var said api.LoadLive
	for answered, first := time.Now(), true; ; {
		x, err := c.LoadLive(ctx, id, after, asking)
		switch {
		case err == nil:
			answered = time.Now()
		case ctx.Err() != nil || !api.Temporary(err) || time.Since(answered) > without:
			return err
		}
		rest := pause
		if err == nil && (first || x.Again || x.Next != after || x.State != said.State || x.Doing != said.Doing) {
			if err := out.Line(api.Complete(x, header())); err != nil {
				return err
			}
			rest, said, first = step, x, false
		} else if time.Since(out.Last) >= keepalive {
			if err := out.Line(nil); err != nil {
				return err
			}
		}
		if err == nil {
			if x.State == event.LoadEnded && x.Next == after {
				return nil // all of it was told
			}
			if after = x.Next; x.State == event.LoadEnded {
				rest = 0
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-stopping:
			return stream.ErrStopping
		case <-time.After(rest):
		}
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
