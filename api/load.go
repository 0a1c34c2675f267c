package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
)

// LoadRequest is the body of POST /v1/load.
type LoadRequest struct {
	// Key makes a retry the same run; the header Idempotency-Key may stand for it.
	Key    string       `json:"key,omitempty"`
	Name   string       `json:"name,omitempty"`
	Bundle cluster.Hash `json:"bundle"` // the artefact with the scenario, as `skein load run` makes it
	// Hosts is how many take part, On which; neither: as few as carry the plan.
	Hosts int              `json:"hosts,omitempty"`
	On    []cluster.NodeID `json:"on,omitempty"`
	// OnLoss is continue (the default), abort or redistribute: what becomes of it when a host is lost.
	OnLoss string `json:"on_loss,omitempty"`
}

// LoadSubmitted answers POST /v1/load.
type LoadSubmitted struct {
	Header
	Run     event.LoadID `json:"run"`
	Created bool         `json:"created"` // false: it was submitted before
}

// LoadRuns answers GET /v1/load, the newest first.
type LoadRuns struct {
	Header
	Runs []LoadRun `json:"runs"`
}

// LoadRun answers GET /v1/load/{id}: a load test that runs on hosts.
type LoadRun struct {
	Header
	ID          event.LoadID    `json:"id"`
	Name        string          `json:"name"`
	Owner       string          `json:"owner"`
	State       event.LoadState `json:"state"`
	SubmittedAt time.Time       `json:"submitted_at"`
	Hosts       []LoadHost      `json:"hosts"`
	StopReason  string          `json:"stop_reason,omitempty"` // somebody wants it to end
	Verdict     string          `json:"verdict,omitempty"`
	Why         string          `json:"why,omitempty"`    // of the verdict
	Report      *cluster.Hash   `json:"report,omitempty"` // the artefact with its report
}

// LoadHost is the part of a host.
type LoadHost struct {
	Host  cluster.NodeID `json:"host"`
	Share float64        `json:"share"`
	Lost  string         `json:"lost,omitempty"` // why it is lost
}

// LoadStopRequest is the body of POST /v1/load/{id}/stop.
type LoadStopRequest struct {
	Reason string `json:"reason,omitempty"`
}

// LoadLive answers GET /v1/load/{id}/live, and is a line of GET /v1/load/{id}/follow:
// what was counted since a position. Added up, beginning with the last one that has
// Again, they are exactly the result.
type LoadLive struct {
	Header
	State event.LoadState `json:"state"`
	// Doing says what is going on, as "n2 waits for 3 chunks that run".
	Doing string `json:"doing,omitempty"`
	Next  string `json:"next"` // the position behind it: after of the next question
	// Again says that this answer starts over: it contains what earlier ones had, so
	// forget those.
	Again   bool       `json:"again,omitempty"`
	At      float64    `json:"at"` // seconds of the run
	Of      float64    `json:"of"`
	Seconds float64    `json:"seconds"` // that were counted since
	Warm    bool       `json:"warm,omitempty"`
	Steps   []LoadStep `json:"steps"`
	Latency LoadTimes  `json:"latency"` // of all steps
	// Phases are what parts of requests took, of all steps: those that there were.
	Phases []LoadPhase `json:"phases,omitempty"`
	Users  int         `json:"users"`
	Queue  int         `json:"queue"`
	// Planned are the requests a second that are due now; 0: some of the traffic has no rate.
	Planned    float64         `json:"planned,omitempty"`
	Hosts      []LoadHostLive  `json:"hosts"`
	Thresholds []LoadThreshold `json:"thresholds,omitempty"` // over the run until now
	Verdict    string          `json:"verdict,omitempty"`    // it has ended
}

// LoadThreshold is what a threshold comes to as things are.
type LoadThreshold struct {
	Text    string  `json:"text"`
	OK      bool    `json:"ok"`
	Value   float64 `json:"value"`
	Unit    string  `json:"unit,omitempty"` // s, /s, share
	Samples bool    `json:"samples"`        // there is something to judge
}

// LoadChecks is how often the checks of a step held.
type LoadChecks struct {
	Passed uint64 `json:"passed"`
	Failed uint64 `json:"failed"`
}

// LoadStep is what a step counted.
type LoadStep struct {
	Name     string            `json:"name"`
	Requests uint64            `json:"requests"`
	Failed   uint64            `json:"failed"`
	Dropped  uint64            `json:"dropped,omitempty"`
	Classes  map[string]uint64 `json:"classes,omitempty"`
	Checks   LoadChecks        `json:"checks"`
	Warm     uint64            `json:"warm,omitempty"` // requests of warm-up, setup and teardown, not among the others
	Latency  LoadTimes         `json:"latency"`
}

// LoadPhase is what a part of requests took: service late dns connect tls send first_byte
// receive.
type LoadPhase struct {
	Name  string    `json:"name"`
	Count uint64    `json:"count"`
	Times LoadTimes `json:"times"`
}

// LoadTimes are in seconds; all are 0 where nothing has ended.
type LoadTimes struct {
	P50 float64 `json:"p50"`
	P95 float64 `json:"p95"`
	P99 float64 `json:"p99"`
	Max float64 `json:"max"`
}

// LoadHostLive is how a host gets on.
type LoadHostLive struct {
	Host     cluster.NodeID `json:"host"`
	Stage    string         `json:"stage"` // silent: it runs, and what it counted is not told any more
	At       float64        `json:"at"`    // how far what it told reaches
	Requests uint64         `json:"requests"`
	CPU      float64        `json:"cpu"`
	Clock    float64        `json:"clock"` // how uncertain its start is, in seconds
	Share    float64        `json:"share"`
	LateP99  float64        `json:"late_p99"` // of what was counted since: how late requests began for its own sake
	Lost     string         `json:"lost,omitempty"`
}

// LoadNow is how a load test gets on: all that was counted until now.
type LoadNow struct {
	Doing    string    `json:"doing,omitempty"`
	At       float64   `json:"at"` // seconds of the run
	Of       float64   `json:"of"`
	Warm     bool      `json:"warm,omitempty"`
	Rate     float64   `json:"rate"` // requests a second, lately
	Planned  float64   `json:"planned,omitempty"`
	Requests uint64    `json:"requests"`
	Failed   uint64    `json:"failed"`
	Dropped  uint64    `json:"dropped"`
	Users    int       `json:"users"`
	Queue    int       `json:"queue"`
	Latency  LoadTimes `json:"latency"` // lately
	// Steps have the counts of the run, and latencies of late; Requests of Hosts is not told.
	Steps      []LoadStep      `json:"steps,omitempty"`
	Hosts      []LoadHostLive  `json:"hosts,omitempty"`
	Thresholds []LoadThreshold `json:"thresholds,omitempty"`
}

// WatchedLoad is a load test as a watch tells of it.
type WatchedLoad struct {
	LoadRun
	Now *LoadNow `json:"now,omitempty"` // while it runs
}

// SubmitLoad has a load test run on hosts.
func (c *Client) SubmitLoad(ctx context.Context, req LoadRequest) (LoadSubmitted, error) {
	return send[LoadSubmitted](ctx, c, http.MethodPost, "/v1/load", req)
}

// LoadRuns lists load tests.
func (c *Client) LoadRuns(ctx context.Context) (LoadRuns, error) {
	return get[LoadRuns](ctx, c, "/v1/load")
}

// LoadRun returns one, by its id, the beginning of it, or its name.
func (c *Client) LoadRun(ctx context.Context, id string) (LoadRun, error) {
	return get[LoadRun](ctx, c, "/v1/load/"+url.PathEscape(id))
}

// StopLoad ends one.
func (c *Client) StopLoad(ctx context.Context, id string, req LoadStopRequest) (LoadRun, error) {
	return send[LoadRun](ctx, c, http.MethodPost, "/v1/load/"+url.PathEscape(id)+"/stop", req)
}

// LoadLive asks what one counted since a position, and waits for something new.
func (c *Client) LoadLive(ctx context.Context, id, after string, wait time.Duration) (LoadLive, error) {
	q := url.Values{"after": {after}, "wait_ms": {strconv.FormatInt(wait.Milliseconds(), 10)}}
	return get[LoadLive](ctx, c, "/v1/load/"+url.PathEscape(id)+"/live?"+q.Encode())
}

// FollowLoad calls f with what is counted in one, until it has ended, reconnecting when the daemon
// restarts: each count is told once, over any number of connections and daemons, but where one
// says Again.
func (c *Client) FollowLoad(ctx context.Context, id string, o FollowOptions, f func(LoadLive) error) error {
	after := ""
	return c.follow(ctx, o, func(ctx context.Context) error {
		ended := false
		err := c.stream(ctx, "/v1/load/"+url.PathEscape(id)+"/follow"+o.query(url.Values{"after": {after}}), nil, func(line []byte) error {
			var x LoadLive
			if err := json.Unmarshal(line, &x); err != nil {
				return fmt.Errorf("load test %s: %w: %w", id, ErrAnswer, err)
			}
			if err := f(x); err != nil {
				return err
			}
			after, ended = x.Next, x.State == event.LoadEnded
			return nil
		})
		if ended && errors.Is(err, errStreamEnd) {
			return ErrStop
		}
		return err
	})
}

// LoadReport gets the report of one that has ended.
func (c *Client) LoadReport(ctx context.Context, id string) (LoadReport, error) {
	return get[LoadReport](ctx, c, "/v1/load/"+url.PathEscape(id)+"/report")
}

// LoadReport is GET /v1/load/{id}/report: the report, as `skein load report` reads it.
type LoadReport struct {
	Header
	Report json.RawMessage `json:"report"`
}
