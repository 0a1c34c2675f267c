package client

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/skein-project/skein/access"
	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster/job"
)

// TestSigned: over TLS with a pinned key, each request is proved for the host and the
// cluster that it goes to, and a host with another key gets none.
func TestSigned(t *testing.T) {
	key := ed25519.NewKeyFromSeed([]byte(strings.Repeat("k", ed25519.SeedSize)))
	proved := 0
	host := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/version" {
			fmt.Fprint(w, `{"cluster":"c1"}`)
			return
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		p, ok, err := access.ProofOf(r.Header)
		if err == nil && ok {
			err = p.Verify(access.Request{
				Cluster: "c1", Method: r.Method, Host: r.Host, Path: r.URL.EscapedPath(), Query: r.URL.RawQuery, Body: sha256.Sum256(body),
			}, key.Public().(ed25519.PublicKey), time.Now())
		}
		if err != nil || !ok || r.Header.Get(access.HeaderBody) != fmt.Sprintf("%x", sha256.Sum256(body)) {
			t.Errorf("%s %s: %v, %v", r.Method, r.URL, ok, err)
		}
		proved++
		fmt.Fprint(w, "{}")
	}))
	defer host.Close()
	dial := func(pin string) *Client {
		c, err := Dial(Options{Endpoints: []string{host.URL}, Key: key, Pins: []string{pin}, Once: true})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	c := dial(Pin(host.Certificate()))
	defer c.Close()
	for name, call := range map[string]func() error{
		"read":   func() error { _, err := c.API().JobHistory(t.Context(), "a job", true); return err },
		"change": func() error { _, err := c.API().StopJob(t.Context(), "j1", "why"); return err },
		"upload": func() error { _, err := c.API().PutArtefact(t.Context(), strings.NewReader("module")); return err },
	} {
		if err := call(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if proved != 3 {
		t.Errorf("%d requests were proved", proved)
	}
	if _, err := c.API().PutArtefact(t.Context(), io.MultiReader(strings.NewReader("x"))); err == nil || !strings.Contains(err.Error(), "read twice") {
		t.Errorf("an upload that cannot be hashed: %v", err)
	}
	other := dial("sha256:" + strings.Repeat("00", 32))
	defer other.Close()
	_, err := other.API().Job(t.Context(), "j1")
	if away, ok := errors.AsType[*api.UnreachableError](err); !ok || !errors.Is(err, ErrNotPinned) || !strings.Contains(away.Error(), "not pinned") {
		t.Errorf("a host with another key: %v", err)
	}
	if proved != 3 {
		t.Error("it was asked all the same")
	}
}

// twoHosts serve a job of six chunks. The first dies in the middle of everything.
type twoHosts struct {
	h1, h2  *httptest.Server
	submits atomic.Int32
	died    atomic.Bool
	resumed chan string // where the second was asked to go on
}

func line(w http.ResponseWriter, v any) {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	fmt.Fprintf(w, "%s\n", text)
	_ = http.NewResponseController(w).Flush() // who is gone is gone
}

func chunk(i int) api.ChunkResult {
	return api.ChunkResult{Job: "j1", Chunk: i, Iterations: 10, Cursor: fmt.Sprintf("n1/1:%d", i+1)}
}

func newTwoHosts(t *testing.T) *twoHosts {
	h := &twoHosts{resumed: make(chan string, 100)}
	serve := func(first bool) *httptest.Server {
		die := func() {
			h.died.Store(true)
			panic(http.ErrAbortHandler)
		}
		mux := http.NewServeMux()
		mux.HandleFunc("POST /v1/jobs", func(w http.ResponseWriter, r *http.Request) {
			h.submits.Add(1)
			line(w, api.SubmitResponse{Job: job.ID(r.Header.Get("Idempotency-Key"))})
		})
		mux.HandleFunc("GET /v1/jobs/{id}/watch", func(w http.ResponseWriter, _ *http.Request) {
			for i := range 3 {
				line(w, api.Job{ID: "j1", State: job.Running, Chunks: api.ChunkCounts{Total: 6, Accepted: i}})
			}
			if first {
				die()
			}
			line(w, api.Job{ID: "j1", State: job.Completed, Chunks: api.ChunkCounts{Total: 6, Accepted: 6}})
		})
		mux.HandleFunc("GET /v1/jobs/{id}/chunks", func(w http.ResponseWriter, r *http.Request) {
			from := 0
			if after := r.URL.Query().Get("after"); after != "" {
				h.resumed <- after
				if _, err := fmt.Sscanf(after, "n1/1:%d", &from); err != nil {
					t.Error(err)
				}
			}
			for i := from; i < 6; i++ {
				if first && i == 3 {
					die()
				}
				line(w, chunk(i))
			}
			line(w, api.ChunkEnd{Cursor: "n1/1:7", End: true})
		})
		mux.HandleFunc("GET /v1/watch", func(w http.ResponseWriter, r *http.Request) {
			h.resumed <- r.Header.Get("Last-Event-ID")
			if first {
				line(w, api.WatchMessage{Event: "hello", ID: "b1.1;n1/1:1", Data: []byte("{}")})
				line(w, api.WatchMessage{Event: "log", Data: []byte(`{"cursor":"n1/1:2"}`)})
				die()
			}
			line(w, api.WatchMessage{Event: "hello", ID: "b2.1;n1/1:2", Data: []byte("{}")})
			line(w, api.WatchMessage{Event: "log", Data: []byte(`{"cursor":"n1/1:3"}`)})
			<-r.Context().Done()
		})
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if first && h.died.Load() {
				panic(http.ErrAbortHandler)
			}
			mux.ServeHTTP(w, r)
		}))
		s.Config.ErrorLog = nil
		t.Cleanup(s.Close)
		return s
	}
	h.h1, h.h2 = serve(true), serve(false)
	return h
}

// dial returns a client that asks the first host until that has failed.
func (h *twoHosts) dial(t *testing.T) *Client {
	t.Helper()
	c, err := Dial(Options{Endpoints: []string{h.h1.URL, h.h2.URL}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	for _, e := range c.transport.list {
		e.latency = time.Second
		if e.name == h.h1.URL {
			e.latency = time.Nanosecond
		}
	}
	return c
}

// TestResults: the host dies in the middle, and the results go on elsewhere after the
// last that came.
func TestResults(t *testing.T) {
	h := newTwoHosts(t)
	c := h.dial(t)
	var got []int
	began := time.Now()
	at, err := c.StreamResults(t.Context(), "j1", nil, func(r api.ChunkResult) error {
		got = append(got, r.Chunk)
		return nil
	})
	if err != nil || fmt.Sprint(got) != "[0 1 2 3 4 5]" || at.String() != "n1/1:7" {
		t.Errorf("%v up to %s: %v", got, at, err)
	}
	if after := <-h.resumed; after != "n1/1:3" {
		t.Errorf("went on after %s", after)
	}
	t.Logf("whole in %s", time.Since(began))
}

// TestWatch goes on at another host with the position in the log.
func TestWatch(t *testing.T) {
	h := newTwoHosts(t)
	c := h.dial(t)
	var got []string
	err := c.Watch(t.Context(), api.WatchQuery{}, func(m api.WatchMessage) error {
		got = append(got, m.Event+string(m.Data))
		if len(got) == 4 {
			return api.ErrStop
		}
		return nil
	})
	if err != nil || strings.Join(got, " ") != `hello{} log{"cursor":"n1/1:2"} hello{} log{"cursor":"n1/1:3"}` {
		t.Errorf("%v: %v", got, err)
	}
	if first, then := <-h.resumed, <-h.resumed; first != "" || then != "b1.1;n1/1:2" {
		t.Errorf("began at %q, went on at %q", first, then)
	}
}

// TestCallbacks: all of them hear of a job, in order and one at a time, over the death
// of a host.
func TestCallbacks(t *testing.T) {
	h := newTwoHosts(t)
	c := h.dial(t)
	var states []job.State
	var results, stats int
	var inside atomic.Int32
	alone := func() func() {
		if inside.Add(1) != 1 {
			t.Error("two callbacks at once")
		}
		return func() { inside.Add(-1) }
	}
	j, err := c.Submit(t.Context(), job.Spec{Key: "j1"}, Callbacks{
		OnStatus: func(j api.Job) { defer alone()(); states = append(states, j.State) },
		OnStats:  func(api.Job) { defer alone()(); stats++ },
		OnResult: func(api.ChunkResult) { defer alone()(); results++ },
	})
	if err != nil {
		t.Fatal(err)
	}
	last, err := j.Wait(t.Context())
	if err != nil || last.State != job.Completed {
		t.Errorf("%s, %v", last.State, err)
	}
	if fmt.Sprint(states) != "[running completed]" || stats < 4 || results != 6 {
		t.Errorf("states %v, %d snapshots, %d results", states, stats, results)
	}
	if _, err := c.Wait(t.Context(), "j1"); err != nil {
		t.Error(err)
	}
}

// TestSubmittedElsewhere: a host that has not heard of the job yet is told what it must
// know first, and does not say that there is none.
func TestSubmittedElsewhere(t *testing.T) {
	const behind = "n1/1:7"
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/jobs", func(w http.ResponseWriter, _ *http.Request) {
		line(w, api.SubmitResponse{Header: api.Header{Cursor: behind}, Job: "j1"})
	})
	ifKnown := func(answer any) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Query().Get("min") != behind {
				http.NotFound(w, r)
				return
			}
			line(w, answer)
		}
	}
	mux.HandleFunc("GET /v1/jobs/{id}/watch", ifKnown(api.Job{ID: "j1", State: job.Completed}))
	mux.HandleFunc("GET /v1/jobs/{id}/chunks", ifKnown(api.ChunkEnd{Cursor: behind, End: true}))
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	c, err := Dial(Options{Endpoints: []string{s.URL}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	for name, call := range map[string]Callbacks{"waited for": {}, "followed": {OnResult: func(api.ChunkResult) {}}} {
		j, err := c.Submit(t.Context(), job.Spec{Key: "j1"}, call)
		if err != nil {
			t.Fatal(err)
		}
		if last, err := j.Wait(t.Context()); err != nil || last.State != job.Completed {
			t.Errorf("%s: %s, %v", name, last.State, err)
		}
	}
	if last, err := c.Wait(t.Context(), "j1"); err != nil || last.State != job.Completed {
		t.Errorf("by its id: %s, %v", last.State, err)
	}
	if _, err := c.StreamResults(t.Context(), "j1", api.Cursor{}, func(api.ChunkResult) error { return nil }); err != nil {
		t.Errorf("results by its id: %v", err)
	}
}

// TestSeen: what several hosts answered holds together.
func TestSeen(t *testing.T) {
	s := &seen{}
	asks := func(url string) string {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
		s.ask(r)
		return r.URL.RequestURI()
	}
	hears := func(method, path string, status int, body string) {
		resp := &http.Response{StatusCode: status, Body: io.NopCloser(strings.NewReader(body))}
		s.hear(httptest.NewRequestWithContext(t.Context(), method, path, nil), resp)
		if text, err := io.ReadAll(resp.Body); err != nil || string(text) != body {
			t.Errorf("the body was %q, %v", text, err)
		}
	}
	if got := asks("/v1/jobs/j1"); got != "/v1/jobs/j1" {
		t.Errorf("before anything was seen: %s", got)
	}
	hears("POST", "/v1/jobs", 201, `{"cursor":"n1/1:7,n2/1:3"}`)
	hears("POST", "/v1/jobs/j1/stop", 200, `{"cursor":"n1/1:5,n3/2:1"}`)
	for _, body := range []string{"", "nonsense", `{"cursor":"nonsense"}`, `{"cursor":7}`, strings.Repeat(" ", maxProblem+1)} {
		hears("POST", "/v1/jobs", 200, body)
	}
	hears("POST", "/v1/jobs", 409, `{"cursor":"n1/1:90"}`)
	hears("GET", "/v1/jobs", 200, `{"cursor":"n1/1:91"}`)
	hears("PUT", "/v1/artefacts", 200, `{"cursor":"n1/1:92"}`)
	const all = "min=n1%2F1%3A7%2Cn2%2F1%3A3%2Cn3%2F2%3A1"
	for url, want := range map[string]string{
		"/v1/jobs/j1":                 "/v1/jobs/j1?" + all,
		"/v1/jobs?limit=2":            "/v1/jobs?limit=2&" + all,
		"/v1/jobs/j1/chunks?min=n9/1": "/v1/jobs/j1/chunks?min=n9/1",
		"/v1/jobsworth":               "/v1/jobsworth",
		"/v1/status":                  "/v1/status",
	} {
		if got := asks(url); got != want {
			t.Errorf("%s: %s, want %s", url, got, want)
		}
	}
}

// TestHostThatBeganNow: of two hosts the one that does not know a job yet is asked first.
// It says so, and the other one is asked.
func TestHostThatBeganNow(t *testing.T) {
	behind := api.Errorf(api.CodeTimeout, "not yet")
	behind.RetryAfterSeconds = new(1.0)
	h := func(status int, answer any) *httptest.Server {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch {
			case r.Method == http.MethodPost:
				line(w, api.SubmitResponse{Header: api.Header{Cursor: "n1/1:7"}, Job: "j1"})
			case r.URL.Query().Get("min") == "n1/1:7":
				w.WriteHeader(status)
				line(w, answer)
			default:
				w.WriteHeader(http.StatusNotFound)
				line(w, api.Errorf(api.CodeNotFound, "no job"))
			}
		}))
		t.Cleanup(s.Close)
		return s
	}
	began, knows := h(http.StatusGatewayTimeout, behind), h(http.StatusOK, api.Job{ID: "j1", State: job.Completed})
	c, err := Dial(Options{Endpoints: []string{began.URL, knows.URL}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	if _, err := c.API().Submit(t.Context(), api.SubmitRequest{Spec: job.Spec{Key: "j1"}}); err != nil {
		t.Fatal(err)
	}
	for name, read := range map[string]func() (api.Job, error){
		"waited for": func() (api.Job, error) { return c.Wait(t.Context(), "j1") },
		"read":       func() (api.Job, error) { return c.API().Job(t.Context(), "j1") },
	} {
		c.transport.list[1].failed(time.Now()) // so that the other one is better
		if j, err := read(); err != nil || j.State != job.Completed {
			t.Errorf("%s: %s, %v", name, j.State, err)
		}
	}
}

// TestCallbackPanics: a panic ends the callbacks and is the error of Wait.
func TestCallbackPanics(t *testing.T) {
	h := newTwoHosts(t)
	c := h.dial(t)
	j, err := c.Submit(t.Context(), job.Spec{}, Callbacks{OnResult: func(api.ChunkResult) { panic("oh") }})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := j.Wait(t.Context()); err == nil || !strings.Contains(err.Error(), "panicked: oh") {
		t.Errorf("%v", err)
	}
	if !strings.HasPrefix(string(j.Job), "client-") {
		t.Errorf("submitted without a key: %s", j.Job)
	}
}

// TestClose ends what runs, and so does the context of Submit.
func TestClose(t *testing.T) {
	for name, want := range map[string]error{"close": ErrClosed, "context": context.Canceled} {
		host := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPost {
				line(w, api.SubmitResponse{Job: "j1"})
				return
			}
			line(w, api.Job{ID: "j1", State: job.Running})
			<-r.Context().Done()
		}))
		c, err := Dial(Options{Endpoints: []string{host.URL}})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		heard := make(chan struct{}, 1)
		j, err := c.Submit(ctx, job.Spec{}, Callbacks{OnStatus: func(api.Job) { heard <- struct{}{} }})
		if err != nil {
			t.Fatal(err)
		}
		<-heard
		if name == "close" {
			c.Close()
		} else {
			cancel()
		}
		if _, err := j.Wait(t.Context()); !errors.Is(err, want) {
			t.Errorf("%s: %v", name, err)
		}
		c.Close()
		if _, err := c.Submit(t.Context(), job.Spec{}, Callbacks{OnStatus: func(api.Job) {}}); !errors.Is(err, ErrClosed) {
			t.Errorf("a closed client: %v", err)
		}
		cancel()
		host.Close()
	}
}
