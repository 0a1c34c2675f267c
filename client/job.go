package client

import (
	"context"
	"crypto/rand"
	"fmt"
	"sync"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster/job"
)

// Callbacks hear of a job; each may be nil. They run on one goroutine, one after the
// other.
type Callbacks struct {
	// OnStatus gets the job when its state is another, the first time too.
	OnStatus func(api.Job)
	// OnStats gets the job with each change of its figures.
	OnStats func(api.Job)
	// OnResult gets each result that was accepted, once.
	OnResult func(api.ChunkResult)
}

// Job is a job that was submitted.
type Job struct {
	api.SubmitResponse

	c    *Client
	done chan struct{} // closed when the callbacks have ended; nil: there are none
	last api.Job       // and err: how it ended; to be read when done is closed
	err  error
}

// Submit submits a job and returns when a majority of the voters has it; its module
// was uploaded before (API().PutArtefact). A spec without a key gets a random one: the
// same key again is the same job, however often it is sent. The callbacks run until
// the job has ended, ctx ends or the Client is closed.
func (c *Client) Submit(ctx context.Context, spec job.Spec, call Callbacks) (*Job, error) {
	if spec.Key == "" {
		spec.Key = "client-" + rand.Text()
	}
	resp, err := c.api.Submit(ctx, api.SubmitRequest{Spec: spec})
	if err != nil {
		return nil, err
	}
	j := &Job{SubmitResponse: resp, c: c}
	if call.OnStatus == nil && call.OnStats == nil && call.OnResult == nil {
		return j, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.base.Err() != nil {
		return j, ErrClosed
	}
	j.done = make(chan struct{})
	c.jobs.Go(func() { j.follow(ctx, call) })
	return j, nil
}

// Wait waits for the end of the job, after the last callback. The error is why that is
// not known, or that a callback panicked; a job that failed is none.
func (j *Job) Wait(ctx context.Context) (api.Job, error) {
	if j.done == nil {
		return j.c.Wait(ctx, string(j.Job))
	}
	select {
	case <-j.done:
		return j.last, j.err
	case <-ctx.Done():
		return api.Job{}, ctx.Err()
	}
}

// follow reads what the callbacks want and calls them.
func (j *Job) follow(ctx context.Context, call Callbacks) {
	defer close(j.done)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(j.c.base, func() { cancel(ErrClosed) })()

	calls := make(chan func()) // closed by the last reader; a full one has readers wait
	pass := func(f func()) error {
		select {
		case calls <- f:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	var readers sync.WaitGroup
	var last api.Job
	id := string(j.Job)
	readers.Go(func() {
		state := job.State("")
		_, err := j.c.api.FollowJob(ctx, id, api.FollowOptions{}, func(now api.Job) error {
			last = now
			return pass(func() {
				if call.OnStatus != nil && now.State != state {
					call.OnStatus(now)
				}
				state = now.State
				if call.OnStats != nil {
					call.OnStats(now)
				}
			})
		})
		if err != nil {
			cancel(err)
		}
	})
	if call.OnResult != nil {
		readers.Go(func() {
			_, err := j.c.api.Chunks(ctx, id, api.ChunkQuery{Follow: true}, api.FollowOptions{}, func(r api.ChunkResult) error {
				return pass(func() { call.OnResult(r) })
			})
			if err != nil {
				cancel(err)
			}
		})
	}
	ended := make(chan struct{})
	go func() {
		readers.Wait()
		close(calls)
		close(ended)
	}()
	for f := range calls {
		if err := guarded(f); err != nil {
			cancel(err)
			break
		}
	}
	<-ended
	j.last, j.err = last, context.Cause(ctx)
}

// guarded turns a panic of f into an error.
func guarded(f func()) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("callback panicked: %v", p)
		}
	}()
	f()
	return nil
}
