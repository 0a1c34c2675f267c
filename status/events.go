package status

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/realtime"
	"github.com/skein-project/skein/status/door"
	"github.com/skein-project/skein/status/query"
	"github.com/skein-project/skein/status/stream"
)

// ownEvents tells the events that are about somebody's own jobs, and of those about no
// job the ones that name the user. It may be called while watchers wait.
func ownEvents(b JobControl, who string) func(event.Event) bool {
	own := map[job.ID]bool{} // were seen to begin: they may be here before the state knows them
	return func(e event.Event) bool {
		var about struct {
			Job   job.ID `json:"job"`
			Owner string `json:"owner"`
			Actor string `json:"actor"`
		}
		if json.Unmarshal(e.Body, &about) != nil {
			return false
		}
		if about.Job == "" {
			actor, _, _ := strings.Cut(about.Actor, "@")
			return about.Owner == who || actor == who
		}
		if e.Kind == event.KindJobSubmitted && about.Owner == who {
			own[about.Job] = true
		}
		return own[about.Job] || b.JobOwner(about.Job) == who
	}
}

// events sends events, and goes on if asked to.
func (hs *handlers) events(w http.ResponseWriter, r *http.Request) error {
	q, err := query.Parse(r, hs.backend.Header().ObservedAt)
	if err != nil {
		return err
	}
	if text := r.Header.Get("Last-Event-ID"); text != "" && stream.WantsSSE(r) {
		q.After = nil // it has gone on since
		if err := q.ReadAfter(text); err != nil {
			return api.Errorf(api.CodeInvalidRequest, "Last-Event-ID: %s", err)
		}
	}
	if err := hs.knownHosts(q); err != nil {
		return err
	}
	only := door.Of(r.Context()).Only
	if err := findAbout(hs.backend, r, &q); err != nil {
		return err
	}
	if only != "" {
		q.Own = ownEvents(hs.backend, only)
	}
	return hs.followers.Serve(hs.places, w, r, func(ctx context.Context, out *stream.Writer) error {
		es := eventStream{hs: hs, out: out, q: q, at: q.After.Clone(), left: q.Limit}
		return es.run(ctx)
	})
}

// findAbout finds the job that events are asked about.
func findAbout(b JobControl, r *http.Request, q *query.Query) error {
	if q.About.Job == "" {
		return nil
	}
	only := door.Of(r.Context()).Only
	id, err := b.FindJob(r.Context(), q.About.Job, only)
	switch p, ok := errors.AsType[*api.Problem](err); {
	case err == nil:
		q.About.Job = string(id)
	case !ok || p.Code != api.CodeNotFound || only != "": // the log knows more jobs than the state does
		return err
	}
	return nil
}

// knownHosts refuses names of hosts that never were.
func (hs *handlers) knownHosts(q query.Query) error {
	for _, n := range [...]cluster.NodeID{q.Node, cluster.NodeID(q.About.Member), cluster.NodeID(q.About.Worker)} {
		if n != "" && !hs.backend.Knows(n) {
			return api.Errorf(api.CodeNotFound, "no host %s: it is no member, and the log has no event of it", n).WithHint("see `skein members --all`")
		}
	}
	return nil
}

// eventStream serves one reader of events.
type eventStream struct {
	hs   *handlers
	out  *stream.Writer
	q    query.Query
	at   api.Cursor // all up to it was sent, or is not selected
	left uint64     // of the limit
}

func (es *eventStream) run(ctx context.Context) error {
	b := es.hs.backend
	if es.q.Tail > 0 {
		if err := es.tail(ctx); err != nil || !es.q.Follow {
			return err
		}
	}
	if len(es.at) == 0 {
		es.at = b.Oldest().Clone()
		if len(es.at) > 0 && es.q.Positions {
			if err := es.out.Line(api.StreamPosition{Cursor: es.at.String(), Compacted: true}); err != nil {
				return err
			}
		}
	}
	for {
		changed := b.Changed() // before the look, so that nothing is missed
		err := es.send(ctx)
		if errors.Is(err, api.ErrStop) || err == nil && !es.q.Follow {
			return es.alive(es.q.Positions)
		}
		if err != nil {
			return err
		}
		did, err := es.hs.followers.Wait(ctx, changed, nil, eventsMin, keepalive)
		if err != nil {
			return err
		}
		if !did {
			if err := es.alive(true); err != nil {
				return err
			}
		}
	}
}

// tail sends the last events.
func (es *eventStream) tail(ctx context.Context) error {
	h := es.hs.backend.Header()
	now := h.ObservedAt
	if !es.q.Until.IsZero() {
		now = es.q.Until
	}
	list, at, err := realtime.Last(ctx, es.hs.backend, int(es.q.Tail), es.q.Since, now, es.q.About, //nolint:gosec // at most MaxTail
		func(e *event.Event) bool { return es.q.Match(*e) })
	if err != nil {
		return err
	}
	for _, e := range list {
		if err := es.out.Write(apiEvent(e, h)); err != nil {
			return err
		}
	}
	es.at = at
	if err := es.out.Flush(); err != nil {
		return err
	}
	return es.alive(es.q.Positions)
}

// send sends what there is. It returns api.ErrStop at the limit.
func (es *eventStream) send(ctx context.Context) error {
	h := es.hs.backend.Header()
	for e, err := range es.hs.backend.Events(ctx, es.at, es.q.Since, es.q.About) {
		if err != nil {
			return err
		}
		if !es.q.Match(e) {
			if err := es.soon(); err != nil {
				return err
			}
			continue
		}
		es.identify()
		if err := es.out.Write(apiEvent(e, h)); err != nil {
			return err
		}
		if err := es.soon(); err != nil {
			return err
		}
		if es.left > 0 {
			if es.left--; es.left == 0 {
				return api.ErrStop
			}
		}
	}
	if err := es.out.Flush(); err != nil {
		return err
	}
	return ctx.Err()
}

// soon lets nothing that was written lie for long, and says now and then that
// the search goes on.
func (es *eventStream) soon() error {
	switch now := time.Now(); {
	case now.Sub(es.out.Last) > keepalive:
		return es.alive(true)
	case now.Sub(es.out.Flushed) > eventsMin:
		return es.out.Flush()
	}
	return nil
}

// alive sends a line that is no event: how far the reader is, if it wants to
// know, or an empty one.
func (es *eventStream) alive(send bool) error {
	switch {
	case !send:
		return nil
	case es.q.Positions:
		es.identify()
		return es.out.Line(api.StreamPosition{Cursor: es.at.String()})
	}
	return es.out.Line(nil)
}

// identify gives the next line of server-sent events its position, by which a browser
// goes on, unless that is long beside it.
func (es *eventStream) identify() {
	const many = 64
	if es.out.SSE && len(es.at) <= many {
		es.out.ID = es.at.String()
	}
}

func apiEvent(e event.Event, h api.Header) api.Event {
	body := e.Body
	if len(body) == 0 {
		body = json.RawMessage("{}")
	}
	return api.Event{
		Header: h, Source: e.Source, Seq: e.Seq, Time: e.HLC.Time(), HLC: e.HLC,
		Term: e.Term, Kind: e.Kind, Body: body, Prev: e.Prev, Hash: e.Hash,
	}
}
