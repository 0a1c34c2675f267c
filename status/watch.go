package status

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"os"

	"github.com/skein-project/skein/access"
	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/realtime"
	"github.com/skein-project/skein/realtime/delta"
	"github.com/skein-project/skein/status/door"
	"github.com/skein-project/skein/status/openapi"
	"github.com/skein-project/skein/status/query"
	"github.com/skein-project/skein/status/stream"
	"github.com/skein-project/skein/status/workflows"
)

// watch sends snapshots of topics, what changes in them, and the log.
func (hs *handlers) watch(w http.ResponseWriter, r *http.Request) error {
	req, err := hs.parseWatch(r)
	if err != nil {
		return err
	}
	return hs.followers.Serve(hs.watches, w, r, func(ctx context.Context, out *stream.Writer) error {
		// The stream ends with its connection: chunks would break each write in two.
		w.Header().Set("Transfer-Encoding", "identity")
		watch := hs.hub.Watch(req)
		defer watch.Close()
		ws := watchStream{out: out, form: req.Form}
		for {
			list, err := watch.Next(ctx)
			if err == nil {
				err = ws.send(list)
			}
			switch {
			case err == nil:
				continue
			case errors.Is(err, os.ErrDeadlineExceeded):
				return err
			case stream.Ended(r.Context()) != nil:
				err = stream.Ended(r.Context())
			case r.Context().Err() != nil:
				return err
			case errors.Is(err, realtime.ErrStopped):
				err = stream.ErrStopping
				hs.followers.Cut.WithLabelValues(stream.CutStop).Inc()
			}
			ws.bye(asProblem(err), hs.backend.Header())
			return nil
		}
	})
}

// watchStream writes one watch.
type watchStream struct {
	out  *stream.Writer
	form delta.Form
	buf  []byte
}

// large is what is not copied to be written with what stands beside it.
const large = 16 << 10

// send writes messages, or that there is none. What is large goes out as it is, in a
// write of its own: others read the same bytes.
func (ws *watchStream) send(list []realtime.Message) error {
	ws.buf = ws.buf[:0]
	if len(list) == 0 {
		ws.buf = append(ws.buf, '\n')
		if ws.out.SSE {
			ws.buf = append(ws.buf[:0], stream.SSEComment...)
		}
	}
	for _, m := range list {
		switch {
		case m.ID != "":
			ws.buf = ws.form.AppendID(ws.buf, m.ID, m.Text)
		case len(m.Text) < large:
			ws.buf = append(ws.buf, m.Text...)
		default:
			if err := ws.flush(); err != nil {
				return err
			}
			if err := ws.out.Send(m.Text); err != nil {
				return err
			}
		}
		if len(ws.buf) >= large {
			if err := ws.flush(); err != nil {
				return err
			}
		}
	}
	if err := ws.flush(); err != nil {
		return err
	}
	if cap(ws.buf) > 2*large { // a position with a large message: comes once a second at most
		ws.buf = nil
	}
	return ws.out.Flush()
}

// flush writes what was gathered.
func (ws *watchStream) flush() error {
	err := ws.out.Send(ws.buf)
	ws.buf = ws.buf[:0]
	return err
}

// bye ends the stream; the reader may be gone.
func (ws *watchStream) bye(p *api.Problem, h api.Header) {
	p.Header = h
	text, err := json.Marshal(api.WatchBye{Problem: p, RetryAfterSeconds: p.RetryAfterSeconds})
	if err == nil {
		_ = ws.send([]realtime.Message{{Text: ws.form.Write(delta.Bye, text)}})
	}
}

var watchParams = []openapi.Param{
	{Name: "topics", Type: "", About: "what to show, with commas; without it, all but links and events"},
	{Name: "job", Type: []string{}, About: "also this job, by its id, part of it, or its name"},
	{Name: "workflow", Type: []string{}, About: "also this run of a workflow with its steps, by its id, part of it, or its name"},
	{Name: "load", Type: []string{}, About: "also this load test with all that it counts, by its id, part of it, or its name"},
	{Name: "link", Type: []string{}, About: "also all half-edges of this host"},
	{Name: "Last-Event-ID", Header: true, Type: "", About: "the last id that came: go on behind it"},
}

// parseWatch reads the query.
func (hs *handlers) parseWatch(r *http.Request) (realtime.Request, error) {
	h := hs.backend.Header()
	p := door.Of(r.Context())
	req := realtime.Request{MayChange: p.Role == access.Operator, Cluster: hs.o.Cluster}
	if stream.WantsSSE(r) {
		req.Form = delta.ServerSent
	}
	if p.Only != "" {
		req.May = func(_, owner string) bool { return owner == p.Only }
	}
	values := r.URL.Query()
	topics, err := realtime.ParseTopics(values.Get("topics"))
	if err != nil {
		return req, api.Errorf(api.CodeInvalidRequest, "topics: %s", err)
	}
	req.Topics = topics
	for _, text := range values["job"] {
		id, err := job.ParseID(text)
		if err != nil {
			if id, err = hs.backend.FindJob(r.Context(), text, p.Only); err != nil {
				return req, err
			}
		}
		if prob := hs.answers.door.Own(p, id); prob != nil {
			return req, prob
		}
		req.Topics = append(req.Topics, realtime.JobTopic(id))
	}
	for _, text := range values["workflow"] {
		id, err := workflows.Find(hs.backend, text, p.Only)
		if err != nil {
			return req, err
		}
		req.Topics = append(req.Topics, realtime.RunTopic(id))
	}
	for _, text := range values["load"] {
		id, err := hs.backend.FindLoad(text, p.Only)
		if err != nil {
			return req, err
		}
		req.Topics = append(req.Topics, realtime.LoadTopic(id))
	}
	for _, text := range values["link"] {
		node, err := cluster.ParseNodeID(text)
		if err != nil {
			return req, api.Errorf(api.CodeInvalidRequest, "link: %s", err)
		}
		if err := hs.knownHosts(query.Query{EventQuery: api.EventQuery{Node: node}}); err != nil {
			return req, err
		}
		req.Topics = append(req.Topics, realtime.LinksTopic(node))
	}
	if len(req.Topics) > realtime.MaxTopics {
		return req, api.Errorf(api.CodeInvalidRequest, "%d topics, at most %d are allowed", len(req.Topics), realtime.MaxTopics)
	}
	var q query.Query
	for name, list := range values {
		switch name {
		case "topics", "job", "workflow", "load", "link":
			continue
		default:
			err = q.Set(name, list[0], h.ObservedAt)
		}
		if err == nil && !req.Has(realtime.TopicEvents) {
			err = api.Errorf(api.CodeInvalidRequest, "%s is about events, which are not among the topics", name)
		}
		if p, ok := errors.AsType[*api.Problem](err); ok {
			return req, p
		}
		if err != nil {
			return req, api.Errorf(api.CodeInvalidRequest, "%s: %s", name, err)
		}
	}
	return req, hs.selectEvents(&req, q, r)
}

// selectEvents says which events, and from where on.
func (hs *handlers) selectEvents(req *realtime.Request, q query.Query, r *http.Request) error {
	if err := hs.knownHosts(q); err != nil {
		return err
	}
	if !hs.ours(q.After) {
		return api.Errorf(api.CodeInvalidRequest, "after: no host of this cluster is in the cursor")
	}
	if q.Tail > 0 && q.After != nil {
		return api.Errorf(api.CodeInvalidRequest, "tail: it begins at the end, and goes with no cursor to go on behind")
	}
	if err := findAbout(hs.backend, r, &q); err != nil {
		return err
	}
	req.After, req.Since, req.About, req.Tail = q.After, q.Since, q.About, int(q.Tail) //nolint:gosec // at most query.MaxTail
	only := door.Of(r.Context()).Only
	if only != "" {
		q.Own = ownEvents(hs.backend, only)
	}
	if q.Kind != "" || q.Node != "" || q.About != (event.Subject{}) || q.Entity != "" || only != "" {
		req.Match = func(e *event.Event) bool { return q.Match(*e) }
		text, err := json.Marshal([]any{q.Kind, q.Node, q.About, q.Entity, only})
		if err != nil {
			return err
		}
		req.Selected = string(text)
	}
	text := r.Header.Get("Last-Event-ID")
	if text == "" {
		return nil
	}
	// A browser sends a position that is none again and again: it is told
	// everything anew instead of being refused.
	p, err := delta.ParsePosition(text)
	if err != nil || !hs.ours(p.Cursor) {
		p = delta.Position{}
	}
	req.Position = &p
	return nil
}

// ours reports whether a cursor may be of this cluster: hosts of others are not
// known here.
func (hs *handlers) ours(at api.Cursor) bool {
	for s := range at {
		if hs.backend.Knows(s.Node) {
			return true
		}
	}
	return len(at) == 0
}
