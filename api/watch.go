package api

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// WatchMessage is one event of GET /v1/watch: hello, snapshot, synced, delta,
// gauges, log, reset or bye.
type WatchMessage struct {
	// ID is the position behind it, which is not always told.
	ID    string          `json:"id,omitempty"`
	Event string          `json:"event"`
	Data  json.RawMessage `json:"data"`
}

// WatchBye is the data of the last event of GET /v1/watch: why it ends.
type WatchBye struct {
	Problem *Problem `json:"problem"`
	// RetryAfterSeconds says when another watch makes sense; null: it does not.
	RetryAfterSeconds *float64 `json:"retry_after_seconds"`
}

// WatchQuery says what to watch.
type WatchQuery struct {
	Topics []string // none: all but the links and the events
	Jobs   []string // ids, each with all its figures
	Links  []string // hosts, each with all its half-edges
	// Workflows are ids of runs, each with its steps.
	Workflows []string
	// Loads are ids of load tests, each with all that it counts.
	Loads []string
	// Events selects among the events, if they are a topic: Since, Kind, Node, After
	// and About without a job. With neither Since nor After they are those that come;
	// an empty After that is not nil is the beginning.
	Events EventQuery
	// At is where to go on, of this host or another; the zero value: nowhere.
	At WatchPosition
}

// WatchPosition is how far a reader of a watch is. It is good at every host: at
// another one the stream begins with snapshots, and no event of the log is missed or
// comes twice.
type WatchPosition struct{ place, cursor string }

// Note takes in what was read.
func (p *WatchPosition) Note(m WatchMessage) error {
	if m.ID != "" {
		p.place, p.cursor, _ = strings.Cut(m.ID, ";")
	}
	if m.Event != "log" {
		return nil
	}
	var d struct {
		Cursor string `json:"cursor"`
	}
	if err := json.Unmarshal(m.Data, &d); err != nil {
		return fmt.Errorf("watch: log: %w: %w", ErrAnswer, err)
	}
	p.cursor = d.Cursor
	return nil
}

// String is the text of the header Last-Event-ID; empty for nowhere.
func (p WatchPosition) String() string {
	if p.place == "" || p.cursor == "" {
		return p.place
	}
	return p.place + ";" + p.cursor
}

func (q WatchQuery) values() url.Values {
	v := q.Events.values()
	v.Del("positions")
	if q.Events.After != nil { // empty: from the beginning
		v.Set("after", q.Events.After.String())
	}
	if len(q.Topics) > 0 {
		v.Set("topics", strings.Join(q.Topics, ","))
	}
	v.Del("job")
	for _, id := range q.Jobs {
		v.Add("job", id)
	}
	for _, id := range q.Workflows {
		v.Add("workflow", id)
	}
	for _, id := range q.Loads {
		v.Add("load", id)
	}
	for _, node := range q.Links {
		v.Add("link", node)
	}
	return v
}

// Watch calls f with what comes, reconnecting until the context ends or f returns
// an error. The beginning of another connection is another hello; what stood before
// it may come again, but no event of the log.
func (c *Client) Watch(ctx context.Context, q WatchQuery, o FollowOptions, f func(WatchMessage) error) error {
	at := q.At
	return c.follow(ctx, o, func(ctx context.Context) error {
		header := http.Header{}
		if text := at.String(); text != "" {
			header.Set("Last-Event-ID", text)
			q.Events.Since, q.Events.After, q.Events.Tail = time.Time{}, nil, 0
		}
		return c.stream(ctx, "/v1/watch?"+q.values().Encode(), header, func(line []byte) error {
			var m WatchMessage
			if err := json.Unmarshal(line, &m); err != nil {
				return fmt.Errorf("watch: %w: %w", ErrAnswer, err)
			}
			if m.Event == "bye" {
				return byeOf(m.Data)
			}
			if err := f(m); err != nil {
				return err
			}
			return at.Note(m)
		})
	})
}

func byeOf(data []byte) error {
	var b WatchBye
	if err := json.Unmarshal(data, &b); err != nil || b.Problem == nil {
		return fmt.Errorf("watch: bye: %w", ErrAnswer)
	}
	return b.Problem
}
