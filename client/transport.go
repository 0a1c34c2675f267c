package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/internal/budget"
	"github.com/skein-project/skein/internal/wait"
)

const (
	// maxTurns is how often a request is sent that is refused as overloaded.
	maxTurns = 4
	// maxPause is the longest that a host may have a request wait.
	maxPause   = 30 * time.Second
	maxProblem = 1 << 20 // bytes of an error
)

// transport carries requests to the endpoints: it chooses, signs and repeats.
type transport struct {
	list   []*endpoint
	once   bool
	signer *signer // nil: nothing is signed
	budget budget.Budget
	seen   seen
}

// RoundTrip implements http.RoundTripper. Its errors are those that package api
// knows.
func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Body != nil {
		defer req.Body.Close()
	}
	t.budget.Call(time.Now())
	tried := make([]int, len(t.list))
	var busy *api.Problem // the last that a host was overloaded: it is there, whoever is gone
	var said told         // by the last one that is there
	for n := 1; ; n++ {
		i := pick(t.list, tried, time.Now())
		tried[i]++
		resp, err := t.try(req, t.list[i])
		cause := failure(resp, err)
		if cause == nil {
			t.seen.hear(req, resp)
			return resp, nil
		}
		if p, refused := errors.AsType[*api.Problem](cause); refused {
			if said = (told{resp, p}); p.Code == api.CodeOverloaded {
				busy = p
			}
		}
		why, other := said.instead(cause)
		pause, again := t.again(req, cause, why, busy, n)
		if !again || wait.For(req.Context(), pause) != nil {
			if other {
				return said.resp, nil
			}
			return resp, err
		}
	}
}

// told is what a host answered with a problem that may pass. Its body is in memory.
type told struct {
	resp *http.Response
	prob *api.Problem // nil: none did
}

// instead is what is known of the cluster when a request failed for cause, and whether that
// is another thing: what a host that is there said counts for more than that another one is
// gone.
func (t told) instead(cause error) (why error, other bool) {
	if _, away := errors.AsType[*api.UnreachableError](cause); away && t.prob != nil {
		return t.prob, true
	}
	return cause, false
}

// try sends req to e, once.
func (t *transport) try(req *http.Request, e *endpoint) (*http.Response, error) {
	ctx := req.Context()
	one := req.Clone(ctx)
	one.URL.Scheme, one.URL.Host, one.Host = e.base.Scheme, e.base.Host, e.base.Host
	t.seen.ask(one)
	if req.GetBody != nil {
		body, err := req.GetBody()
		if err != nil {
			return nil, err
		}
		one.Body = body
	}
	if until, bounded := ctx.Deadline(); bounded {
		one.Header.Set(api.HeaderTimeout, strconv.FormatInt(max(1, time.Until(until).Milliseconds()), 10))
	}
	if t.signer != nil {
		if err := t.signer.sign(one, e); err != nil {
			t.noted(ctx, e, err)
			return nil, err
		}
	}
	began := time.Now()
	resp, err := e.rt.RoundTrip(one)
	cause := failure(resp, err)
	switch {
	case cause != nil:
		t.noted(ctx, e, cause)
	case req.Method == http.MethodGet:
		e.answered(time.Since(began))
	default:
		e.answered(0)
	}
	if resp != nil {
		resp.Body = &body{ReadCloser: resp.Body, broke: func(err error) { t.noted(ctx, e, err) }}
	}
	return resp, err
}

// noted counts a failure of e, if it is one of the host's.
func (t *transport) noted(ctx context.Context, e *endpoint, err error) {
	if ctx.Err() == nil || errors.Is(context.Cause(ctx), api.ErrInterrupted) {
		e.failed(time.Now())
	}
}

// body is that of an answer; broke hears how it broke.
type body struct {
	io.ReadCloser
	broke func(error)
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		b.broke(err)
	}
	return n, err
}

// failure is why an answer may be another one later or elsewhere; nil: it stands. The
// body of resp can be read again.
func failure(resp *http.Response, err error) error {
	if err != nil {
		return err
	}
	switch resp.StatusCode {
	case http.StatusTooManyRequests, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
	default:
		return nil
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxProblem))
	resp.Body.Close()
	resp.Body = io.NopCloser(bytes.NewReader(text))
	p := &api.Problem{}
	if err != nil || json.Unmarshal(text, p) != nil || p.Code == "" || !p.Retryable() {
		return nil
	}
	return p
}

// again reports whether req, which was sent n times, is sent once more, and after
// what pause; why is what whoever waits hears of it, busy is nil if no host was overloaded.
func (t *transport) again(req *http.Request, cause, why error, busy *api.Problem, n int) (time.Duration, bool) {
	if req.Context().Err() != nil || req.Body != nil && req.Body != http.NoBody && req.GetBody == nil {
		return 0, false
	}
	p, refused := errors.AsType[*api.Problem](cause)
	_, away := errors.AsType[*api.UnreachableError](cause)
	overloaded := busy != nil && (away || refused && p.Code == api.CodeOverloaded)
	if !away && !overloaded && !repeatable(req) {
		return 0, false // it may have taken effect
	}
	pause, most, told := wait.Backoff(n-1), len(t.list), overloaded && n >= len(t.list)
	if overloaded {
		most = max(most, maxTurns)
		if told {
			// Whoever was refused at the same time comes again at another.
			pause = time.Duration(*busy.RetryAfterSeconds * (1 + rand.Float64()/5) * float64(time.Second))
		}
	}
	if n >= most && !t.patient(req, why) {
		return 0, false
	}
	if until, bounded := req.Context().Deadline(); pause > maxPause || pause < 0 || bounded && time.Until(until) <= pause {
		return 0, false
	}
	// A try at the time that the host told is at its pace.
	return pause, told || t.budget.Take(time.Now())
}

// patient reports whether a request goes on that every endpoint has failed. A stream
// does not: whoever reads it goes on by another request.
func (t *transport) patient(req *http.Request, cause error) bool {
	if asked, ok := req.Context().Value(patienceKey{}).(func(error) error); ok {
		return asked(cause) == nil
	}
	return !t.once && req.Header.Get("Accept") != "application/x-ndjson"
}

// repeatable reports whether req does no more when it is done twice.
func repeatable(req *http.Request) bool {
	switch req.Method {
	case http.MethodGet, http.MethodHead, http.MethodPut, http.MethodDelete:
		return true
	}
	return req.Header.Get("Idempotency-Key") != ""
}
