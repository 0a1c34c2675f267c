package status

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/status/door"
	"github.com/skein-project/skein/status/openapi"
)

// freshTime bounds the wait for this host to know what a reader asks for.
const freshTime = 5 * time.Second

var freshParams = []openapi.Param{
	{Name: "min", Type: "", About: "a cursor: answer once this host has all up to it"},
	{Name: "consistency", Type: "", About: "strong: answer once this host has all that was acknowledged before; local, the default, does not wait"},
}

// freshness is what readers may ask of any answer: that it is not older than a
// position, or than all that was acknowledged before.
type freshness struct {
	positions Positions
	changed   func() <-chan struct{}
}

// await returns, once this host has what a request wants of its log, the request
// without those parameters.
func (f freshness) await(r *http.Request) (*http.Request, error) {
	q := r.URL.Query()
	if !q.Has("min") && !q.Has("consistency") || !strings.HasPrefix(r.URL.Path, "/v1/") {
		return r, nil
	}
	ctx, cancel := context.WithTimeout(r.Context(), freshTime)
	defer cancel()
	at, err := event.ParseCursor(q.Get("min"))
	if err != nil {
		return nil, api.Errorf(api.CodeInvalidRequest, "min: %s", err)
	}
	switch v := q.Get("consistency"); v {
	case "", "local":
	case "strong":
		agreed, err := f.positions.Agreed(ctx)
		if err != nil {
			return nil, err
		}
		for s, seq := range agreed {
			at.Advance(s, seq)
		}
	default:
		return nil, api.Errorf(api.CodeInvalidRequest, "consistency is %.32q, want local or strong", v)
	}
	for {
		changed := f.changed() // before the look, so that nothing is missed
		if f.positions.Has(at) {
			break
		}
		select {
		case <-changed:
		case <-ctx.Done():
			p := api.Errorf(api.CodeTimeout, "this host does not have all up to that position yet").
				WithHint("try again, or ask another host; `skein log heads` shows how far each is")
			p.RetryAfterSeconds = new(1.0)
			return nil, p
		}
	}
	q.Del("min")
	q.Del("consistency")
	fresh := r.WithContext(r.Context())
	u := *r.URL
	u.RawQuery = q.Encode()
	fresh.URL = &u
	return fresh, nil
}

// agreeTime bounds asking the holder where it is, after a change.
const agreeTime = time.Second

// after is the position behind a change that was carried out: what this host and
// the holder know now.
func (f freshness) after(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, agreeTime)
	defer cancel()
	at := f.positions.Cursor()
	if agreed, err := f.positions.Agreed(ctx); err == nil {
		for s, seq := range agreed {
			at.Advance(s, seq)
		}
	}
	return at.String()
}

// maxPage bounds a page of a list.
const maxPage = 1000

// jobs lists the jobs, or a page of them.
func (hs *handlers) jobs(r *http.Request) (api.Jobs, error) {
	limit, after, err := parsePage(r)
	if err != nil {
		return api.Jobs{}, err
	}
	list, err := hs.backend.Jobs(r.Context())
	if err != nil {
		return api.Jobs{}, err
	}
	if only := door.Of(r.Context()).Only; only != "" {
		list.Jobs = slices.DeleteFunc(list.Jobs, func(j api.Job) bool { return j.Owner != only })
	}
	if after != "" {
		i := 0
		for i < len(list.Jobs) && list.Jobs[i].ID != after {
			i++
		}
		if i == len(list.Jobs) {
			return api.Jobs{}, api.Errorf(api.CodeNotFound, "no job %s to go on after", after).WithHint("begin with the first page")
		}
		list.Jobs = list.Jobs[i+1:]
	}
	if limit > 0 && len(list.Jobs) > limit {
		list.Jobs, list.Next = list.Jobs[:limit], list.Jobs[limit-1].ID
	}
	return list, nil
}

var pageParams = []openapi.Param{
	{Name: "limit", Type: uint64(0), About: "at most so many; next then says how to go on"},
	{Name: "after", Type: "", About: "what next said"},
}

func parsePage(r *http.Request) (limit int, after job.ID, err error) {
	for name, values := range r.URL.Query() {
		switch name {
		case "limit":
			limit, err = strconv.Atoi(values[0])
			if err != nil || limit < 1 || limit > maxPage {
				return 0, "", api.Errorf(api.CodeInvalidRequest, "limit: %.32q is not a number from 1 to %d", values[0], maxPage)
			}
		case "after":
			if after, err = job.ParseID(values[0]); err != nil {
				return 0, "", api.Errorf(api.CodeInvalidRequest, "after: %s", err)
			}
		}
	}
	return limit, after, nil
}
