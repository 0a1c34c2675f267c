package past

import (
	"context"
	"iter"
	"net/http"
	"strconv"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/present/series"
	"github.com/skein-project/skein/status/openapi"
)

// Jobs is what tells of jobs, and their events. See status.Backend.
type Jobs interface {
	Job(ctx context.Context, id job.ID) (api.Job, error)
	Oldest() api.Cursor
	Events(ctx context.Context, at api.Cursor, since time.Time, about event.Subject) iter.Seq2[event.Event, error]
	Void(e event.Event) bool
}

// SeriesParams are what Series takes.
var SeriesParams = []openapi.Param{{Name: "points", Type: uint64(0), About: "in how many spans of time, at most 500; 120 if it does not say"}}

// Series answers GET /v1/jobs/{id}/series of the job that find finds.
func Series(b Jobs, find func(*http.Request) (job.ID, error)) func(*http.Request) (api.JobSeries, error) {
	return func(r *http.Request) (api.JobSeries, error) {
		points := uint64(api.UsualPoints)
		if text := r.URL.Query().Get("points"); text != "" {
			var err error
			if points, err = strconv.ParseUint(text, 10, 32); err != nil || points == 0 || points > api.MaxPoints {
				return api.JobSeries{}, api.Errorf(api.CodeInvalidRequest, "points: %.32q is not a number from 1 to %d", text, api.MaxPoints)
			}
		}
		id, err := find(r)
		if err != nil {
			return api.JobSeries{}, err
		}
		j, err := b.Job(r.Context(), id)
		if err != nil {
			return api.JobSeries{}, err
		}
		o := series.Options{
			Job: id, Spec: j.Spec, From: j.SubmittedAt, To: j.SubmittedAt.Add(time.Duration(j.ElapsedSeconds * float64(time.Second))),
			Points: int(points), //nolint:gosec // at most api.MaxPoints
		}
		fold, err := pass(r.Context(), b, o)
		if err == nil && len(fold.Settled()) > 0 { // rare: accepted results differed
			o.Settled = fold.Settled()
			fold, err = pass(r.Context(), b, o)
		}
		if err != nil {
			return api.JobSeries{}, err
		}
		out := fold.Series()
		out.Compacted = len(b.Oldest()) > 0
		return out, nil
	}
}

// pass reads the events of a job.
func pass(ctx context.Context, b Jobs, o series.Options) (*series.Fold, error) {
	fold, about := series.New(o), event.Subject{Job: string(o.Job)}
	for e, err := range b.Events(ctx, b.Oldest().Clone(), o.From.Add(-time.Second), about) {
		if err != nil {
			return nil, err
		}
		if e.Kind.Authority() && about.Match(&e) && !b.Void(e) {
			fold.Apply(e)
		}
	}
	return fold, ctx.Err()
}
