package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/skein-project/skein/web"
)

type fields map[string]any

// double is a daemon of a cluster that is made up: its watch has lines, then more.
type double struct {
	lines []string
	more  func(ctx context.Context, say func(line string) error) error
}

// serve serves the page as `skein ui` does.
func (d *double) serve() (link string, end func(), err error) {
	gate, code := web.NewGate(time.Now)
	h, err := web.New(web.Options{API: d, Names: []string{"127.0.0.1"}, Gate: gate})
	if err != nil {
		return "", nil, err
	}
	s := httptest.NewServer(h)
	return s.URL + "/#" + code, func() { s.CloseClientConnections(); s.Close() }, nil
}

// RoundTrip implements http.RoundTripper.
func (d *double) RoundTrip(r *http.Request) (*http.Response, error) {
	answer := func(status int, kind string, body io.ReadCloser) *http.Response {
		return &http.Response{StatusCode: status, Header: http.Header{"Content-Type": {kind}}, Body: body}
	}
	switch r.URL.Path {
	case "/v1/events":
		return answer(http.StatusOK, "application/x-ndjson", io.NopCloser(strings.NewReader(""))), nil
	case "/v1/watch":
	default:
		return answer(http.StatusNotFound, "application/problem+json", io.NopCloser(strings.NewReader(`{"code":"not_found","detail":"no"}`))), nil
	}
	from, to := io.Pipe()
	go func() {
		say := func(line string) error {
			_, err := io.WriteString(to, line+"\n")
			return err
		}
		var err error
		for _, line := range d.lines {
			if err = say(line); err != nil {
				break
			}
		}
		if err == nil && d.more != nil {
			err = d.more(r.Context(), say)
		}
		for err == nil { // an empty line is a sign of life
			select {
			case <-r.Context().Done():
				err = r.Context().Err()
			case <-time.After(2 * time.Second):
				err = say("")
			}
		}
		_ = to.CloseWithError(err) // never fails
	}()
	return answer(http.StatusOK, "application/x-ndjson", from), nil
}

func message(event string, data any) string {
	text, err := json.Marshal(data)
	if err != nil { // made here
		panic("measure: " + err.Error())
	}
	return fmt.Sprintf(`{"event":%q,"data":%s}`, event, text)
}

func host(i int) string { return fmt.Sprintf("host%d", i) }

// dead is whether a host of the cluster is.
func dead(i int) bool { return i%45 == 44 }

func member(i int, seen float64) fields {
	state := "alive"
	if dead(i) {
		state = "dead"
	}
	return fields{
		"node": host(i), "self": i == 0, "addr": "10.0.0.1", "addr6": "fd::1", "state": state, "role": "standby", "voter": i < 5, "publisher": i == 1, "term": 7,
		"seen_seconds": seen, "rtt_seconds": 0.002, "path": "direct", "version": "v1", "zone": fmt.Sprintf("zone%d", i%5), "priority": i, "lag_events": 0, "endpoints": []string{}, "skew_seconds": 0.01,
	}
}

// edges are how many links are not well: each is told by both of its hosts.
const edges = 1085

// newDouble is a cluster of n hosts in five zones.
func newDouble(n int) *double {
	var members, links, workers []fields
	alive := 0
	for i := range n {
		members = append(members, member(i, 0.5))
		if !dead(i) {
			alive++
		}
		workers = append(workers, fields{"node": host(i), "live": members[i]["state"], "connected": true, "ready": true, "progress": "normal", "verdict": "route", "slots": 4, "assigned": 1, "window": 8, "rate_per_second": 1e6, "accept_names": []string{}})
	}
	for i := 44; i < n; i += 45 {
		for k := 0; k < n && len(links) < 2*edges && k < 2*edges/(n/45)/2+1; k++ {
			if dead(k) {
				continue
			}
			for _, l := range [][2]int{{k, i}, {i, k}} {
				links = append(links, fields{"from": host(l[0]), "to": host(l[1]), "state": "dead", "path": "", "handshake_seconds": 500, "reported_at": time.Now()})
			}
		}
	}
	lease := fields{"holder": host(1), "term": 7, "mode": "quorum", "voters": 5, "profile": "lan", "renewed_seconds": 0.1, "expires_seconds": 4, "tenure_seconds": 60, "publisher": host(1), "publishing": false, "abstaining": []string{}, "config": fields{"voters": []string{}}}
	d := &double{}
	tell := func(event string, data any) { d.lines = append(d.lines, message(event, data)) }
	snapshot := func(topic string, rows ...fields) {
		tell("snapshot", fields{"topic": topic, "rows": append([]fields{}, rows...), "last": true})
	}
	tell("hello", fields{"api_version": "1", "node": host(0), "cluster": "big", "boot": "b", "may_change": false, "topics": []string{}})
	snapshot("status", fields{
		"cluster": "big", "version": "v1", "state": "ok", "reasons": []string{}, "role": "standby", "term": 7, "lease": lease, "members": fields{"total": n, "alive": alive},
		"log": fields{"events": 10, "sources": n, "size_bytes": 1 << 20, "state_hash": "abcdef0123456789"}, "jobs": fields{"running": 1}, "worker": fields{}, "mesh": fields{},
	})
	snapshot("lease", lease)
	snapshot("members", members...)
	snapshot("links", links...)
	snapshot("workers", workers...)
	snapshot("terms", fields{"term": 7, "holder": host(1), "started_at": time.Now().Add(-time.Minute), "grants": []string{}, "voters": []string{}})
	snapshot("onion", fields{"tor": fields{"enabled": false}, "addresses": []fields{}, "hosts": []fields{}, "problems": []string{}})
	snapshot("jobs")
	d.lines = append(d.lines, fmt.Sprintf(`{"id":"b.1;n0/1:5","event":"synced","data":{"position":10,"observed_at":%q}}`, time.Now().Format(time.RFC3339)))
	return d
}

// log tells n events, as many at once as a daemon does; one of fifty is about a lease.
func log(n int, say func(string) error) error {
	const atOnce = 256
	began := time.Now().Add(-24 * time.Hour).UnixMilli()
	for from := 0; from < n; from += atOnce {
		var list []fields
		for i := from; i < min(n, from+atOnce); i++ {
			e := fields{
				"source": fields{"node": host(i % 5), "inc": 1}, "seq": 1 + i/5, "hlc": (began + int64(i)*800) << 16, "term": 7, "kind": "chunk_accepted",
				"body": fields{"job": "jqm3x5rzv2n7k4w6t", "chunk": i, "attempt": 1, "worker": host(i % 50), "seconds": 0.125, "result": fields{"iterations": 1000, "metrics": fields{"pi": fields{"n": 1000, "mean": 3.14, "m2": 168.7, "min": 0, "max": 4}}}},
				"text": fmt.Sprintf("chunk %d of pi accepted from %s", i, host(i%50)), "hash": strings.Repeat("0f", 32), "prev": strings.Repeat("f0", 32),
			}
			if i%50 == 49 {
				e["kind"], e["body"], e["text"] = "lease_released", fields{"term": 6, "successor": host(2), "reason": "asked"}, "the lease of term 6 was released for host2"
			}
			list = append(list, e)
		}
		if err := say(message("log", fields{"events": list, "cursor": "n0/1:5"})); err != nil {
			return err
		}
	}
	return nil
}
