package status

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/internal/fakeflows"
	"github.com/skein-project/skein/status/stream"
)

// TestWatch reads a stream with the client: what was before, what comes, and after a
// restart of the daemon no event twice.
func TestWatch(t *testing.T) {
	f := newFake()
	longLog(f, 700)
	r := start(t, f, func(o *Options, _ *Server) { o.Cluster = "blue" })
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var kinds []string
	var at api.WatchPosition
	read := func(q api.WatchQuery, last uint64) (seqs []uint64) {
		t.Helper()
		kinds = nil
		err := r.client.Watch(ctx, q, api.FollowOptions{Retry: func(err error) error { return err }}, func(m api.WatchMessage) error {
			kinds = append(kinds, m.Event)
			if err := at.Note(m); err != nil {
				return err
			}
			var d struct{ Events []api.Event }
			if err := json.Unmarshal(m.Data, &d); err != nil {
				return err
			}
			for _, e := range d.Events {
				seqs = append(seqs, e.Seq)
			}
			if len(seqs) > 0 && seqs[len(seqs)-1] == last {
				return api.ErrStop
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return seqs
	}
	q := api.WatchQuery{Topics: []string{"events", "lease"}, Events: api.EventQuery{After: api.Cursor{{Node: "n1", Inc: 1}: 10}}}
	got := read(q, 700)
	if want := []string{"hello", "snapshot", "synced", "log"}; !slices.Equal(slices.Compact(kinds), want) {
		t.Errorf("a stream of %s, want %s", kinds, want)
	}
	f.update(func() { longLogMore(f, 300) })
	q.At = at
	r = start(t, f, nil) // another daemon of the same cluster
	got = append(got, read(q, 1000)...)
	if !slices.Contains(kinds, "reset") {
		t.Errorf("another daemon went on with %s", kinds)
	}
	for i, seq := range got {
		if seq != uint64(11+i) {
			t.Fatalf("event %d is number %d", 11+i, seq)
		}
	}
	if len(got) != 990 {
		t.Errorf("%d events of 990", len(got))
	}
}

// longLogMore appends n events.
func longLogMore(f *fake, n int) {
	for range n {
		f.log = append(f.log, testEvent(uint64(len(f.log)+1), event.KindTermStart, time.Unix(1_800_000_000, 0)))
	}
}

// TestWatchRun follows a run, which the list has without its steps.
func TestWatchRun(t *testing.T) {
	r := start(t, newFake(), nil)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	enough := errors.New("enough")
	var got api.Workflow
	_, err := r.client.FollowWorkflow(ctx, "risk", api.FollowOptions{}, func(w api.Workflow) error {
		if got.ID == "" {
			got.ID = w.ID // as it was asked for at first
			return nil
		}
		got = w
		return enough
	})
	if !errors.Is(err, enough) || got.ID != fakeflows.Run || len(got.Steps) != 4 || got.Steps[0].Instances[0].Outputs != nil {
		t.Errorf("%+v %v", got, err)
	}
}

func TestWatchRefuses(t *testing.T) {
	f := newFake()
	r := start(t, f, nil)
	for query, detail := range map[string]string{
		"topics=edges": "not a topic",
		"topics=":      "", // all but the events
		"topics=jobs,": "not a topic",
		"topics=" + strings.Repeat("jobs,", 64) + "jobs":         "65 topics",
		"topics=jobs&kind=job_done":                              "not among the topics",
		"topics=events&after=n99/1:3":                            "no host of this cluster",
		"topics=events&after=x":                                  "after",
		"topics=events&after=n1/1:3&since=n1/1:2":                "two cursors",
		"topics=events&kind=nope":                                "kind",
		"topics=events&limit=3":                                  "unknown parameter",
		"topics=jobs&nonsense=1":                                 "unknown parameter",
		"topics=jobs" + strings.Repeat("&job="+string(jobA), 64): "65 topics",
	} {
		if detail == "" {
			continue
		}
		if code, _, text := r.ask(t, http.MethodGet, "/v1/watch?"+query, ""); code != http.StatusBadRequest || !strings.Contains(text, detail) {
			t.Errorf("%.60s: %d %s, want %q", query, code, text, detail)
		}
	}
	if code, _, text := r.ask(t, http.MethodGet, "/v1/watch?link=n99", ""); code != http.StatusNotFound {
		t.Errorf("half-edges of a host that never was: %d %s", code, text)
	}
	for _, run := range []string{"nix", "", strings.Repeat("w", 100)} {
		if code, _, text := r.ask(t, http.MethodGet, "/v1/watch?workflow="+run, ""); code != http.StatusNotFound {
			t.Errorf("run %.20q: %d %s", run, code, text)
		}
	}
	if code, _, text := r.ask(t, http.MethodGet, "/v1/watch?topics=events&node=n99", ""); code != http.StatusNotFound {
		t.Errorf("events of a host that never was: %d %s", code, text)
	}
}

// open asks for a stream and returns its lines.
func (r *running) open(t *testing.T, path string, header ...string) *bufio.Reader {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "unix", r.socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	req := "GET " + path + " HTTP/1.1\r\nHost: skein\r\n"
	for i := 0; i+1 < len(header); i += 2 {
		req += header[i] + ": " + header[i+1] + "\r\n"
	}
	if _, err := fmt.Fprint(conn, req+"\r\n"); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { resp.Body.Close() })
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s", path, resp.Status)
	}
	if whole := strings.HasPrefix(path, "/v1/watch"); whole != (len(resp.TransferEncoding) == 0) {
		t.Errorf("%s: sent %q: what many readers get is to be written as it is", path, resp.TransferEncoding)
	}
	want := "application/x-ndjson"
	if strings.Contains(strings.Join(header, "\n"), stream.SSEType) {
		want = stream.SSEType
	}
	if got := resp.Header.Get("Content-Type"); got != want {
		t.Errorf("%s: type %q, want %q", path, got, want)
	}
	return bufio.NewReader(resp.Body)
}

// lines reads so many.
func lines(t *testing.T, r *bufio.Reader, n int) []string {
	t.Helper()
	var out []string
	for range n {
		line, err := r.ReadString('\n')
		if err != nil {
			t.Fatalf("after %q: %v", out, err)
		}
		out = append(out, strings.TrimSuffix(line, "\n"))
	}
	return out
}

// TestServerSentEvents looks at the bytes that a browser gets.
func TestServerSentEvents(t *testing.T) {
	f := newFake()
	longLog(f, 4)
	r := start(t, f, nil)
	got := lines(t, r.open(t, "/v1/watch?topics=terms", "Accept", stream.SSEType, "Last-Event-ID", "no position"), 13)
	for i, want := range []string{
		"event: hello", "data: {", "", "event: reset", `data: {"reason":"restart"}`, "", "event: snapshot", `data: {"topic":"terms","rows":[{"term":1,`, "", "id: ",
		"event: synced", "data: {", "",
	} {
		if !strings.HasPrefix(got[i], want) || want == "" && got[i] != "" {
			t.Errorf("watch: line %d is %q, want %q", i, got[i], want)
		}
	}
	got = lines(t, r.open(t, "/v1/events?follow&positions", "Accept", "text/html, text/event-stream;q=0.9", "Last-Event-ID", "n1/1:3"), 4)
	if got[0] != "id: n1/1:4" || got[1] != "event: event" || !strings.HasPrefix(got[2], `data: {"api_version"`) || got[3] != "" {
		t.Errorf("events: %q", got)
	}
	got = lines(t, r.open(t, "/v1/jobs/"+string(jobA)+"/watch", "Accept", stream.SSEType), 3)
	if got[0] != "event: job" || !strings.HasPrefix(got[1], "data: {") || got[2] != "" {
		t.Errorf("job: %q", got)
	}
}

// TestWatchLinks: half-edges are rows, whose age makes no difference.
func TestWatchLinks(t *testing.T) {
	f := newFake()
	f.links.Links = []api.Link{{From: "n1", To: "n2", State: "unknown", ReportedAt: new(time.Unix(1_800_000_000, 0).UTC())}}
	r := start(t, f, nil)
	got := lines(t, r.open(t, "/v1/watch?topics=links&link=n1"), 4)
	const row = `{"from":"n1","to":"n2","state":"unknown","path":"","handshake_seconds":null,"rtt_seconds":null,` +
		`"receive_bytes_per_second":null,"transmit_bytes_per_second":null,"reported_at":"2027-01-15T08:00:00Z"}`
	for i, topic := range []string{"links", "links/n1"} {
		if want := `{"event":"snapshot","data":{"topic":"` + topic + `","rows":[` + row + `],"last":true}}`; got[1+i] != want {
			t.Errorf("%s\nwant %s", got[1+i], want)
		}
	}
	if !strings.Contains(got[3], `"event":"synced"`) {
		t.Errorf("after the snapshots %s", got[3])
	}
}

// TestWatchEnds: a daemon that stops says so in the last line.
func TestWatchEnds(t *testing.T) {
	r := start(t, newFake(), nil)
	stream := r.open(t, "/v1/watch?topics=lease")
	lines(t, stream, 3)
	go func() {
		if err := r.stop(); err != nil {
			t.Error(err)
		}
	}()
	for {
		line := lines(t, stream, 1)[0]
		if strings.HasPrefix(line, `{"event":"gauges"`) {
			continue
		}
		if !strings.HasPrefix(line, `{"event":"bye","data":{"problem":{`) || !strings.Contains(line, `"retry_after_seconds":1}`) {
			t.Errorf("the end: %s", line)
		}
		return
	}
}

// TestSleepingWatcher reads nothing: it is cut and counted, and another goes on at
// full pace meanwhile.
func TestSleepingWatcher(t *testing.T) {
	f := newFake()
	r := start(t, f, func(_ *Options, s *Server) {
		if s != nil {
			s.followers.Stall = 500 * time.Millisecond
		}
	})
	r.open(t, "/v1/watch?topics=events")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	last, worst := time.Time{}, time.Duration(0)
	err := r.client.Watch(ctx, api.WatchQuery{Topics: []string{"events"}}, api.FollowOptions{Retry: func(err error) error { return err }}, func(m api.WatchMessage) error {
		if m.Event != "log" && m.Event != "synced" {
			return nil
		}
		if !last.IsZero() {
			worst = max(worst, time.Since(last))
		}
		if _, _, text := r.ask(t, http.MethodGet, "/metrics", ""); !strings.Contains(text, `{reason="slow"} 0`) {
			return api.ErrStop
		}
		last = time.Now()
		f.update(func() { longLogMore(f, 1000) })
		return nil
	})
	if err != nil {
		t.Fatalf("the watcher that reads: %v", err)
	}
	if worst > 5*time.Second {
		t.Errorf("it waited %v for events", worst)
	}
}

func TestTooManyWatchers(t *testing.T) {
	r := start(t, newFake(), func(o *Options, _ *Server) { o.MaxWatchers = 1 })
	lines(t, r.open(t, "/v1/watch?topics=lease"), 1)
	err := r.client.Watch(t.Context(), api.WatchQuery{}, api.FollowOptions{Retry: func(err error) error { return err }}, func(api.WatchMessage) error { return nil })
	if !api.IsCode(err, api.CodeOverloaded) {
		t.Errorf("one watcher too many: %v", err)
	}
}
