package api

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/internal/wait"
)

// silence is how long a stream may be silent before it counts as broken; the
// server sends at least an empty line every third of it.
const silence = 15 * time.Second

// ErrStop is what a callback returns to end a follow call without error.
var ErrStop = errors.New("stop")

// FollowOptions tells a follow call what to do when the connection breaks.
type FollowOptions struct {
	// Min is the Cursor of a change that must be seen, by FollowJob and Chunks: a host
	// that does not know of it yet answers when it does. Empty: none.
	Min string
	// Retry is called before each new connection, with why the last one
	// ended; an error ends the call. Nil: reconnect until the context ends.
	Retry func(cause error) error
	// Position is called, by Events, with each position that the daemon tells:
	// all that was selected up to it was handed out. Nil: nobody asks.
	Position func(StreamPosition)
}

// query is v with what o adds to it.
func (o FollowOptions) query(v url.Values) string {
	if o.Min != "" {
		v.Set("min", o.Min)
	}
	if len(v) == 0 {
		return ""
	}
	return "?" + v.Encode()
}

// FollowJob calls f with snapshots of a job until it is final, reconnecting
// when the daemon restarts. It returns the last snapshot that f saw.
func (c *Client) FollowJob(ctx context.Context, id string, o FollowOptions, f func(Job) error) (Job, error) {
	var last Job
	err := c.follow(ctx, o, func(ctx context.Context) error {
		return c.stream(ctx, "/v1/jobs/"+url.PathEscape(id)+"/watch"+o.query(url.Values{}), nil, func(line []byte) error {
			var j Job
			if err := json.Unmarshal(line, &j); err != nil {
				return fmt.Errorf("job %s: %w: %w", id, ErrAnswer, err)
			}
			last = j
			if err := f(j); err != nil {
				return err
			}
			if j.State.Final() {
				return ErrStop
			}
			return nil
		})
	})
	return last, err
}

// Events calls f with the events that q selects; with q.Follow it goes on,
// and reconnects, until the context ends or f returns an error. It misses no
// event and repeats none, over any number of connections and daemons.
func (c *Client) Events(ctx context.Context, q EventQuery, o FollowOptions, f func(Event) error) error {
	cursor, left := q.After.Clone(), q.Limit
	limited := left > 0
	once := func(ctx context.Context) error {
		if q.After, q.Limit = cursor, left; len(cursor) > 0 {
			q.Tail = 0
		}
		err := c.stream(ctx, "/v1/events?"+q.values().Encode(), nil, func(line []byte) error {
			if bytes.HasPrefix(line, []byte(`{"cursor":`)) {
				return position(line, cursor, o.Position)
			}
			if limited && left == 0 {
				return ErrStop
			}
			var e Event
			if err := json.Unmarshal(line, &e); err != nil {
				return fmt.Errorf("events: %w: %w", ErrAnswer, err)
			}
			if err := f(e); err != nil {
				return err
			}
			cursor.Advance(e.Source, e.Seq)
			if limited {
				left--
			}
			return nil
		})
		if limited && left == 0 {
			return ErrStop // however the stream ended
		}
		return err
	}
	if !q.Follow {
		err := once(ctx)
		if errors.Is(err, ErrStop) || errors.Is(err, errStreamEnd) {
			return nil
		}
		return err
	}
	return c.follow(ctx, o, once)
}

// position takes a line that says how far the stream is.
func position(line []byte, cursor Cursor, told func(StreamPosition)) error {
	var p StreamPosition
	err := json.Unmarshal(line, &p)
	at, err1 := event.ParseCursor(p.Cursor)
	if err := errors.Join(err, err1); err != nil {
		return fmt.Errorf("events: %w: %w", ErrAnswer, err)
	}
	for s, seq := range at {
		cursor.Advance(s, seq)
	}
	if told != nil {
		told(p)
	}
	return nil
}

func (q EventQuery) values() url.Values {
	v := url.Values{"positions": {"true"}}
	if !q.Since.IsZero() {
		v.Set("since", q.Since.UTC().Format(time.RFC3339Nano))
	}
	if q.Kind != "" {
		v.Set("kind", q.Kind)
	}
	if q.Node != "" {
		v.Set("node", string(q.Node))
	}
	for name, value := range map[string]string{"job": q.About.Job, "member": q.About.Member, "worker": q.About.Worker, "user": q.About.User} {
		if value != "" {
			v.Set(name, value)
		}
	}
	if q.Tail > 0 {
		v.Set("tail", strconv.FormatUint(q.Tail, 10))
	}
	if q.Entity != "" {
		v.Set("entity", q.Entity)
	}
	if !q.Until.IsZero() {
		v.Set("until", q.Until.UTC().Format(time.RFC3339Nano))
	}
	if q.Before != nil {
		v.Set("before", q.Before.String())
	}
	if q.Follow {
		v.Set("follow", "true")
	}
	if len(q.After) > 0 {
		v.Set("after", q.After.String())
	}
	if q.Limit > 0 {
		v.Set("limit", strconv.FormatUint(q.Limit, 10))
	}
	return v
}

// errStreamEnd says that the server ended a stream properly.
var errStreamEnd = errors.New("end of stream")

// follow repeats once until it ends for good.
func (c *Client) follow(ctx context.Context, o FollowOptions, once func(context.Context) error) error {
	for n := 0; ; n++ {
		started := time.Now()
		err := once(ctx)
		switch {
		case errors.Is(err, ErrStop):
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case !errors.Is(err, errStreamEnd) && !Temporary(err):
			return err
		}
		if o.Retry != nil {
			if err := o.Retry(err); err != nil {
				return err
			}
		}
		if time.Since(started) > silence {
			n = 0
		}
		if err := wait.For(ctx, wait.Backoff(n)); err != nil {
			return err
		}
	}
}

// stream calls f with each line of an NDJSON answer to a request with header, which
// may be nil. It never returns nil: at
// the proper end it returns errStreamEnd.
func (c *Client) stream(ctx context.Context, path string, header http.Header, f func(line []byte) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	// A silent peer ends the exchange; what comes of it winds the watchdog up again.
	watchdog := time.AfterFunc(silence, func() { cancel(ErrInterrupted) })
	defer watchdog.Stop()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.base+path, nil)
	if err != nil {
		return fmt.Errorf("request %s: %w", path, err)
	}
	maps.Copy(req.Header, header)
	req.Header.Set("Accept", "application/x-ndjson")
	resp, err := c.roundTrip(req)
	if err != nil {
		return streamError(ctx, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return streamProblem(req, resp)
	}
	scan := bufio.NewScanner(heard{resp.Body, watchdog})
	scan.Buffer(make([]byte, 0, 64<<10), maxLine)
	scan.Split(wholeLines)
	for scan.Scan() {
		watchdog.Reset(silence)
		line := bytes.TrimSpace(scan.Bytes())
		if len(line) == 0 {
			continue // kept alive
		}
		if bytes.HasPrefix(line, []byte(`{"problem":`)) {
			return lineProblem(path, line)
		}
		if err := f(line); err != nil {
			return err
		}
	}
	if err := scan.Err(); err != nil {
		if errors.Is(err, bufio.ErrTooLong) {
			return fmt.Errorf("%s: %w: line over %d bytes", path, ErrAnswer, maxLine)
		}
		return streamError(ctx, c.broke(req, err))
	}
	return errStreamEnd
}

// heard winds a watchdog up with each part that comes: a long line takes its time.
type heard struct {
	io.Reader
	watchdog *time.Timer
}

func (h heard) Read(b []byte) (int, error) {
	n, err := h.Reader.Read(b)
	if n > 0 {
		h.watchdog.Reset(silence)
	}
	return n, err
}

// wholeLines splits like bufio.ScanLines, and leaves out what a connection that
// broke left of its last line.
func wholeLines(data []byte, atEOF bool) (advance int, token []byte, err error) {
	if i := bytes.IndexByte(data, '\n'); i >= 0 {
		return i + 1, data[:i], nil
	}
	if atEOF {
		return len(data), nil, nil
	}
	return 0, nil, nil
}

// streamError tells silence from the caller's own end of the context.
func streamError(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); errors.Is(cause, ErrInterrupted) {
		return fmt.Errorf("%w: silent for %s", ErrInterrupted, silence)
	}
	return err
}

func streamProblem(req *http.Request, resp *http.Response) error {
	var b strings.Builder
	scan := bufio.NewScanner(resp.Body)
	scan.Buffer(nil, 1<<20)
	for scan.Scan() {
		b.Write(scan.Bytes())
	}
	return problemOf(req, resp.StatusCode, []byte(b.String()))
}

// StreamProblem is the last line of a stream that ends by an error.
type StreamProblem struct {
	Problem *Problem `json:"problem"`
}

func lineProblem(path string, line []byte) error {
	var s StreamProblem
	if err := json.Unmarshal(line, &s); err != nil || s.Problem == nil {
		return fmt.Errorf("%s: %w", path, ErrAnswer)
	}
	return s.Problem
}
