package client

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/skein-project/skein/api"
)

// ErrClosed ends what runs when its Client is closed.
var ErrClosed = errors.New("the client was closed")

// answerTime is longer than any host lets a request take before it answers.
const answerTime = 45 * time.Second

// Client speaks to a cluster. Its methods may be called from any goroutine.
type Client struct {
	api       *api.Client
	transport *transport
	idle      []*http.Transport

	base  context.Context // ends with Close
	close context.CancelCauseFunc
	mu    sync.Mutex
	jobs  sync.WaitGroup // added to under mu, while base lasts
}

// Dial checks o and returns a Client. Nothing is connected yet.
func Dial(o Options) (*Client, error) {
	conf, err := o.check()
	if err != nil {
		return nil, err
	}
	t := &transport{once: o.Once}
	if o.Key != nil {
		t.signer = &signer{key: o.Key, cluster: o.Cluster}
	}
	c := &Client{}
	for _, text := range o.Endpoints {
		target, err := api.ParseTarget(text)
		if err != nil {
			return nil, err
		}
		base, err := url.Parse(target.Base())
		if err != nil {
			return nil, fmt.Errorf("dial daemon at %s: %w", text, err)
		}
		rt := target.Transport(conf)
		rt.ResponseHeaderTimeout = answerTime
		c.idle = append(c.idle, rt)
		t.list = append(t.list, &endpoint{name: text, base: base, rt: rt})
	}
	return c.over(strings.Join(o.Endpoints, ","), t), nil
}

// over completes a Client whose requests t carries.
func (c *Client) over(name string, t *transport) *Client {
	c.api, c.transport = api.New(name, "http://skein", t), t
	c.base, c.close = context.WithCancelCause(context.Background())
	return c
}

// API returns the methods of each route. What they ask is signed and tried again just
// the same.
func (c *Client) API() *api.Client { return c.api }

// Transport carries requests to the cluster, whatever host their URLs name, signed and
// tried again just the same.
func (c *Client) Transport() http.RoundTripper { return c.transport }

// Close ends what the Client began, waits for it and drops the connections. What
// callers wait for elsewhere ends by their contexts.
func (c *Client) Close() {
	c.mu.Lock()
	c.close(ErrClosed)
	c.mu.Unlock()
	c.jobs.Wait()
	for _, t := range c.idle {
		t.CloseIdleConnections()
	}
}

// Wait waits for the end of a job, by its id or a unique part of it or its name.
func (c *Client) Wait(ctx context.Context, id string) (api.Job, error) {
	return c.api.FollowJob(ctx, id, api.FollowOptions{}, func(api.Job) error { return nil })
}

// StreamResults calls f with the results of a job's chunks, those there are and those
// to come, until the job has ended: each chunk once, over any number of hosts. It
// returns where to go on: as after, in this process or another.
func (c *Client) StreamResults(ctx context.Context, id string, after api.Cursor, f func(api.ChunkResult) error) (api.Cursor, error) {
	return c.api.Chunks(ctx, id, api.ChunkQuery{After: after, Follow: true}, api.FollowOptions{}, f)
}

// Watch calls f with what happens until the context ends or f returns an error. At
// another host it begins with snapshots again; no event of the log is missed or comes
// twice.
func (c *Client) Watch(ctx context.Context, q api.WatchQuery, f func(api.WatchMessage) error) error {
	return c.api.Watch(ctx, q, api.FollowOptions{}, f)
}
