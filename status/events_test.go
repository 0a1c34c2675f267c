package status

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster/event"
)

// longLog has n events of two kinds, one second apart.
func longLog(f *fake, n int) {
	base := time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)
	for i := range n {
		kind := event.KindHostStarted
		if i%2 == 1 {
			kind = event.KindTermStart
		}
		f.log = append(f.log, testEvent(uint64(i+1), kind, base.Add(time.Duration(i)*time.Second)))
	}
}

// TestPositions looks at the stream itself: an event line, then how far it is,
// over events that the filter leaves out as well.
func TestPositions(t *testing.T) {
	f := newFake()
	longLog(f, 10)
	r := start(t, f, nil)
	lines := func(query string) []string {
		t.Helper()
		code, _, text := r.ask(t, http.MethodGet, "/v1/events?"+query, "")
		if code != http.StatusOK {
			t.Fatalf("%s: %d %s", query, code, text)
		}
		return strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	}
	if got := lines("kind=job_done"); len(got) != 1 || got[0] != "" {
		t.Errorf("no event and no position asked for: %q", got)
	}
	if got := lines("kind=job_done&positions"); len(got) != 1 || got[0] != `{"cursor":"n1/1:10"}` {
		t.Errorf("positions: %q", got)
	}
	if got := lines("positions&limit=3&kind=term_start"); len(got) != 4 || got[3] != `{"cursor":"n1/1:6"}` {
		t.Errorf("limit: %q", got)
	}
	if got := lines("since=n1/1:8"); len(got) != 2 {
		t.Errorf("since a cursor: %q", got)
	}
	if got := lines("since=2026-01-02T03:00:05Z&kind=host_*,publishing"); len(got) != 2 {
		t.Errorf("since a time: %q", got)
	}
	if code, _, text := r.ask(t, http.MethodGet, "/v1/events?node=n99", ""); code != http.StatusNotFound || !strings.Contains(text, "no host n99") {
		t.Errorf("events of a host that never was: %d %s", code, text)
	}
	for _, bad := range []string{
		"since=soon", "since=n1/1", "limit=0", "limit=-1", "limit=x", "kind=nope", "kind=host_started,", "kind=[", "follow=perhaps",
		"after=n1/1:1&since=n1/1:1", "node=_", "nonsense=1", "kind=" + strings.Repeat("lease_*,", 200),
	} {
		if code, _, text := r.ask(t, http.MethodGet, "/v1/events?"+bad, ""); code != http.StatusBadRequest {
			t.Errorf("%.60s: %d %s", bad, code, text)
		}
	}
}

// TestCompactedReader is told that what it asks for is gone, and from where on
// everything is there. From the beginning means from the oldest.
func TestCompactedReader(t *testing.T) {
	f := newFake()
	longLog(f, 10)
	f.oldest = api.Cursor{{Node: "n1", Inc: 1}: 4}
	r := start(t, f, nil)
	code, _, text := r.ask(t, http.MethodGet, "/v1/events?since=n1/1:2", "")
	var p api.Problem
	if err := json.Unmarshal([]byte(text), &p); err != nil || code != http.StatusGone || p.Code != api.CodeCompacted || p.Cursor != "n1/1:4" {
		t.Fatalf("%d %s %v", code, text, err)
	}
	var at []api.StreamPosition
	n := 0
	err := r.client.Events(t.Context(), api.EventQuery{}, api.FollowOptions{Position: func(p api.StreamPosition) { at = append(at, p) }}, func(e api.Event) error {
		n++
		if e.Seq < 5 {
			t.Errorf("event %d is kept no more", e.Seq)
		}
		return nil
	})
	if err != nil || n != 6 || len(at) != 2 || !at[0].Compacted || at[0].Cursor != "n1/1:4" || at[1].Cursor != "n1/1:10" {
		t.Fatalf("%d events, positions %+v, %v", n, at, err)
	}
	// A follower that falls behind the compaction is not left with a gap.
	fell := false
	err = r.client.Events(t.Context(), api.EventQuery{Follow: true}, api.FollowOptions{}, func(e api.Event) error {
		if e.Seq == 0 {
			t.Error("the problem looks like an event")
		}
		if e.Seq == 10 && !fell {
			fell = true
			f.update(func() { f.oldest = api.Cursor{{Node: "n1", Inc: 1}: 20} })
		}
		return nil
	})
	if !api.IsCode(err, api.CodeCompacted) {
		t.Fatalf("follower behind the oldest event: %v", err)
	}
}

// TestSlowFollowerIsCut has one follower that reads nothing: it is cut, with a
// count, and the other one goes on all the while.
func TestSlowFollowerIsCut(t *testing.T) {
	f := newFake()
	longLog(f, 20_000) // more than the buffers of a socket hold
	r := start(t, f, func(_ *Options, s *Server) {
		if s != nil {
			s.followers.Stall = 300 * time.Millisecond
		}
	})
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "unix", r.socket)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := fmt.Fprint(conn, "GET /v1/events?follow HTTP/1.1\r\nHost: skein\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReaderSize(conn, 16).ReadString('\n'); err != nil || !strings.Contains(line, "200") {
		t.Fatalf("%q %v", line, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	last := uint64(0)
	err = r.client.Events(ctx, api.EventQuery{Follow: true}, api.FollowOptions{}, func(e api.Event) error {
		last = e.Seq
		if last >= 20_000 { // until the other is cut
			if _, _, text := r.ask(t, http.MethodGet, "/metrics", ""); !strings.Contains(text, `{reason="slow"} 0`) && last > 20_000 {
				return api.ErrStop
			}
			f.update(func() {
				f.log = append(f.log, testEvent(uint64(len(f.log)+1), event.KindTermStart, time.Unix(1_800_000_000, 0)))
			})
		}
		return nil
	})
	if err != nil {
		t.Fatalf("the follower that reads: %v after event %d", err, last)
	}
}

// TestIdleFollowerIsKeptAlive waits for nothing to happen.
func TestIdleFollowerIsKeptAlive(t *testing.T) {
	f := newFake()
	longLog(f, 1)
	r := start(t, f, nil)
	stop := make(chan struct{}, 8)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	began := time.Now()
	go func() {
		<-stop
		cancel()
	}()
	err := r.client.Events(ctx, api.EventQuery{Follow: true}, api.FollowOptions{
		Retry: func(err error) error { return err },
		Position: func(p api.StreamPosition) {
			if p.Cursor == "n1/1:1" {
				stop <- struct{}{}
			}
		},
	}, func(api.Event) error { return nil })
	if ctx.Err() == nil || time.Since(began) > silentTooLong {
		t.Fatalf("no sign of life in %s: %v", time.Since(began), err)
	}
}

// silentTooLong is when clients give a stream up.
const silentTooLong = 15 * time.Second

func TestCheckLogQuery(t *testing.T) {
	r := start(t, newFake(), nil)
	c, err := r.client.CheckLog(t.Context(), "n2", 4)
	if err != nil || c.Host != "n2" || c.Run != 5 || !c.Running || c.Node != "n1" {
		t.Fatalf("%+v %v", c, err)
	}
	if c, err := r.client.CheckLog(t.Context(), "n1", 0); err != nil || c.Host != "" {
		t.Fatalf("of the daemon's own host: %+v %v", c, err)
	}
	if _, err := r.client.CheckLog(t.Context(), "n9", 0); !api.IsCode(err, api.CodeNotReady) {
		t.Fatal(err)
	}
	for _, bad := range []string{"run=x", "node=_", "what=1"} {
		if code, _, text := r.ask(t, http.MethodGet, "/v1/events/verify?"+bad, ""); code != http.StatusBadRequest {
			t.Errorf("%s: %d %s", bad, code, text)
		}
	}
}

// TestTail: the last events that are selected, before a time or a position, and then
// what comes; a watch begins with them as well.
func TestTail(t *testing.T) {
	f := newFake()
	longLog(f, 700)
	f.log[5].Term = 7
	r := start(t, f, nil)
	read := func(q api.EventQuery, n int) (seqs []uint64) {
		t.Helper()
		err := r.client.Events(t.Context(), q, api.FollowOptions{}, func(e api.Event) error {
			if seqs = append(seqs, e.Seq); len(seqs) == n {
				return api.ErrStop
			}
			return nil
		})
		if err != nil {
			t.Errorf("%+v: %v", q, err)
		}
		return seqs
	}
	src := event.SourceID{Node: "n1", Inc: 1}
	for _, c := range []struct {
		q    api.EventQuery
		want []uint64
	}{
		{api.EventQuery{Tail: 3}, []uint64{698, 699, 700}},
		{api.EventQuery{Tail: 2, Before: api.Cursor{src: 10}}, []uint64{9, 10}},
		{api.EventQuery{Tail: 2, Until: time.Unix(1, 0)}, nil},
		{api.EventQuery{Tail: 2, Kind: "job_done"}, nil},
		{api.EventQuery{Tail: 2, Entity: "node:n1"}, []uint64{697, 699}}, // what it wrote as the holder is of others
		{api.EventQuery{Tail: 2, Entity: "term:7"}, []uint64{6}},
		{api.EventQuery{Tail: 2, Entity: "term:99"}, nil},
	} {
		if got := read(c.q, -1); !slices.Equal(got, c.want) {
			t.Errorf("%+v: %v, want %v", c.q, got, c.want)
		}
	}
	time.AfterFunc(200*time.Millisecond, func() { f.update(func() { longLogMore(f, 1) }) })
	if got := read(api.EventQuery{Tail: 2, Follow: true}, 3); !slices.Equal(got, []uint64{699, 700, 701}) {
		t.Errorf("followed %v", got)
	}
	line := ""
	for stream := r.open(t, "/v1/watch?topics=events&tail=2"); !strings.Contains(line, `"event":"log"`); {
		line = lines(t, stream, 1)[0]
	}
	if n := strings.Count(line, `"seq":`); n != 2 || !strings.Contains(line, `"seq":700,`) || !strings.Contains(line, `"seq":701,`) {
		t.Errorf("a watch begins with %d events: %s", n, line)
	}
	for _, query := range []string{"tail=0", "tail=10001", "tail=3&limit=2", "tail=3&after=n1/1:3", "entity=x", "entity=term:x", "until=1h&follow", "before=x"} {
		if code, _, text := r.ask(t, http.MethodGet, "/v1/events?"+query, ""); code != http.StatusBadRequest {
			t.Errorf("%s: %d %s", query, code, text)
		}
	}
}
