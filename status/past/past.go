package past

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/status/door"
	"github.com/skein-project/skein/status/openapi"
	"github.com/skein-project/skein/status/query"
)

// Spans of a density.
const (
	usualSpans = 120
	mostSpans  = 1000
)

// Log is what tells of the past.
type Log interface {
	// Replay tells what the log said up to a position, Density how many events it has
	// of each of some spans of time; a zero from is when the first one was.
	Replay(ctx context.Context, at api.ReplayAt) (api.LogReplay, error)
	Density(ctx context.Context, from, to time.Time, spans int) (api.LogDensity, error)
}

// ReplayParams and DensityParams are what Replay and Density take.
var (
	ReplayParams = []openapi.Param{
		{Name: "at", Type: "", About: "the last moment, or position, that counts; without it, all of the log"},
		{Name: "hindsight", Type: false, About: "leave out what later terms made void"},
	}
	DensityParams = []openapi.Param{
		{Name: "since", Type: "", About: "the beginning of the first span; without it, when the first event was"},
		{Name: "until", Type: "", About: "the end of the last span; without it, now"},
		{Name: "spans", Type: uint64(0), About: "how many, 120 if it does not say"},
	}
)

// Replay answers GET /v1/replay. Who sees own jobs only sees no others here.
func Replay(log Log, r *http.Request) (api.Replay, error) {
	var at api.ReplayAt
	var err error
	if at.Hindsight, err = query.FlagOf(r, "hindsight"); err != nil {
		return api.Replay{}, err
	}
	if text := r.URL.Query().Get("at"); text != "" {
		if at.Time, at.Position, err = api.ParseSince(text, time.Now()); err != nil {
			return api.Replay{}, api.Errorf(api.CodeInvalidRequest, "at: %s", err)
		}
	}
	out, err := log.Replay(r.Context(), at)
	if only := door.Of(r.Context()).Only; only != "" {
		out.Jobs = slices.DeleteFunc(out.Jobs, func(j api.ReplayJob) bool { return j.Owner != only })
		out.Actions = nil
	}
	return api.Replay{Replay: out}, err
}

// Density answers GET /v1/log/density.
func Density(log Log, r *http.Request) (api.LogDensity, error) {
	q, now := r.URL.Query(), time.Now()
	var from time.Time
	to, spans := now, uint64(usualSpans)
	for name, into := range map[string]*time.Time{"since": &from, "until": &to} {
		if text := q.Get(name); text != "" {
			at, position, err := api.ParseSince(text, now)
			if err == nil && position != nil {
				err = errors.New("want a time, not a position")
			}
			if err != nil {
				return api.LogDensity{}, api.Errorf(api.CodeInvalidRequest, "%s: %s", name, err)
			}
			*into = at
		}
	}
	if text := q.Get("spans"); text != "" {
		var err error
		if spans, err = strconv.ParseUint(text, 10, 32); err != nil || spans == 0 || spans > mostSpans {
			return api.LogDensity{}, api.Errorf(api.CodeInvalidRequest, "spans: %.32q is not a number from 1 to %d", text, mostSpans)
		}
	}
	return log.Density(r.Context(), from, to, int(spans)) //nolint:gosec // at most mostSpans
}
