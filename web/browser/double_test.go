package browser

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/skein-project/skein/web"
)

// double is a daemon of a cluster that is made up.
type double struct {
	link  string
	close func()      // nothing answers any more
	lines chan string // of the watch, after the first picture; nobody closes it
	first []string
	// answer is asked before all else, if it is set; nil: it does not know either.
	answer func(*http.Request) *http.Response
	// resume says what a watch begins with that goes on from an id, if it is set.
	resume func(id string) []string
	// streams are the watches that are open; query is what was asked of the last one.
	streams atomic.Int32
	query   atomic.Pointer[url.Values]
	// half is where a stream to the page ends next; nil: nowhere.
	half atomic.Pointer[half]
}

// half is a line of which the page gets the beginning alone.
type half struct {
	mark string // that is in it
	keep func(line string) int
	// aborted has the connection end with it; else the answer ends as one that is whole.
	aborted bool
}

// cutting is an answer that may end in the middle of a line.
type cutting struct {
	http.ResponseWriter
	d *double
}

func (c *cutting) Unwrap() http.ResponseWriter { return c.ResponseWriter }

func (c *cutting) Write(b []byte) (int, error) {
	h := c.d.half.Load()
	if h == nil || !strings.Contains(string(b), h.mark) {
		return c.ResponseWriter.Write(b)
	}
	c.d.half.Store(nil)
	_, err := c.ResponseWriter.Write(b[:h.keep(string(b))])
	if err = errors.Join(err, http.NewResponseController(c.ResponseWriter).Flush()); err == nil && h.aborted {
		panic(http.ErrAbortHandler)
	}
	return 0, errors.Join(err, io.ErrClosedPipe)
}

// watched waits until one watch is open alone, of which ok is true: before, a line may go
// to one that nobody reads any more.
func (d *double) watched(t *testing.T, what string, ok func(url.Values) bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		if q := d.query.Load(); d.streams.Load() == 1 && q != nil && ok(*q) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("no watch %s: %v, %d open", what, d.query.Load(), d.streams.Load())
		}
	}
}

// hostile is what somebody may write wherever texts are taken.
const hostile = "<img src=x onerror=alert(1)>\u202egnp.exe\x1b[31m\x00\u2028" + "\"'><script>window.owned=1</script>"

func row(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(text)
}

type fields map[string]any

// newDouble serves the page of n hosts in five zones, which n0 answers for.
func newDouble(t *testing.T, n int) *double {
	t.Helper()
	d := &double{lines: make(chan string, 10)}
	var members, links, workers []fields
	name := func(i int) string { return fmt.Sprintf("host%d", i) }
	for i := range n {
		state := "alive"
		if i%50 == 49 {
			state = "dead"
		}
		members = append(members, fields{
			"node": name(i), "self": i == 0, "addr": "10.0.0.1", "addr6": "fd::1", "state": state, "role": "standby", "voter": i < 5, "publisher": i == 1, "term": 7,
			"seen_seconds": 0.5, "rtt_seconds": 0.002, "path": "direct", "version": "v1", "zone": fmt.Sprintf("zone%d", i%5), "priority": i, "lag_events": 0, "endpoints": []string{}, "skew_seconds": 0.01,
		})
		workers = append(workers, fields{"node": name(i), "live": state, "connected": true, "ready": true, "progress": "normal", "verdict": "route", "slots": 4, "assigned": 1, "window": 8, "rate_per_second": 1e6, "accept_names": []string{}})
		if state == "dead" {
			for k := range 100 {
				if k == i {
					continue
				}
				links = append(links, fields{"from": name(k), "to": name(i), "state": "dead", "path": "", "handshake_seconds": 500, "reported_at": time.Now()})
			}
		}
	}
	lease := fields{"holder": name(1), "term": 7, "mode": "quorum", "voters": 5, "profile": "lan", "renewed_seconds": 0.1, "expires_seconds": 4, "tenure_seconds": 60, "publisher": name(1), "publishing": false, "abstaining": []string{}, "config": fields{"voters": []string{}}}
	d.watch("hello", fields{"api_version": "1", "node": name(0), "cluster": "big", "boot": "b", "may_change": false, "topics": []string{}})
	d.snapshot("status", fields{
		"cluster": "big", "version": "v1", "state": "ok", "reasons": []string{}, "role": "standby", "term": 7, "lease": lease, "members": fields{"total": n, "alive": n - n/50},
		"log": fields{"events": 10, "sources": n, "size_bytes": 1 << 20, "state_hash": "abcdef0123456789"}, "jobs": fields{"running": 1}, "worker": fields{}, "mesh": fields{},
	})
	d.snapshot("lease", lease)
	d.snapshot("members", members...)
	d.snapshot("links", links...)
	d.snapshot("workers", workers...)
	d.snapshot("terms", fields{"term": 7, "holder": name(1), "started_at": time.Now().Add(-time.Minute), "grants": []string{}, "voters": []string{}},
		fields{"term": 6, "holder": hostile, "started_at": time.Now().Add(-20 * time.Minute), "ended_at": time.Now().Add(-2 * time.Minute), "cause": hostile, "grants": []string{hostile}, "voters": []string{}})
	d.snapshot("onion", fields{"tor": fields{"enabled": false}, "addresses": []fields{}, "hosts": []fields{}, "problems": []string{hostile}})
	d.snapshot("jobs", fields{
		"id": "j1", "name": hostile, "owner": hostile, "state": "running", "reason": hostile, "waits": hostile, "submitted_at": time.Now(), "elapsed_seconds": 5, "holder": name(1), "term": 7,
		"chunks": fields{"total": 10, "accepted": 3}, "iterations": fields{"total": 100, "accepted": 30}, "attempts": fields{"assigned": 4},
	})
	d.snapshot("workflows", fields{
		"id": "w1", "name": hostile, "owner": hostile, "state": "failed", "reason": hostile, "round": 1, "submitted_at": time.Now(), "finished_at": time.Now(), "elapsed_seconds": 5,
		"stopped_by": hostile, "steps": []fields{{"name": hostile, "state": hostile, "reason": hostile, "after": []string{hostile}, "total": 1, "counts": fields{hostile: 1}, "instances": []fields{{"index": 0, "state": hostile, "try": 1, "job": hostile, "reason": hostile, "item": hostile}}}},
	})
	var events []fields
	for i := range 5 {
		events = append(events, fields{
			"source": fields{"node": name(i % n), "inc": 1}, "seq": i + 1, "hlc": time.Now().UnixMilli() << 16, "term": 7, "kind": "lease_released",
			"body": fields{"term": 6, "successor": hostile, "reason": strings.Repeat(hostile, 600)}, "hash": "00", "prev": "00",
		})
	}
	d.watch("log", fields{"events": events, "cursor": "n0/1:5"})
	d.first = append(d.first, fmt.Sprintf(`{"id":"b.1;n0/1:5","event":"synced","data":{"position":10,"observed_at":%q}}`, time.Now().Format(time.RFC3339)))

	gate, code := web.NewGate(time.Now)
	h, err := web.New(web.Options{API: d, Names: []string{"127.0.0.1"}, Gate: gate})
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { h.ServeHTTP(&cutting{w, d}, r) }))
	d.close = sync.OnceFunc(func() { s.CloseClientConnections(); s.Close() })
	t.Cleanup(d.close)
	d.link = s.URL + "/#" + code
	return d
}

func (d *double) watch(event string, data any) {
	d.first = append(d.first, fmt.Sprintf(`{"event":%q,"data":%s}`, event, row(data)))
}

func (d *double) snapshot(topic string, rows ...fields) {
	if rows == nil {
		rows = []fields{}
	}
	d.watch("snapshot", fields{"topic": topic, "rows": rows, "last": true})
}

func answer(status int, kind string, body io.ReadCloser) *http.Response {
	return &http.Response{StatusCode: status, Header: http.Header{"Content-Type": {kind}}, Body: body}
}

// said is a whole answer.
func said(status int, body string) *http.Response {
	kind := "application/json"
	if status >= 400 {
		kind = "application/problem+json"
	}
	return answer(status, kind, io.NopCloser(strings.NewReader(body)))
}

// RoundTrip answers a watch; nothing else is known here but what the test adds.
func (d *double) RoundTrip(r *http.Request) (*http.Response, error) {
	if d.answer != nil {
		if resp := d.answer(r); resp != nil {
			return resp, nil
		}
	}
	switch r.URL.Path {
	case "/v1/events":
		return answer(200, "application/x-ndjson", io.NopCloser(strings.NewReader(""))), nil
	case "/v1/watch":
	default:
		return answer(404, "application/problem+json", io.NopCloser(strings.NewReader(`{"code":"not_found","detail":"no"}`))), nil
	}
	from, to := io.Pipe()
	q := r.URL.Query()
	first := d.first
	if id := r.Header.Get("Last-Event-ID"); id != "" && d.resume != nil {
		first = d.resume(id)
	}
	d.streams.Add(1)
	d.query.Store(&q)
	go func() { // ends with the request
		defer d.streams.Add(-1)
		defer to.Close()
		for _, line := range first {
			if _, err := io.WriteString(to, line+"\n"); err != nil {
				return
			}
		}
		for {
			line := ""
			select {
			case <-r.Context().Done():
				return
			case line = <-d.lines:
			case <-time.After(2 * time.Second):
			}
			if line == "cut" {
				return
			}
			if _, err := io.WriteString(to, line+"\n"); err != nil {
				return
			}
		}
	}()
	return answer(200, "application/x-ndjson", from), nil
}

// TestHostile: what others write is text, cut, and what cannot be seen is shown.
func TestHostile(t *testing.T) {
	needBrowser(t)
	d := newDouble(t, 3)
	p := open(t, d.link)
	p.says("holds the lease")
	for _, path := range []string{"", "events", "lease", "jobs", "jobs/j1", "workflows", "workflows/w1", "onion", "events/host0/1/1", "network"} {
		p.at(path)
		p.until("no element of a text", `!document.querySelector("main img, main script, #app script")`)
		var bad bool
		if p.value(`/[\u202e\u0000\u001b\u2028]/.test(document.body.textContent) || document.body.innerText.length > 60000`, &bad); bad {
			t.Errorf("#/%s shows what cannot be seen, or too much", path)
		}
		if p.value(`window.owned === 1`, &bad); bad {
			t.Fatal("a text was run")
		}
	}
	p.at("jobs")
	p.says("<img src=x onerror=alert(1)>\uFFFDgnp")
	// What no daemon sends ends nothing.
	for _, line := range []string{
		`{"event":"gauges","data":{"topic":"members","keys":["__proto__","host1"],"cols":{"__proto__.x":[1,1],"seen_seconds":["x",null]}}}`,
		`{"event":"delta","data":{"topic":"nothing","set":[{}],"del":["a"]}}`, `{"event":"what","data":null}`,
		`{"event":"delta","data":{"topic":"members","set":[{"node":"host1","state":"` + strings.Repeat("x", 70000) + `","endpoints":[]}]}}`,
	} {
		d.lines <- line
	}
	p.at("network")
	p.until("a state that is unknown here", `document.querySelectorAll("a.node.unknown").length === 1`)
}

// TestParts: a page comes in parts. What was not shown comes by itself, to be there
// when nothing can be asked any more; what does not come is told.
func TestParts(t *testing.T) {
	needBrowser(t)
	d := newDouble(t, 3)
	p := open(t, d.link)
	p.says("holds the lease", "live")
	p.until("the other parts come", `performance.getEntriesByType("resource").some((e) => e.name.includes("/assets/rest-"))`)
	p.until("but not the charts", `!performance.getEntriesByType("resource").some((e) => e.name.includes("/assets/charts-"))`)
	d.close()
	p.at("workers")
	p.says("As the holder sees them")
	p.at("network")
	p.until("the hosts", `document.querySelectorAll("a.node").length === 3`)
}

// TestLarge: 500 hosts are drawn by zones, with what is not well, and in time.
func TestLarge(t *testing.T) {
	needBrowser(t)
	p := open(t, newDouble(t, 500).link)
	p.says("490 of 500 hosts are alive")
	p.at("network")
	p.until("all hosts", `document.querySelectorAll("a.node").length === 500`)
	p.until("five zones", `document.querySelectorAll("circle.zone").length === 5`)
	p.until("not every link", `document.querySelectorAll(".edge").length === 400`)
	p.says("+597 in the")
	p.until("the crown", `document.querySelector("[data-crown]").dataset.crown === "host1"`)
	p.at("network?view=matrix")
	p.says("A matrix is for up to 64 hosts")
	p.accessible([]string{"", "network"}, look{"light", 1280})
}
