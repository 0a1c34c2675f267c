package status

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"path"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
)

// Pace of followers.
const (
	watchMin   = 200 * time.Millisecond // between two snapshots of a job
	watchMax   = time.Second            // rate and time left change by themselves
	eventsMin  = 50 * time.Millisecond
	keepalive  = 5 * time.Second // an empty line, a third of what clients bear
	eventBatch = 512
)

// follower writes lines to one reader.
type follower struct {
	w    http.ResponseWriter
	rc   *http.ResponseController
	path string
}

// follow admits a follower and runs f for it. Once the first byte is out,
// errors travel as the last line.
func (s *Server) follow(w http.ResponseWriter, r *http.Request, f func(ctx context.Context, out *follower) error) error {
	select {
	case s.followers <- struct{}{}:
		defer func() { <-s.followers }()
	default:
		return api.Errorf(api.CodeOverloaded, "%d followers are served already", cap(s.followers))
	}
	s.metrics.followers.Inc()
	defer s.metrics.followers.Dec()
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	out := &follower{w: w, rc: http.NewResponseController(w), path: r.URL.Path}
	w.Header().Set("Content-Type", "application/x-ndjson")
	w.Header().Set("Cache-Control", "no-store")
	err := f(ctx, out)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, os.ErrDeadlineExceeded):
		s.metrics.cut.WithLabelValues(cutSlow).Inc()
		s.log.Debug().Str("request", out.path).Msg("slow follower cut")
		return nil
	case r.Context().Err() != nil:
		return nil // the reader went away
	case errors.Is(err, errStopping):
		s.metrics.cut.WithLabelValues(cutStop).Inc()
	}
	p := asProblem(err)
	p.Header = s.o.Backend.Header()
	_ = out.line(api.StreamProblem{Problem: p}) // the reader may be gone
	return nil
}

var errStopping = api.Errorf(api.CodeNotReady, "the daemon stops")

// line writes one line, or an empty one for nil, and flushes it.
func (f *follower) line(v any) error {
	var text []byte
	if v != nil {
		var err error
		if text, err = json.Marshal(v); err != nil {
			return err
		}
	}
	_ = f.rc.SetWriteDeadline(time.Now().Add(stallTimeout)) // not possible on a test recorder
	if _, err := f.w.Write(append(text, '\n')); err != nil {
		return err
	}
	return f.rc.Flush()
}

// wait returns after changed is closed, but not before least and not after
// most. It reports whether something changed.
func (s *Server) wait(ctx context.Context, changed <-chan struct{}, least, most time.Duration) (bool, error) {
	began := time.Now()
	timer := time.NewTimer(most)
	defer timer.Stop()
	did := false
	for {
		select {
		case <-ctx.Done():
			return false, ctx.Err()
		case <-s.stopping:
			return false, errStopping
		case <-timer.C:
			return did, nil
		case <-changed:
			rest := least - time.Since(began)
			if rest <= 0 {
				return true, nil
			}
			did, changed = true, nil
			timer.Reset(rest)
		}
	}
}

// watchJob sends snapshots of a job until it is final.
func (s *Server) watchJob(w http.ResponseWriter, r *http.Request) error {
	id, err := s.jobID(r)
	if err != nil {
		return err
	}
	if _, err := s.o.Backend.Job(r.Context(), id); err != nil {
		return err
	}
	return s.follow(w, r, func(ctx context.Context, out *follower) error {
		for {
			changed := s.o.Backend.Changed() // before the look, so that nothing is missed
			job, err := s.o.Backend.Job(ctx, id)
			if err != nil {
				return err
			}
			if err := out.line(complete(job, s.o.Backend.Header())); err != nil || job.State.Final() {
				return err
			}
			if _, err := s.wait(ctx, changed, watchMin, watchMax); err != nil {
				return err
			}
		}
	})
}

// events sends events, and goes on if asked to.
func (s *Server) events(w http.ResponseWriter, r *http.Request) error {
	q, err := parseEventQuery(r, s.o.Backend.Header().ObservedAt)
	if err != nil {
		return err
	}
	return s.follow(w, r, func(ctx context.Context, out *follower) error {
		for {
			changed := s.o.Backend.Changed()
			more, err := s.sendEvents(ctx, out, &q)
			if err != nil {
				return err
			}
			if more {
				continue
			}
			if !q.Follow {
				return nil
			}
			did, err := s.wait(ctx, changed, eventsMin, keepalive)
			if err != nil {
				return err
			}
			if !did {
				if err := out.line(nil); err != nil {
					return err
				}
			}
		}
	})
}

// sendEvents sends one batch and reports whether there may be more at once.
func (s *Server) sendEvents(ctx context.Context, out *follower, q *api.EventQuery) (bool, error) {
	list, err := s.o.Backend.Events(ctx, q.After, q.Since, eventBatch)
	if err != nil {
		return false, err
	}
	h := s.o.Backend.Header()
	for _, e := range list {
		line := apiEvent(e, h)
		q.After.Advance(line)
		if q.Node != "" && e.Source.Node != q.Node || !kindMatches(q.Kind, e.Kind) {
			continue
		}
		if err := out.line(line); err != nil {
			return false, err
		}
	}
	return len(list) >= eventBatch, ctx.Err()
}

func apiEvent(e cluster.Event, h api.Header) api.Event {
	body := e.Body
	if len(body) == 0 {
		body = json.RawMessage("{}")
	}
	return api.Event{
		Header: h, Source: e.Source, Seq: e.Seq, Time: e.HLC.Time(), HLC: e.HLC,
		Term: e.Term, Kind: e.Kind, Body: body, Hash: e.Hash,
	}
}

func kindMatches(pattern string, kind cluster.Kind) bool {
	if pattern == "" {
		return true
	}
	ok, err := path.Match(pattern, string(kind))
	return ok && err == nil
}

// parseEventQuery reads the query; since is a time or an age like 10m.
func parseEventQuery(r *http.Request, now time.Time) (api.EventQuery, error) {
	bad := func(format string, args ...any) (api.EventQuery, error) {
		return api.EventQuery{}, api.Errorf(api.CodeInvalidRequest, format, args...)
	}
	q := api.EventQuery{After: api.Cursor{}}
	for name, values := range r.URL.Query() {
		v := values[0]
		switch name {
		case "since":
			if age, err := time.ParseDuration(v); err == nil && age >= 0 {
				q.Since = now.Add(-age)
			} else if q.Since, err = time.Parse(time.RFC3339, v); err != nil {
				return bad("since: %q is neither an age like 10m nor a time in RFC 3339 form", v)
			}
		case "kind":
			if _, err := path.Match(v, ""); err != nil || len(v) > 64 {
				return bad("kind: %.64q is not a pattern", v)
			}
			q.Kind = v
		case "node":
			id, err := cluster.ParseNodeID(v)
			if err != nil {
				return bad("node: %s", err)
			}
			q.Node = id
		case "follow":
			switch v {
			case "true", "1", "":
				q.Follow = true
			case "false", "0":
			default:
				return bad("follow: %q is neither true nor false", v)
			}
		case "after":
			after, err := api.ParseCursor(v)
			if err != nil {
				return bad("after: %s", err)
			}
			q.After = after
		default:
			return bad("unknown parameter %q", name)
		}
	}
	return q, nil
}
