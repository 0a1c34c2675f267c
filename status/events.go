package status

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/realtime"
	"github.com/skein-project/skein/status/door"
	"github.com/skein-project/skein/status/openapi"
)

// eventQuery is what a request of events asks for.
type eventQuery struct {
	api.EventQuery
	kinds     []string               // patterns, any of them; none: all
	own       func(event.Event) bool // nil: all that there is
	term      uint64                 // that an event is of or names; 0: any
	onion     string                 // an address that it names; empty: any
	positions bool                   // lines of api.StreamPosition between the events
}

func (q eventQuery) match(e event.Event) bool {
	if q.Node != "" && e.Source.Node != q.Node {
		return false
	}
	if len(q.kinds) > 0 && !slices.ContainsFunc(q.kinds, func(pattern string) bool {
		ok, err := path.Match(pattern, string(e.Kind))
		return ok && err == nil
	}) {
		return false
	}
	if !q.Until.IsZero() && e.HLC.Time().After(q.Until) || q.Before != nil && e.Seq > q.Before[e.Source] || !q.names(&e) {
		return false
	}
	return q.About.Match(&e) && (q.own == nil || q.own(e))
}

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
	q, err := parseEventQuery(r, hs.backend.Header().ObservedAt)
	if err != nil {
		return err
	}
	if text := r.Header.Get("Last-Event-ID"); text != "" && wantsSSE(r) {
		q.After = nil // it has gone on since
		if err := q.after(text); err != nil {
			return api.Errorf(api.CodeInvalidRequest, "Last-Event-ID: %s", err)
		}
	}
	if err := hs.knownHosts(q); err != nil {
		return err
	}
	only := door.Of(r.Context()).Only
	if err := hs.findAbout(r, &q); err != nil {
		return err
	}
	if only != "" {
		q.own = ownEvents(hs.backend, only)
	}
	return hs.followers.follow(w, r, func(ctx context.Context, out *follower) error {
		es := eventStream{hs: hs, out: out, q: q, at: q.After.Clone(), left: q.Limit}
		return es.run(ctx)
	})
}

// findAbout finds the job that events are asked about.
func (hs *handlers) findAbout(r *http.Request, q *eventQuery) error {
	if q.About.Job == "" {
		return nil
	}
	only := door.Of(r.Context()).Only
	id, err := hs.backend.FindJob(r.Context(), q.About.Job, only)
	switch p, ok := errors.AsType[*api.Problem](err); {
	case err == nil:
		q.About.Job = string(id)
	case !ok || p.Code != api.CodeNotFound || only != "": // the log knows more jobs than the state does
		return err
	}
	return nil
}

// knownHosts refuses names of hosts that never were.
func (hs *handlers) knownHosts(q eventQuery) error {
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
	out  *follower
	q    eventQuery
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
		if len(es.at) > 0 && es.q.positions {
			if err := es.out.line(api.StreamPosition{Cursor: es.at.String(), Compacted: true}); err != nil {
				return err
			}
		}
	}
	for {
		changed := b.Changed() // before the look, so that nothing is missed
		err := es.send(ctx)
		if errors.Is(err, api.ErrStop) || err == nil && !es.q.Follow {
			return es.alive(es.q.positions)
		}
		if err != nil {
			return err
		}
		did, err := es.hs.followers.wait(ctx, changed, nil, eventsMin, keepalive)
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
		func(e *event.Event) bool { return es.q.match(*e) })
	if err != nil {
		return err
	}
	for _, e := range list {
		if err := es.out.write(apiEvent(e, h)); err != nil {
			return err
		}
	}
	es.at = at
	if err := es.out.flush(); err != nil {
		return err
	}
	return es.alive(es.q.positions)
}

// send sends what there is. It returns api.ErrStop at the limit.
func (es *eventStream) send(ctx context.Context) error {
	h := es.hs.backend.Header()
	for e, err := range es.hs.backend.Events(ctx, es.at, es.q.Since, es.q.About) {
		if err != nil {
			return err
		}
		if !es.q.match(e) {
			if err := es.soon(); err != nil {
				return err
			}
			continue
		}
		es.identify()
		if err := es.out.write(apiEvent(e, h)); err != nil {
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
	if err := es.out.flush(); err != nil {
		return err
	}
	return ctx.Err()
}

// soon lets nothing that was written lie for long, and says now and then that
// the search goes on.
func (es *eventStream) soon() error {
	switch now := time.Now(); {
	case now.Sub(es.out.last) > keepalive:
		return es.alive(true)
	case now.Sub(es.out.flushed) > eventsMin:
		return es.out.flush()
	}
	return nil
}

// alive sends a line that is no event: how far the reader is, if it wants to
// know, or an empty one.
func (es *eventStream) alive(send bool) error {
	switch {
	case !send:
		return nil
	case es.q.positions:
		es.identify()
		return es.out.line(api.StreamPosition{Cursor: es.at.String()})
	}
	return es.out.line(nil)
}

// identify gives the next line of server-sent events its position, by which a browser
// goes on, unless that is long beside it.
func (es *eventStream) identify() {
	const many = 64
	if es.out.sse && len(es.at) <= many {
		es.out.id = es.at.String()
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

// eventParams say which events, from where on; followParams how they come.
var (
	eventParams = []openapi.Param{
		{Name: "since", Type: "", About: "from then on: a time, a date, a duration ago, or a cursor"},
		{Name: "kind", Type: "", About: "of these kinds: names or patterns, with commas"},
		{Name: "node", Type: "", About: "of the chain of this host"},
		{Name: "member", Type: "", About: "about this member"},
		{Name: "worker", Type: "", About: "about this worker"},
		{Name: "user", Type: "", About: "about this user, uid or host as who asks"},
		{Name: "after", Type: "", About: "a cursor: go on behind it"},
		{Name: "tail", Type: uint64(0), About: "begin with the last so many, at most 10000"},
		{Name: "entity", Type: "", About: "about this: node:NAME, job:ID, term:N, actor:USER or onion:ADDRESS"},
	}
	followParams = []openapi.Param{
		{Name: "follow", Type: false, About: "go on with what happens"},
		{Name: "job", Type: "", About: "about this job, by its id"},
		{Name: "positions", Type: false, About: "tell also how far the stream is, where nothing was selected"},
		{Name: "until", Type: "", About: "not after then: a time, a date, or a duration ago"},
		{Name: "before", Type: "", About: "a cursor: only what stands before it"},
		{Name: "limit", Type: uint64(0), About: "at most so many"},
	}
)

// parseEventQuery reads the query.
func parseEventQuery(r *http.Request, now time.Time) (eventQuery, error) {
	var q eventQuery
	bad := func(format string, args ...any) (eventQuery, error) {
		return eventQuery{}, api.Errorf(api.CodeInvalidRequest, format, args...)
	}
	for name, values := range r.URL.Query() {
		v := values[0]
		err := q.set(name, v, now)
		if p, ok := errors.AsType[*api.Problem](err); ok {
			return eventQuery{}, p
		}
		if err != nil {
			return bad("%s: %s", name, err)
		}
	}
	switch {
	case q.Tail > 0 && (q.Limit > 0 || q.After != nil):
		return bad("tail: it begins at the end, and goes with neither limit nor a cursor to go on behind")
	case q.Follow && (q.Before != nil || !q.Until.IsZero()):
		return bad("follow: what comes is after until and before")
	}
	return q, nil
}

// set reads one parameter.
func (q *eventQuery) set(name, v string, now time.Time) (err error) {
	switch name {
	case "since":
		err = q.since(v, now)
	case "kind":
		q.kinds, err = api.ParseKinds(v)
		q.Kind = v
	case "node":
		q.Node, err = cluster.ParseNodeID(v)
	case "job":
		err = about(&q.About.Job, v)
	case "member":
		err = about(&q.About.Member, v)
	case "worker":
		err = about(&q.About.Worker, v)
	case "user":
		err = about(&q.About.User, v)
	case "follow":
		q.Follow, err = parseFlag(v)
	case "positions":
		q.positions, err = parseFlag(v)
	case "limit":
		q.Limit, err = strconv.ParseUint(v, 10, 63)
		if err != nil || q.Limit == 0 {
			return fmt.Errorf("%.32q is not a number above 0", v)
		}
	case "after":
		err = q.after(v)
	case "tail":
		q.Tail, err = strconv.ParseUint(v, 10, 63)
		if err != nil || q.Tail == 0 || q.Tail > realtime.MaxTail {
			return fmt.Errorf("%.32q is not a number from 1 to %d", v, realtime.MaxTail)
		}
	case "entity":
		err = q.entity(v)
	case "until":
		var cursor api.Cursor
		if q.Until, cursor, err = api.ParseSince(v, now); err == nil && cursor != nil {
			err = errors.New("want a time; a position is said as before")
		}
	case "before":
		q.Before, err = event.ParseCursor(v)
	}
	return err
}

// since reads what api.ParseSince does.
func (q *eventQuery) since(v string, now time.Time) error {
	at, cursor, err := api.ParseSince(v, now)
	switch {
	case err != nil:
		return err
	case cursor != nil:
		return q.after(v)
	}
	q.Since = at
	return nil
}

// entity reads what events are about, as "job:ID".
func (q *eventQuery) entity(v string) (err error) {
	q.Entity = v
	kind, name, _ := strings.Cut(v, ":")
	switch kind {
	case "node":
		err = about(&q.About.Member, name)
	case "job":
		err = about(&q.About.Job, name)
	case "actor":
		err = about(&q.About.User, name)
	case "term":
		if q.term, err = strconv.ParseUint(name, 10, 63); err == nil && q.term == 0 {
			err = errors.New("terms begin at 1")
		}
	case "onion":
		err = about(&q.onion, name)
	default:
		err = fmt.Errorf("%.32q: want node:, job:, term:, actor: or onion: and a name", v)
	}
	return err
}

// names reports whether an event is of a term and names an onion address.
func (q *eventQuery) names(e *event.Event) bool {
	if q.term != 0 && uint64(e.Term) != q.term {
		var b struct {
			Term uint64 `json:"term"`
		}
		if json.Unmarshal(e.Body, &b) != nil || b.Term != q.term {
			return false
		}
	}
	return q.onion == "" || bytes.Contains(e.Body, []byte(`"`+q.onion+`"`))
}

// about reads a name that events are asked about.
func about(to *string, v string) error {
	if !cluster.Printable(v, cluster.MaxPrincipal) {
		return fmt.Errorf("want 1-%d printable ASCII characters without blanks", cluster.MaxPrincipal)
	}
	*to = v
	return nil
}

func (q *eventQuery) after(v string) error {
	if q.After != nil {
		return errors.New("two cursors")
	}
	var err error
	q.After, err = event.ParseCursor(v)
	return err
}

// flag reads a parameter that is true or false; without it it is false.
func flag(r *http.Request, name string) (bool, error) {
	q := r.URL.Query()
	if !q.Has(name) {
		return false, nil
	}
	on, err := parseFlag(q.Get(name))
	if err != nil {
		return false, api.Errorf(api.CodeInvalidRequest, "%s: %s", name, err)
	}
	return on, nil
}

func parseFlag(v string) (bool, error) {
	switch v {
	case "true", "1", "":
		return true, nil
	case "false", "0":
		return false, nil
	}
	return false, fmt.Errorf("%.16q is neither true nor false", v)
}
