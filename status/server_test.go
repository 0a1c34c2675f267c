package status

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/status/door"
)

// running is a server under test.
type running struct {
	*Server
	socket string
	client *api.Client
	stop   func() error
}

func start(t *testing.T, f *fake, change func(*Options, *Server)) *running {
	t.Helper()
	dir, err := os.MkdirTemp("", "skein") //nolint:usetesting // short enough for a socket's address
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	reg := prometheus.NewRegistry()
	o := Options{
		Socket: filepath.Join(dir, "run", "s.sock"), Backend: f, Version: "v1.2.3", Log: zerolog.Nop(),
		Registerer: reg, Gatherer: reg, Group: "skein-admin", MaxArtefactBytes: 1000, MaxFollowers: 2,
	}
	if change != nil {
		change(&o, nil)
	}
	s := newServer(t, o)
	if change != nil {
		change(&o, s)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	select {
	case <-s.Up():
	case err := <-done:
		t.Fatal(err)
	}
	client, err := api.Dial(o.Socket)
	if err != nil {
		t.Fatal(err)
	}
	var stopped atomic.Bool
	stop := func() error {
		if stopped.Swap(true) {
			return nil
		}
		client.Close()
		cancel()
		return <-done
	}
	t.Cleanup(func() {
		if err := stop(); err != nil {
			t.Errorf("server: %v", err)
		}
	})
	return &running{Server: s, socket: o.Socket, client: client, stop: stop}
}

// ask sends one request over the socket, without the client's help.
func (r *running) ask(t *testing.T, method, path, body string, header ...string) (int, http.Header, string) {
	t.Helper()
	tr := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", r.socket)
	}}
	defer tr.CloseIdleConnections()
	req, err := http.NewRequestWithContext(t.Context(), method, "http://skein"+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := tr.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, resp.Header, string(text)
}

func TestReads(t *testing.T) {
	r := start(t, newFake(), nil)
	for _, path := range []string{
		"status", "members", "mesh", "lease", "lease/history", "jobs", "jobs/" + string(jobA), "jobs/jaa", "config", "tokens", "version", "doctor",
	} {
		code, head, text := r.ask(t, http.MethodGet, "/v1/"+path, "")
		if code != 200 || head.Get("Content-Type") != "application/json" {
			t.Errorf("%s: %d %s %s", path, code, head.Get("Content-Type"), text)
		}
		var h api.Header
		if err := json.Unmarshal([]byte(text), &h); err != nil || h.APIVersion != "1" || h.Node != "n1" || h.ObservedAt.IsZero() {
			t.Errorf("%s: header %+v, %v", path, h, err)
		}
		for _, list := range []string{"reasons", "members", "peers", "voters", "terms", "grants", "jobs", "workers", "failures", "aggregates", "endpoints", "entries", "tokens", "candidates", "findings"} {
			if strings.Contains(text, `"`+list+`":null`) {
				t.Errorf("%s: %s is null", path, list)
			}
		}
	}
	if v, err := r.client.Version(t.Context()); err != nil || v.Version != "v1.2.3" {
		t.Errorf("version %+v, %v", v, err)
	}
	_, _, text := r.ask(t, http.MethodGet, "/metrics", "")
	if !strings.Contains(text, `skein_api_requests_total{class="2xx",route="/v1/status"} 1`) {
		t.Errorf("metrics:\n%s", text)
	}
}

func TestProbes(t *testing.T) {
	f := newFake()
	r := start(t, f, nil)
	if h, err := r.client.Ready(t.Context()); err != nil || !h.OK {
		t.Errorf("ready: %+v, %v", h, err)
	}
	f.update(func() { f.ready = errNotJoined })
	if h, err := r.client.Ready(t.Context()); err != nil || h.OK || h.Reason != "not joined yet" {
		t.Errorf("not ready: %+v, %v", h, err)
	}
	if code, _, _ := r.ask(t, http.MethodGet, "/readyz", ""); code != 503 {
		t.Errorf("readyz: %d", code)
	}
	if code, _, _ := r.ask(t, http.MethodGet, "/healthz", ""); code != 200 {
		t.Errorf("healthz: %d", code)
	}
}

const goodSpec = `{"spec":{"key":"k","artefact":"` + hash64 + `","iterations":1000,"chunk":10}}`

const hash64 = "00000000000000000000000000000000000000000000000000000000000000ff"

func TestRefusals(t *testing.T) {
	f := newFake()
	r := start(t, f, nil)
	spec := func(field string) string {
		return `{"spec":{"key":"k","artefact":"` + hash64 + `",` + field + `}}`
	}
	for _, tc := range []struct {
		name, method, path, body string
		status                   int
		code                     api.Code
		detail                   string
	}{
		{"no path", "GET", "/v2/status", "", 404, api.CodeNotFound, "/v2/status"},
		{"method", "DELETE", "/v1/jobs", "", 405, api.CodeMethod, "DELETE"},
		{"no job", "GET", "/v1/jobs/jbb", "", 404, api.CodeNotFound, "jbb"},
		{"watch no job", "GET", "/v1/jobs/jbb/watch", "", 404, api.CodeNotFound, "jbb"},
		{"not JSON", "POST", "/v1/jobs", "{", 400, api.CodeInvalidRequest, "body"},
		{"two values", "POST", "/v1/jobs", goodSpec + "{}", 400, api.CodeInvalidRequest, "more than one"},
		{"UTF-8", "POST", "/v1/jobs", "{\"x\":\"\xff\"}", 400, api.CodeInvalidRequest, "UTF-8"},
		{"unknown field", "POST", "/v1/jobs", spec(`"iteratons":5`), 400, api.CodeInvalidRequest, `unknown field "iteratons"`},
		{"long body", "POST", "/v1/jobs", `{"x":"` + strings.Repeat("x", maxBody) + `"}`, 413, api.CodeTooLarge, "longer than"},
		{"wrong type", "POST", "/v1/jobs", spec(`"iterations":"many"`), 400, api.CodeInvalidRequest, "spec.iterations"},
		{"negative", "POST", "/v1/jobs", spec(`"iterations":-1`), 400, api.CodeInvalidRequest, "spec.iterations"},
		{"overflow", "POST", "/v1/jobs", spec(`"iterations":99999999999999999999`), 400, api.CodeInvalidRequest, "spec.iterations"},
		{"too many", "POST", "/v1/jobs", spec(`"iterations":9007199254740993`), 422, api.CodeInvalidJob, "iterations"},
		{"zero", "POST", "/v1/jobs", spec(`"iterations":0`), 422, api.CodeInvalidJob, "iterations is 0"},
		{"chunk", "POST", "/v1/jobs", spec(`"iterations":10,"chunk":11`), 422, api.CodeInvalidJob, "chunk is 11"},
		{"executor", "POST", "/v1/jobs", spec(`"iterations":10,"executor":"shell"`), 422, api.CodeInvalidJob, "unknown executor"},
		{"no artefact", "POST", "/v1/jobs", `{"spec":{"key":"k","iterations":10}}`, 422, api.CodeInvalidJob, "artefact is missing"},
		{"bad hash", "POST", "/v1/jobs", `{"spec":{"key":"k","artefact":"ff"}}`, 400, api.CodeInvalidRequest, "64 hex digits"},
		{"no key", "POST", "/v1/jobs", `{"spec":{"iterations":10}}`, 422, api.CodeInvalidJob, "idempotency key"},
		{"wait", "POST", "/v1/jobs", `{"wait":"forever"}`, 400, api.CodeInvalidRequest, "local or stable"},
		{"ttl", "POST", "/v1/tokens", `{"ttl_seconds":0.1}`, 400, api.CodeInvalidRequest, "ttl_seconds"},
		{"uses", "POST", "/v1/tokens", `{"uses":1000}`, 400, api.CodeInvalidRequest, "uses"},
		{"revoke", "DELETE", "/v1/tokens/A%20B", "", 404, api.CodeNotFound, "no invite"},
		{"node name", "POST", "/v1/lease/step-down", `{"to":"N_9"}`, 400, api.CodeInvalidRequest, "node id"},
		{"conflict", "POST", "/v1/lease/step-down", `{"to":"n9"}`, 409, api.CodeConflict, "n9 is not alive"},
		{"voters of nothing", "POST", "/v1/lease/voters", `{}`, 400, api.CodeInvalidRequest, "nothing to change"},
		{"voters twice", "POST", "/v1/lease/voters", `{"voters":["n1","n2","n1"]}`, 400, api.CodeInvalidRequest, "n1 is named twice"},
		{"voter name", "POST", "/v1/lease/voters", `{"add":"N_9"}`, 400, api.CodeInvalidRequest, "node id"},
		{"no voter name", "POST", "/v1/lease/voters", `{"voters":[""]}`, 400, api.CodeInvalidRequest, "node id"},
		{"too many voters", "POST", "/v1/lease/voters", `{"voters":["a","b","c","d","e","f","g","h"]}`, 400, api.CodeInvalidRequest, "at most 7"},
		{"voters and auto", "POST", "/v1/lease/voters", `{"voters":["n1"],"auto":true}`, 400, api.CodeInvalidRequest, "say one"},
		{"voters' mode", "POST", "/v1/lease/voters", `{"auto":true,"mode":"single"}`, 400, api.CodeInvalidRequest, "auto, quorum or available"},
		{"stop reason", "POST", "/v1/jobs/jaa/stop", `{"reason":"` + strings.Repeat("x", 300) + `"}`, 400, api.CodeInvalidRequest, "reason"},
		{"since", "GET", "/v1/events?since=yesterday", "", 400, api.CodeInvalidRequest, "since"},
		{"kind", "GET", "/v1/events?kind=[", "", 400, api.CodeInvalidRequest, "kind"},
		{"node", "GET", "/v1/events?node=_", "", 400, api.CodeInvalidRequest, "node"},
		{"follow", "GET", "/v1/events?follow=maybe", "", 400, api.CodeInvalidRequest, "follow"},
		{"after", "GET", "/v1/events?after=x", "", 400, api.CodeInvalidRequest, "after"},
		{"parameter", "GET", "/v1/events?x=1", "", 400, api.CodeInvalidRequest, "unknown parameter"},
		{"long artefact", "PUT", "/v1/artefacts", strings.Repeat("x", 1001), 413, api.CodeTooLarge, "1001 bytes"},
	} {
		code, head, text := r.ask(t, tc.method, tc.path, tc.body)
		var p api.Problem
		if err := json.Unmarshal([]byte(text), &p); err != nil {
			t.Errorf("%s: %v in %s", tc.name, err, text)
			continue
		}
		if code != tc.status || p.Status != tc.status || p.Code != tc.code || !strings.Contains(p.Detail, tc.detail) ||
			head.Get("Content-Type") != "application/problem+json" || p.APIVersion != "1" {
			t.Errorf("%s: %d %s %s, want %d %s %q", tc.name, code, p.Code, p.Detail, tc.status, tc.code, tc.detail)
		}
	}
	if len(f.submits) != 0 {
		t.Errorf("%d refused jobs reached the backend", len(f.submits))
	}
}

func TestChanges(t *testing.T) {
	f := newFake()
	r := start(t, f, nil)
	code, _, text := r.ask(t, "POST", "/v1/jobs", strings.Replace(goodSpec, `"key":"k",`, "", 1), "Idempotency-Key", "mine")
	if code != 200 || len(f.submits) != 1 {
		t.Fatalf("%d %s", code, text)
	}
	if got := f.submits[0]; got.Spec.Key != "mine" || got.Wait != api.WaitStable || got.Spec.Attempts != job.DefaultAttempts {
		t.Errorf("submitted %+v", got)
	}
	if code, _, _ := r.ask(t, "POST", "/v1/jobs", goodSpec, "Idempotency-Key", "other"); code != 400 {
		t.Errorf("two keys: %d", code)
	}
	a, err := r.client.PutArtefact(t.Context(), strings.NewReader("hello"))
	if err != nil || a.SizeBytes != 5 || a.Hash.String()[:8] != "2cf24dba" {
		t.Errorf("artefact %+v, %v", a, err)
	}
	// Without a length the limit holds while reading.
	if _, err := r.client.PutArtefact(t.Context(), io.MultiReader(strings.NewReader(strings.Repeat("x", 2000)))); !api.IsCode(err, api.CodeTooLarge) {
		t.Errorf("long artefact: %v", err)
	}
	tok, err := r.client.CreateToken(t.Context(), time.Hour, 2)
	if err != nil || tok.Secret.Reveal() != "s3cret" || tok.Uses != 2 || strings.Contains(fmt.Sprintf("%v %+v %#v", tok, tok, tok), "s3cret") {
		t.Errorf("token %+v, %v", tok, err)
	}
	if err := r.client.RevokeToken(t.Context(), "abc"); err != nil || f.revoked != "abc" {
		t.Errorf("revoke: %v", err)
	}
	if j, err := r.client.StopJob(t.Context(), "jaa", "enough"); err != nil || j.State != job.Cancelled {
		t.Errorf("stop: %+v, %v", j, err)
	}
	want := fmt.Sprintf("uid:%d", os.Getuid())
	for _, a := range f.actors {
		if a != want {
			t.Errorf("actor %q, want %q", a, want)
		}
	}
}

func TestReadersMayNotChange(t *testing.T) {
	f := newFake()
	r := start(t, f, func(_ *Options, s *Server) {
		if s != nil {
			s.identify = func(net.Conn, string) (door.Peer, error) { return door.Peer{UID: 1234}, nil }
		}
	})
	if _, err := r.client.Status(t.Context()); err != nil {
		t.Error(err)
	}
	for _, path := range []string{"/v1/jobs", "/v1/jobs/jaa/stop", "/v1/tokens", "/v1/lease/step-down", "/v1/lease/voters"} {
		code, _, text := r.ask(t, "POST", path, "{}")
		if code != 403 || !strings.Contains(text, "skein-admin") {
			t.Errorf("%s: %d %s", path, code, text)
		}
	}
	if _, err := r.client.PutArtefact(t.Context(), strings.NewReader("x")); !api.IsCode(err, api.CodeForbidden) {
		t.Errorf("upload: %v", err)
	}
	if len(f.actors) != 0 {
		t.Errorf("the backend was asked by %v", f.actors)
	}
}

func TestTCP(t *testing.T) {
	var addr string
	r := start(t, newFake(), func(o *Options, _ *Server) {
		o.Hosts = []string{"n1.mesh"}
		o.ListenTCP = func(ctx context.Context) (net.Listener, error) {
			l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
			if err == nil {
				addr = l.Addr().String()
			}
			return l, err
		}
	})
	c, err := api.Dial(addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Status(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := c.Tokens(t.Context()); !api.IsCode(err, api.CodeForbidden) {
		t.Errorf("tokens over TCP: %v", err)
	}
	if _, err := c.Config(t.Context()); !api.IsCode(err, api.CodeForbidden) {
		t.Errorf("config over TCP: %v", err)
	}
	if _, err := c.StopJob(t.Context(), "jaa", ""); !api.IsCode(err, api.CodeForbidden) {
		t.Errorf("stop over TCP: %v", err)
	}
	for host, want := range map[string]int{"n1.mesh": 200, "N1.MESH:80": 200, "localhost:1": 200, "evil.example": 403, "": 403} {
		req, err := http.NewRequestWithContext(t.Context(), "GET", "http://"+addr+"/v1/status", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Host = host
		if host == "" {
			req.Host = "x"
		}
		resp, err := http.DefaultTransport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("host %q: %d, want %d", host, resp.StatusCode, want)
		}
	}
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	if _, err := r.client.Tokens(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestSocket(t *testing.T) {
	r := start(t, newFake(), nil)
	info, err := os.Stat(r.socket)
	if err != nil || info.Mode().Perm() != 0o660 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	second := newServer(t, Options{Socket: r.socket, Backend: newFake()})
	if err := second.Run(t.Context()); !errors.Is(err, door.ErrSocketInUse) {
		t.Errorf("second daemon: %v", err)
	}
	if _, err := r.client.Status(t.Context()); err != nil {
		t.Errorf("the first daemon suffered: %v", err)
	}
	if err := r.stop(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(r.socket); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("socket left behind: %v", err)
	}
	// A dead socket is replaced, a file is not.
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: r.socket, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	l.Close()
	fresh, err := door.ListenUnix(r.socket)
	if err != nil {
		t.Fatalf("stale socket: %v", err)
	}
	fresh.Close()
	if err := os.WriteFile(r.socket, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := door.ListenUnix(r.socket); err == nil || !strings.Contains(err.Error(), "not a socket") {
		t.Errorf("file: %v", err)
	}
}

func TestOptions(t *testing.T) {
	for name, o := range map[string]Options{
		"no backend": {Socket: "/x"},
		"relative":   {Socket: "x", Backend: newFake()},
		"negative":   {Socket: "/x", Backend: newFake(), MaxFollowers: -1},
	} {
		if _, err := New(o); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	reg := prometheus.NewRegistry()
	o := Options{Socket: "/x", Backend: newFake(), Registerer: reg}
	if _, err := New(o); err != nil {
		t.Fatal(err)
	}
	if _, err := New(o); err == nil {
		t.Error("two servers in one registry")
	}
}

// TestShutdownWaits lets a running request end.
func TestShutdownWaits(t *testing.T) {
	f := newFake()
	f.block, f.entered = make(chan struct{}), make(chan struct{})
	r := start(t, f, nil)
	answer, stopped := make(chan error, 1), make(chan error, 1)
	go func() {
		_, err := r.client.Members(context.Background())
		answer <- err
	}()
	<-f.entered
	go func() { stopped <- r.stop() }()
	<-r.followers.Stopping()
	close(f.block)
	if err := <-answer; err != nil {
		t.Error(err)
	}
	if err := <-stopped; err != nil {
		t.Error(err)
	}
}

// TestLongBodyIsAnswered: a client that writes its whole body before it reads
// gets to do both.
func TestLongBodyIsAnswered(t *testing.T) {
	r := start(t, newFake(), nil)
	conn, err := (&net.Dialer{Timeout: 5 * time.Second}).DialContext(t.Context(), "unix", r.socket)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
	if _, err := fmt.Fprintf(conn, "POST /v1/jobs HTTP/1.1\r\nHost: skein\r\nContent-Length: %d\r\n\r\n%s", maxDrain, strings.Repeat(" ", maxDrain)); err != nil {
		t.Fatalf("the body: %v", err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatalf("the answer: %v", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusRequestEntityTooLarge {
		t.Errorf("%s", resp.Status)
	}
}
