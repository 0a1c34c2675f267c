package joblogs

import (
	"context"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/status/door"
	"github.com/skein-project/skein/status/openapi"
	"github.com/skein-project/skein/status/query"
	"github.com/skein-project/skein/status/stream"
)

// keepalive is how often a stream has an empty line, a third of what clients bear.
const keepalive = 5 * time.Second

// Source is what tells of logs. See status.Backend.
type Source interface {
	Job(ctx context.Context, id job.ID) (api.Job, error)
	// JobLogs passes to send what attempts of a job wrote, and goes on until the job has
	// ended if it is followed. It sends one line at a time.
	JobLogs(ctx context.Context, id job.ID, q api.JobLogQuery, send func(api.JobLog) error) error
}

// Params are what Serve takes.
var Params = []openapi.Param{
	{Name: "chunk", Type: uint64(0), About: "of this chunk, from 0"},
	{Name: "attempt", Type: uint64(0), About: "of the attempts with this number, from 1"},
	{Name: "failed", Type: false, About: "of attempts that failed"},
	{Name: "follow", Type: false, About: "go on with what they write, until the job has ended"},
}

// Serve answers GET /v1/jobs/{id}/logs of the job that find finds.
func Serve(b Source, find func(*http.Request) (job.ID, error), pool *stream.Pool, places *door.Places) func(http.ResponseWriter, *http.Request) error {
	return func(w http.ResponseWriter, r *http.Request) error {
		q, err := parse(r)
		if err != nil {
			return err
		}
		id, err := find(r)
		if err == nil {
			_, err = b.Job(r.Context(), id)
		}
		if err != nil {
			return err
		}
		return pool.Serve(places, w, r, func(ctx context.Context, out *stream.Writer) error {
			ctx, cancel := context.WithCancelCause(ctx)
			var mu sync.Mutex
			var alive sync.WaitGroup
			defer alive.Wait()
			defer cancel(nil)
			alive.Go(func() {
				for {
					if _, err := pool.Wait(ctx, nil, nil, keepalive, keepalive); err != nil {
						cancel(err)
						return
					}
					mu.Lock()
					err := out.Line(nil)
					mu.Unlock()
					if err != nil {
						cancel(err)
						return
					}
				}
			})
			err := b.JobLogs(ctx, id, q, func(line api.JobLog) error {
				mu.Lock()
				defer mu.Unlock()
				return out.Line(line)
			})
			if err != nil && ctx.Err() != nil {
				return context.Cause(ctx)
			}
			return err
		})
	}
}

func parse(r *http.Request) (q api.JobLogQuery, err error) {
	if q.Failed, err = query.FlagOf(r, "failed"); err != nil {
		return q, err
	}
	if q.Follow, err = query.FlagOf(r, "follow"); err != nil {
		return q, err
	}
	number := func(name string, least, most uint64) (int, error) {
		text := r.URL.Query().Get(name)
		n, err := strconv.ParseUint(text, 10, 31)
		if err != nil || n < least || n > most {
			return 0, api.Errorf(api.CodeInvalidRequest, "%s: %.32q is not a number from %d to %d", name, text, least, most)
		}
		return int(n), nil
	}
	if r.URL.Query().Has("chunk") {
		n, err := number("chunk", 0, job.MaxChunks-1)
		if err != nil {
			return q, err
		}
		q.Chunk = &n
	}
	if r.URL.Query().Has("attempt") {
		if q.Attempt, err = number("attempt", 1, 1<<31-1); err != nil {
			return q, err
		}
	}
	return q, nil
}
