package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/skein-project/skein/cluster"
)

// Bounds of the client.
const (
	dialTimeout = 3 * time.Second
	maxAnswer   = 64 << 20 // bytes of a body that is not a stream
	maxLine     = 8 << 20  // bytes of one line of a stream
)

// Client speaks to a daemon. Its methods may be called from any goroutine.
// Each takes its deadline from the context. It asks once: package client is what
// tries again, signs and finds another host.
type Client struct {
	target string
	base   string
	http   *http.Client
}

// Dial returns a client for target: the path of a unix socket, or host:port,
// or http://host:port. Nothing is connected yet.
func Dial(target string) (*Client, error) {
	t, err := ParseTarget(target)
	if err != nil {
		return nil, err
	}
	return New(target, t.Base(), t.Transport(nil)), nil
}

// New returns a client whose requests to URLs that begin with base go through rt;
// target names who is asked.
func New(target, base string, rt http.RoundTripper) *Client {
	return &Client{target: target, base: base, http: &http.Client{Transport: rt, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse
	}}}
}

// Close drops idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Target returns what Dial was given.
func (c *Client) Target() string { return c.target }

// Status asks how the host and its cluster are.
func (c *Client) Status(ctx context.Context) (Status, error) {
	return get[Status](ctx, c, "/v1/status")
}

// Members lists the members.
func (c *Client) Members(ctx context.Context) (Members, error) {
	return get[Members](ctx, c, "/v1/members")
}

// Leave makes the daemon's host leave the cluster for good. The daemon ends
// after the answer.
func (c *Client) Leave(ctx context.Context) (Left, error) {
	return send[Left](ctx, c, http.MethodPost, "/v1/leave", nil)
}

// Remove takes a host out of the cluster for good.
func (c *Client) Remove(ctx context.Context, node cluster.NodeID, reason string) (Removed, error) {
	return send[Removed](ctx, c, http.MethodPost, "/v1/members/"+url.PathEscape(string(node))+"/remove", RemoveRequest{Reason: reason})
}

// RotateKey changes the WireGuard key of the daemon's host. While a change is
// under way it answers that one.
func (c *Client) RotateKey(ctx context.Context) (Rotated, error) {
	return send[Rotated](ctx, c, http.MethodPost, "/v1/mesh/rotate", nil)
}

// Doctor lets the daemon examine its host and the cluster.
func (c *Client) Doctor(ctx context.Context) (Doctor, error) {
	return get[Doctor](ctx, c, "/v1/doctor")
}

// Mesh shows the WireGuard device and its peers.
func (c *Client) Mesh(ctx context.Context) (Mesh, error) { return get[Mesh](ctx, c, "/v1/mesh") }

// Overload shows how loaded the host is, and what it refuses.
func (c *Client) Overload(ctx context.Context) (Overload, error) {
	return get[Overload](ctx, c, "/v1/overload")
}

// Zones shows how the zones are.
func (c *Client) Zones(ctx context.Context) (Zones, error) { return get[Zones](ctx, c, "/v1/zones") }

// Lease shows the lease.
func (c *Client) Lease(ctx context.Context) (Lease, error) { return get[Lease](ctx, c, "/v1/lease") }

// LeaseHistory lists the terms, newest first: those of the first page.
func (c *Client) LeaseHistory(ctx context.Context) (LeaseHistory, error) {
	return c.LeaseHistoryPage(ctx, Page{})
}

// LeaseHistoryPage is a page of LeaseHistory.
func (c *Client) LeaseHistoryPage(ctx context.Context, p Page) (LeaseHistory, error) {
	return get[LeaseHistory](ctx, c, p.of("/v1/lease/history"))
}

// StepDown asks the holder to hand over.
func (c *Client) StepDown(ctx context.Context, req StepDownRequest) (Lease, error) {
	return send[Lease](ctx, c, http.MethodPost, "/v1/lease/step-down", req)
}

// Drain lets a host finish what runs there and begin no chunk, or undoes that.
func (c *Client) Drain(ctx context.Context, req DrainRequest) (Drain, error) {
	return send[Drain](ctx, c, http.MethodPost, "/v1/worker/drain", req)
}

// Voters shows who votes, and who shall.
func (c *Client) Voters(ctx context.Context) (Voters, error) {
	return get[Voters](ctx, c, "/v1/lease/voters")
}

// SetVoters says who shall vote. It returns when the holder has agreed to it;
// the changes follow, one at a time.
func (c *Client) SetVoters(ctx context.Context, req VotersRequest) (Voters, error) {
	return send[Voters](ctx, c, http.MethodPost, "/v1/lease/voters", req)
}

// Config shows the daemon's effective configuration.
func (c *Client) Config(ctx context.Context) (Config, error) {
	return get[Config](ctx, c, "/v1/config")
}

// Snapshots lists the snapshots that the daemon's host keeps.
func (c *Client) Snapshots(ctx context.Context) (LogSnapshots, error) {
	return get[LogSnapshots](ctx, c, "/v1/log/snapshots")
}

// TakeSnapshot lets the holder take a snapshot of the log now.
func (c *Client) TakeSnapshot(ctx context.Context) (LogSnapshotTaken, error) {
	return send[LogSnapshotTaken](ctx, c, http.MethodPost, "/v1/log/snapshots", struct{}{})
}

// CheckLog asks node, or the daemon's own host if it is empty, for a check of
// its whole event log: of one that it starts, or of that run. It returns at
// once; ask again with the run for how far it is.
func (c *Client) CheckLog(ctx context.Context, node cluster.NodeID, run uint64) (LogCheck, error) {
	q := url.Values{}
	if node != "" {
		q.Set("node", string(node))
	}
	if run > 0 {
		q.Set("run", strconv.FormatUint(run, 10))
	}
	return get[LogCheck](ctx, c, "/v1/events/verify?"+q.Encode())
}

// Version asks for the daemon's version.
func (c *Client) Version(ctx context.Context) (Version, error) {
	return get[Version](ctx, c, "/v1/version")
}

// Ready asks whether the host joined and has a current view. An unready host
// is no error.
func (c *Client) Ready(ctx context.Context) (Health, error) {
	return getAny[Health](ctx, c, "/readyz", http.StatusServiceUnavailable)
}

// Jobs lists the jobs, newest first.
func (c *Client) Jobs(ctx context.Context) (Jobs, error) { return get[Jobs](ctx, c, "/v1/jobs") }

// JobsPage is a page of Jobs.
func (c *Client) JobsPage(ctx context.Context, p Page) (Jobs, error) {
	return get[Jobs](ctx, c, p.of("/v1/jobs"))
}

// Job shows a job by its id or any unique prefix of it.
func (c *Client) Job(ctx context.Context, id string) (Job, error) {
	return get[Job](ctx, c, "/v1/jobs/"+url.PathEscape(id))
}

// JobHistory tells every change of state of a job, with chunks of its chunks too.
func (c *Client) JobHistory(ctx context.Context, id string, chunks bool) (JobHistory, error) {
	path := "/v1/jobs/" + url.PathEscape(id) + "/history"
	if chunks {
		path += "?chunks=true"
	}
	return get[JobHistory](ctx, c, path)
}

// Explain tells what keeps each worker from a job.
func (c *Client) Explain(ctx context.Context, id string) (JobExplanation, error) {
	return get[JobExplanation](ctx, c, "/v1/jobs/"+url.PathEscape(id)+"/explain")
}

// ChunkMap tells where in a job its chunks are how far.
func (c *Client) ChunkMap(ctx context.Context, id string) (ChunkMap, error) {
	return get[ChunkMap](ctx, c, "/v1/jobs/"+url.PathEscape(id)+"/map")
}

// JobSeries tells how a job went, in so many spans of time; 0: UsualPoints.
func (c *Client) JobSeries(ctx context.Context, id string, points int) (JobSeries, error) {
	path := "/v1/jobs/" + url.PathEscape(id) + "/series"
	if points > 0 {
		path += "?points=" + strconv.Itoa(points)
	}
	return get[JobSeries](ctx, c, path)
}

// Groups lists the groups that permissions of jobs may name.
func (c *Client) Groups(ctx context.Context) (Groups, error) {
	return get[Groups](ctx, c, "/v1/groups")
}

// GroupsPage is a page of Groups.
func (c *Client) GroupsPage(ctx context.Context, p Page) (Groups, error) {
	return get[Groups](ctx, c, p.of("/v1/groups"))
}

// SetGroup says who belongs to a group; nobody ends it.
func (c *Client) SetGroup(ctx context.Context, name string, members []string) (GroupSet, error) {
	return send[GroupSet](ctx, c, http.MethodPut, "/v1/groups/"+url.PathEscape(name), GroupRequest{Members: members})
}

// Submit submits a job. With the same key it may be repeated after any error.
func (c *Client) Submit(ctx context.Context, req SubmitRequest) (SubmitResponse, error) {
	r, err := c.request(ctx, http.MethodPost, "/v1/jobs", req)
	if err != nil {
		return SubmitResponse{}, err
	}
	if req.Spec.Key != "" {
		r.Header.Set("Idempotency-Key", req.Spec.Key)
	}
	return do[SubmitResponse](c, r, 0)
}

// StopJob ends a job.
func (c *Client) StopJob(ctx context.Context, id, reason string) (Job, error) {
	return send[Job](ctx, c, http.MethodPost, "/v1/jobs/"+url.PathEscape(id)+"/stop", StopRequest{Reason: reason})
}

// Release lets the chunks of an open job that were given up be tried again.
func (c *Client) Release(ctx context.Context, id string) (Released, error) {
	return send[Released](ctx, c, http.MethodPost, "/v1/jobs/"+url.PathEscape(id)+"/release", struct{}{})
}

// PutArtefact uploads a module or a config and returns its hash. The daemon
// has it on disk when the call returns. What can be read twice, like a file, may be
// sent again, and signed.
func (c *Client) PutArtefact(ctx context.Context, r io.Reader) (Artefact, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPut, c.base+"/v1/artefacts", io.NopCloser(r))
	if err != nil {
		return Artefact{}, fmt.Errorf("upload: %w", err)
	}
	if twice, ok := r.(interface {
		io.ReaderAt
		io.Seeker
	}); ok {
		size, err := twice.Seek(0, io.SeekEnd)
		if err != nil {
			return Artefact{}, fmt.Errorf("upload: %w", err)
		}
		// Sections share no position: the try before may still be reading.
		req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(io.NewSectionReader(twice, 0, size)), nil }
		req.ContentLength = size
		if req.Body, err = req.GetBody(); err != nil {
			return Artefact{}, fmt.Errorf("upload: %w", err)
		}
	}
	req.Header.Set("Content-Type", "application/octet-stream")
	return do[Artefact](c, req, 0)
}

// CreateToken makes an invite on this host.
func (c *Client) CreateToken(ctx context.Context, ttl time.Duration, uses int) (TokenCreated, error) {
	return c.Invite(ctx, TokenRequest{TTLSeconds: ttl.Seconds(), Uses: uses})
}

// Invite makes an invite on this host, as req says.
func (c *Client) Invite(ctx context.Context, req TokenRequest) (TokenCreated, error) {
	return send[TokenCreated](ctx, c, http.MethodPost, "/v1/tokens", req)
}

// Tokens lists this host's invites.
func (c *Client) Tokens(ctx context.Context) (Tokens, error) {
	return get[Tokens](ctx, c, "/v1/tokens")
}

// RevokeToken ends an invite.
func (c *Client) RevokeToken(ctx context.Context, id string) error {
	_, err := send[Header](ctx, c, http.MethodDelete, "/v1/tokens/"+url.PathEscape(id), nil)
	return err
}

// Raw answers a GET of path with the exact bytes of the body.
func (c *Client) Raw(ctx context.Context, path string) ([]byte, error) {
	raw, err := get[json.RawMessage](ctx, c, path)
	return raw, err
}

// NewHeader returns the header of client-made bodies, for node as the local
// host.
func NewHeader(node cluster.NodeID, now time.Time, position uint64) Header {
	return Header{APIVersion: APIVersion, Node: node, ObservedAt: now.UTC(), Position: position}
}

func get[T any](ctx context.Context, c *Client, path string) (T, error) {
	return getAny[T](ctx, c, path, 0)
}

// getAny takes a body of status also as an answer.
func getAny[T any](ctx context.Context, c *Client, path string, also int) (T, error) {
	var zero T
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.base+path, nil)
	if err != nil {
		return zero, fmt.Errorf("request %s: %w", path, err)
	}
	return do[T](c, req, also)
}

func send[T any](ctx context.Context, c *Client, method, path string, body any) (T, error) {
	req, err := c.request(ctx, method, path, body)
	if err != nil {
		var zero T
		return zero, err
	}
	return do[T](c, req, 0)
}

// request makes a request with body as JSON; nil: with none.
func (c *Client) request(ctx context.Context, method, path string, body any) (*http.Request, error) {
	var b []byte
	if body != nil {
		var err error
		if b, err = json.Marshal(body); err != nil {
			return nil, fmt.Errorf("encode request %s: %w", path, err)
		}
	}
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, bytes.NewReader(b))
	if err != nil {
		return nil, fmt.Errorf("request %s: %w", path, err)
	}
	req.Header.Set("Content-Type", "application/json")
	return req, nil
}

// do sends req; a body of status also is an answer, too.
func do[T any](c *Client, req *http.Request, also int) (T, error) {
	var out T
	resp, err := c.roundTrip(req)
	if err != nil {
		return out, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	switch {
	case err != nil:
		return out, c.broke(req, err)
	case len(body) > maxAnswer:
		return out, fmt.Errorf("%s: %w: more than %d bytes", req.URL.Path, ErrAnswer, maxAnswer)
	case resp.StatusCode >= 300 && resp.StatusCode != also:
		return out, problemOf(req, resp.StatusCode, body)
	}
	if err := json.Unmarshal(body, &out); err != nil {
		return out, fmt.Errorf("%s: %w: %w", req.URL.Path, ErrAnswer, err)
	}
	return out, nil
}

// roundTrip sends req and sorts out its failures.
func (c *Client) roundTrip(req *http.Request) (*http.Response, error) {
	resp, err := c.http.Do(req)
	if err == nil {
		return resp, nil
	}
	if away, ok := errors.AsType[*UnreachableError](err); ok {
		return nil, away
	}
	return nil, c.broke(req, err)
}

// broke wraps an error of an exchange that had begun.
func (c *Client) broke(req *http.Request, err error) error {
	if ue, ok := errors.AsType[*url.Error](err); ok {
		err = ue.Err
	}
	if ctxErr := req.Context().Err(); ctxErr != nil {
		return fmt.Errorf("%s: no answer in time: %w", req.URL.Path, ctxErr)
	}
	return fmt.Errorf("%s: %w: %w", req.URL.Path, ErrInterrupted, err)
}

func problemOf(req *http.Request, status int, body []byte) error {
	var p Problem
	if json.Unmarshal(body, &p) != nil || p.Code == "" {
		return fmt.Errorf("%s: %w: status %d", req.URL.Path, ErrAnswer, status)
	}
	return &p
}
