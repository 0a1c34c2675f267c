package client

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/internal/bucket"
	"github.com/skein-project/skein/internal/budget"
)

// asked is a request that a fake host got.
type asked struct {
	host, method, path, body, key, timeout string
	at                                     time.Time
}

// fakeHosts answers for several hosts: each by its answers in turn, of which the last
// goes on.
type fakeHosts struct {
	answers map[string][]any // *api.Problem, error, what to encode, or a func that returns one
	took    map[string]time.Duration
	asked   []asked
}

func (f *fakeHosts) client(o Options, names ...string) *Client {
	t := &transport{once: o.Once}
	for _, name := range names {
		t.list = append(t.list, &endpoint{name: name, base: &url.URL{Scheme: "http", Host: name}, rt: f})
	}
	return new(Client).over(strings.Join(names, ","), t)
}

func (f *fakeHosts) RoundTrip(r *http.Request) (*http.Response, error) {
	text := ""
	if r.Body != nil {
		b, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		text = string(b)
	}
	host := r.URL.Host
	f.asked = append(f.asked, asked{
		host, r.Method, r.URL.RequestURI(), text, r.Header.Get("Idempotency-Key"), r.Header.Get(api.HeaderTimeout), time.Now(),
	})
	time.Sleep(f.took[host])
	answer := f.answers[host][0]
	if len(f.answers[host]) > 1 {
		f.answers[host] = f.answers[host][1:]
	}
	if decide, ok := answer.(func() any); ok {
		answer = decide()
	}
	status := http.StatusOK
	switch a := answer.(type) {
	case error:
		p, ok := errors.AsType[*api.Problem](a)
		if !ok {
			return nil, a
		}
		status = p.Status
	case string:
		return &http.Response{StatusCode: status, Body: io.NopCloser(strings.NewReader(a)), Header: http.Header{}, Request: r}, nil
	}
	b, err := json.Marshal(answer)
	if err != nil {
		return nil, err
	}
	return &http.Response{StatusCode: status, Body: io.NopCloser(strings.NewReader(string(b))), Header: http.Header{}, Request: r}, nil
}

func overloaded(after float64) *api.Problem {
	p := api.Errorf(api.CodeOverloaded, "too much")
	p.RetryAfterSeconds = &after
	return p
}

var (
	away    = &api.UnreachableError{Target: "h", Err: syscall.ECONNREFUSED}
	broken  = io.ErrUnexpectedEOF
	holding = api.Errorf(api.CodeNoHolder, "nobody holds")
)

// TestAgain walks through what is tried again, how often and where.
func TestAgain(t *testing.T) {
	ok := map[string]string{"job": "j1"}
	submit := func(ctx context.Context, c *api.Client) error {
		_, err := c.Submit(ctx, api.SubmitRequest{Spec: job.Spec{Key: "k"}})
		return err
	}
	stop := func(ctx context.Context, c *api.Client) error { _, err := c.StopJob(ctx, "j1", "why"); return err }
	read := func(ctx context.Context, c *api.Client) error { _, err := c.Job(ctx, "j1"); return err }
	for name, c := range map[string]struct {
		once   bool
		call   func(context.Context, *api.Client) error
		h1, h2 []any // h2 nil: there is only one
		within time.Duration
		asked  int
		ok     bool
	}{
		"refused twice":              {true, stop, []any{overloaded(2), overloaded(0.5), ok}, nil, time.Minute, 3, true},
		"always refused":             {true, stop, []any{overloaded(1)}, nil, time.Minute, maxTurns, false},
		"no time left":               {true, stop, []any{overloaded(20)}, nil, 10 * time.Second, 1, false},
		"longer than it waits":       {true, stop, []any{overloaded(100)}, nil, time.Hour, 1, false},
		"a number that is none":      {true, stop, []any{overloaded(-1)}, nil, time.Hour, 1, false},
		"nobody there, once":         {true, read, []any{away}, nil, time.Minute, 1, false},
		"nobody there":               {false, read, []any{away, away, away, ok}, nil, time.Minute, 4, true},
		"one of two is there":        {true, stop, []any{away}, []any{ok}, time.Minute, -2, true},
		"none of two is there, once": {true, stop, []any{away}, []any{away}, time.Minute, 2, false},
		"one is busy, one gone":      {true, stop, []any{overloaded(0.5), ok}, []any{away}, time.Minute, -4, true},
		"a read broke":               {true, read, []any{broken}, []any{ok}, time.Minute, -2, true},
		"a change broke":             {false, stop, []any{broken}, nil, time.Minute, 1, false},
		"a submit broke":             {false, submit, []any{broken, holding, ok}, nil, time.Minute, 3, true},
		"a submit without holder":    {true, submit, []any{holding}, []any{ok}, time.Minute, -2, true},
		"a change without holder":    {false, stop, []any{holding, ok}, nil, time.Minute, 1, false},
		"not found":                  {false, read, []any{api.Errorf(api.CodeNotFound, "no")}, nil, time.Minute, 1, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &fakeHosts{answers: map[string][]any{"h1": c.h1, "h2": c.h2}}
				names := []string{"h1"}
				if c.h2 != nil {
					names = append(names, "h2")
				}
				client := f.client(Options{Once: c.once}, names...)
				defer client.Close()
				ctx, cancel := context.WithTimeout(t.Context(), c.within)
				defer cancel()
				if err := c.call(ctx, client.API()); (err == nil) != c.ok {
					t.Errorf("answer: %v", err)
				}
				// Of two, the one that is chosen first may be the good one.
				if n := len(f.asked); n != c.asked && (c.asked > 0 || n > -c.asked) {
					t.Errorf("asked %d times, want %d", n, c.asked)
				}
				for i, a := range f.asked {
					if a.body != f.asked[0].body || a.key != f.asked[0].key {
						t.Errorf("try %d: %+v, the first %+v", i, a, f.asked[0])
					}
					if left, err := strconv.Atoi(a.timeout); err != nil || left > int(c.within.Milliseconds()) || left < 1 {
						t.Errorf("try %d tells a timeout of %q ms", i, a.timeout)
					}
				}
			})
		})
	}
}

// TestOverloadedWaits: a host that says when is asked again then, and up to a fifth
// later.
func TestOverloadedWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeHosts{answers: map[string][]any{"h1": {overloaded(2), overloaded(0.5), "{}"}}}
		c := f.client(Options{}, "h1")
		defer c.Close()
		if _, err := c.API().StopJob(t.Context(), "j1", ""); err != nil {
			t.Fatal(err)
		}
		for i, want := range []time.Duration{2 * time.Second, time.Second / 2} {
			if gap := f.asked[i+1].at.Sub(f.asked[i].at); gap < want || gap > want*6/5 {
				t.Errorf("asked again after %s, want %s and up to a fifth more", gap, want)
			}
		}
	})
}

// TestBusySubmitter: a host that allows ten a second after a burst gets all, at that
// pace, whatever the budget of tries.
func TestBusySubmitter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limit, began := bucket.Rate{PerSecond: 10, Burst: 100}, time.Now()
		var used bucket.Bucket
		f := &fakeHosts{answers: map[string][]any{"h1": {func() any {
			if now := time.Since(began); !used.Take(limit, now) {
				return overloaded(used.Wait(limit, 1, now).Seconds())
			}
			return "{}"
		}}}}
		c := f.client(Options{Once: true}, "h1")
		defer c.Close()
		const calls = 400
		for i := range calls {
			if _, err := c.API().Submit(t.Context(), api.SubmitRequest{Spec: job.Spec{Key: strconv.Itoa(i)}}); err != nil {
				t.Fatalf("number %d: %v", i, err)
			}
		}
		if took := time.Since(began); took < 30*time.Second || took > 37*time.Second {
			t.Errorf("%d submitted in %v, want 30 s and up to a fifth more", calls, took)
		}
	})
}

// TestUploadTwice: what can be read twice is sent again, whole; else it is not.
func TestUploadTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeHosts{answers: map[string][]any{"h1": {away, "{}"}}}
		c := f.client(Options{}, "h1")
		defer c.Close()
		if _, err := c.API().PutArtefact(t.Context(), strings.NewReader("module")); err != nil || len(f.asked) != 2 || f.asked[1].body != "module" {
			t.Errorf("%v, %+v", err, f.asked)
		}
		f.asked, f.answers["h1"] = nil, []any{away, "{}"}
		if _, err := c.API().PutArtefact(t.Context(), io.MultiReader(strings.NewReader("x"))); err == nil || len(f.asked) != 1 {
			t.Errorf("%v after %d requests", err, len(f.asked))
		}
	})
}

// TestPatiently: who is asked for patience hears why, and may end it.
func TestPatiently(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeHosts{answers: map[string][]any{"h1": {holding}}}
		c := f.client(Options{Once: true}, "h1")
		defer c.Close()
		heard := 0
		ctx := Patiently(t.Context(), func(cause error) error {
			if heard++; heard == 3 {
				return cause
			}
			return nil
		})
		if _, err := c.API().Job(ctx, "j1"); !api.IsCode(err, api.CodeNoHolder) || heard != 3 || len(f.asked) != 3 {
			t.Errorf("%v, heard %d, asked %d", err, heard, len(f.asked))
		}
	})
}

// TestOneIsThere: of a host that answers and one that is gone, what the first said counts,
// whichever was asked last.
func TestOneIsThere(t *testing.T) {
	for _, names := range [][]string{{"h1", "h2"}, {"h2", "h1"}} {
		synctest.Test(t, func(t *testing.T) {
			f := &fakeHosts{answers: map[string][]any{"h1": {holding}, "h2": {away}}}
			c := f.client(Options{Once: true}, names...)
			defer c.Close()
			if _, err := c.API().Job(t.Context(), "j1"); !api.IsCode(err, api.CodeNoHolder) || len(f.asked) != 2 {
				t.Errorf("%v: %v, asked %d", names, err, len(f.asked))
			}
			var heard []error
			ctx := Patiently(t.Context(), func(cause error) error {
				if heard = append(heard, cause); len(heard) == 4 {
					return cause
				}
				return nil
			})
			_, err := c.API().Job(ctx, "j1")
			for _, h := range append(heard, err) {
				if !api.IsCode(h, api.CodeNoHolder) {
					t.Errorf("%v: %v", names, h)
				}
			}
		})
	}
}

// TestBudget: a cluster that fails gets a tenth of the calls more, and one a second.
func TestBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeHosts{answers: map[string][]any{"h1": {away}, "h2": {away}}}
		c := f.client(Options{Once: true}, "h1", "h2")
		defer c.Close()
		const calls = 1000
		began := time.Now()
		for range calls {
			if _, err := c.API().Job(t.Context(), "j1"); err == nil {
				t.Fatal("nobody was there")
			}
		}
		more := len(f.asked) - calls
		if limit := budget.Most + calls*budget.Share + time.Since(began).Seconds()*budget.Rate; float64(more) > limit || float64(more) < limit/2 {
			t.Errorf("%d tries more in %s, the budget is %.0f", more, time.Since(began), limit)
		}
	})
}

// TestBetterOfTwo: most requests go to the faster of two hosts, and to the other once
// that one fails.
func TestBetterOfTwo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeHosts{
			answers: map[string][]any{"h1": {"{}"}, "h2": {"{}"}},
			took:    map[string]time.Duration{"h1": time.Millisecond, "h2": 50 * time.Millisecond},
		}
		c := f.client(Options{}, "h1", "h2")
		defer c.Close()
		count := func() map[string]int {
			f.asked = nil
			for range 100 {
				if _, err := c.API().Job(t.Context(), "j1"); err != nil {
					t.Fatal(err)
				}
			}
			n := map[string]int{}
			for _, a := range f.asked {
				n[a.host]++
			}
			return n
		}
		if n := count(); n["h1"] < 98 {
			t.Errorf("asked %v", n)
		}
		f.answers["h1"] = []any{away}
		if n := count(); n["h2"] < 100 || n["h1"] > 3 {
			t.Errorf("when h1 fails: asked %v", n)
		}
		f.answers["h1"] = []any{"{}"}
		time.Sleep(forget + time.Second)
		if n := count(); n["h1"] < 98 {
			t.Errorf("when it is back: asked %v", n)
		}
	})
	t.Run("of many", func(t *testing.T) {
		var list []*endpoint
		for i := range 10 {
			list = append(list, &endpoint{latency: time.Duration(i+1) * time.Millisecond})
		}
		n := make([]int, 10)
		for range 10_000 {
			n[pick(list, make([]int, 10), time.Now())]++
		}
		// The best is chosen whenever it is one of the two: 2 of 10 times; the worst never.
		if n[0] < 1700 || n[0] > 2300 || n[9] != 0 {
			t.Errorf("chosen %v", n)
		}
	})
}

// TestOptions: what cannot be dialled is refused at once.
func TestOptions(t *testing.T) {
	for name, o := range map[string]Options{
		"no endpoint": {},
		"a bad one":   {Endpoints: []string{"https://h1"}},
		"a short pin": {Endpoints: []string{"https://h1:1"}, Pins: []string{"sha256:00"}},
		"another pin": {Endpoints: []string{"https://h1:1"}, Pins: []string{"md5:" + strings.Repeat("00", 32)}},
		"half a key":  {Endpoints: []string{"https://h1:1"}, Key: make([]byte, 5)},
	} {
		if c, err := Dial(o); err == nil {
			c.Close()
			t.Errorf("%s: accepted", name)
		} else if !strings.HasPrefix(err.Error(), "dial ") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
