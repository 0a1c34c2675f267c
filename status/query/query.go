package query

import (
	"bytes"
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
	"github.com/skein-project/skein/status/openapi"
)

// MaxTail bounds the events that are looked for from the end.
const MaxTail = 10_000

// Query is what a request of events asks for.
type Query struct {
	api.EventQuery
	Kinds     []string               // patterns, any of them; none: all
	Own       func(event.Event) bool // nil: all that there is
	term      uint64                 // that an event is of or names; 0: any
	onion     string                 // an address that it names; empty: any
	Positions bool                   // lines of api.StreamPosition between the events
}

// Match reports whether an event is asked for.
func (q Query) Match(e event.Event) bool {
	if q.Node != "" && e.Source.Node != q.Node {
		return false
	}
	if len(q.Kinds) > 0 && !slices.ContainsFunc(q.Kinds, func(pattern string) bool {
		ok, err := path.Match(pattern, string(e.Kind))
		return ok && err == nil
	}) {
		return false
	}
	if !q.Until.IsZero() && e.HLC.Time().After(q.Until) || q.Before != nil && e.Seq > q.Before[e.Source] || !q.names(&e) {
		return false
	}
	return q.About.Match(&e) && (q.Own == nil || q.Own(e))
}

// Params say which events, from where on; FollowParams how they come.
var (
	Params = []openapi.Param{
		{Name: "since", Type: "", About: "from then on: a time, a date, a duration ago, or a cursor"},
		{Name: "kind", Type: "", About: "of these kinds: names or patterns, with commas"},
		{Name: "node", Type: "", About: "of the chain of this host"},
		{Name: "member", Type: "", About: "about this member"},
		{Name: "worker", Type: "", About: "about this worker"},
		{Name: "user", Type: "", About: "about this user, uid or host as who asks"},
		{Name: "after", Type: "", About: "a cursor: go on behind it"},
		{Name: "tail", Type: uint64(0), About: "begin with the last so many, at most 10000"},
		{Name: "entity", Type: "", About: "about this: node:NAME, job:ID, run:ID, term:N, actor:USER or onion:ADDRESS"},
	}
	FollowParams = []openapi.Param{
		{Name: "follow", Type: false, About: "go on with what happens"},
		{Name: "job", Type: "", About: "about this job, by its id"},
		{Name: "positions", Type: false, About: "tell also how far the stream is, where nothing was selected"},
		{Name: "until", Type: "", About: "not after then: a time, a date, or a duration ago"},
		{Name: "before", Type: "", About: "a cursor: only what stands before it"},
		{Name: "limit", Type: uint64(0), About: "at most so many"},
	}
)

// Parse reads the query.
func Parse(r *http.Request, now time.Time) (Query, error) {
	var q Query
	bad := func(format string, args ...any) (Query, error) {
		return Query{}, api.Errorf(api.CodeInvalidRequest, format, args...)
	}
	for name, values := range r.URL.Query() {
		v := values[0]
		err := q.Set(name, v, now)
		if p, ok := errors.AsType[*api.Problem](err); ok {
			return Query{}, p
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

// Set reads one parameter.
func (q *Query) Set(name, v string, now time.Time) (err error) {
	switch name {
	case "since":
		err = q.since(v, now)
	case "kind":
		q.Kinds, err = api.ParseKinds(v)
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
		q.Follow, err = Flag(v)
	case "positions":
		q.Positions, err = Flag(v)
	case "limit":
		q.Limit, err = strconv.ParseUint(v, 10, 63)
		if err != nil || q.Limit == 0 {
			return fmt.Errorf("%.32q is not a number above 0", v)
		}
	case "after":
		err = q.ReadAfter(v)
	case "tail":
		q.Tail, err = strconv.ParseUint(v, 10, 63)
		if err != nil || q.Tail == 0 || q.Tail > MaxTail {
			return fmt.Errorf("%.32q is not a number from 1 to %d", v, MaxTail)
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
func (q *Query) since(v string, now time.Time) error {
	at, cursor, err := api.ParseSince(v, now)
	switch {
	case err != nil:
		return err
	case cursor != nil:
		return q.ReadAfter(v)
	}
	q.Since = at
	return nil
}

// entity reads what events are about, as "job:ID".
func (q *Query) entity(v string) (err error) {
	q.Entity = v
	kind, name, _ := strings.Cut(v, ":")
	switch kind {
	case "node":
		err = about(&q.About.Member, name)
	case "job":
		err = about(&q.About.Job, name)
	case "run":
		err = about(&q.About.Run, name)
	case "actor":
		err = about(&q.About.User, name)
	case "term":
		if q.term, err = strconv.ParseUint(name, 10, 63); err == nil && q.term == 0 {
			err = errors.New("terms begin at 1")
		}
	case "onion":
		err = about(&q.onion, name)
	default:
		err = fmt.Errorf("%.32q: want node:, job:, run:, term:, actor: or onion: and a name", v)
	}
	return err
}

// names reports whether an event is of a term and names an onion address.
func (q *Query) names(e *event.Event) bool {
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

// ReadAfter reads where to go on.
func (q *Query) ReadAfter(v string) error {
	if q.After != nil {
		return errors.New("two cursors")
	}
	var err error
	q.After, err = event.ParseCursor(v)
	return err
}

// FlagOf reads a parameter that is true or false; without it it is false.
func FlagOf(r *http.Request, name string) (bool, error) {
	q := r.URL.Query()
	if !q.Has(name) {
		return false, nil
	}
	on, err := Flag(q.Get(name))
	if err != nil {
		return false, api.Errorf(api.CodeInvalidRequest, "%s: %s", name, err)
	}
	return on, nil
}

// Flag reads true or false; empty: true.
func Flag(v string) (bool, error) {
	switch v {
	case "true", "1", "":
		return true, nil
	case "false", "0":
		return false, nil
	}
	return false, fmt.Errorf("%.16q is neither true nor false", v)
}
