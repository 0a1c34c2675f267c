package browser

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"
)

// without takes snapshots of a topic, and other lines with a text, out of the first picture.
func (d *double) without(marks ...string) {
	d.first = slices.DeleteFunc(d.first, func(line string) bool {
		return slices.ContainsFunc(marks, func(m string) bool { return strings.Contains(line, m) })
	})
}

var everywhere = []string{"", "network", "network?view=matrix", "network?view=links", "network?view=hosts", "events", "lease", "jobs", "jobs/j1", "workflows", "workers", "onion", "load", "zones", "?host=host1", "events/host0/1/1"}

// TestOlderDaemon: of a daemon that is older than the page, one topic is unknown to it,
// another does not come, and of what comes most fields are missing. The page shows the
// rest, and names what it is not told.
func TestOlderDaemon(t *testing.T) {
	needBrowser(t)
	d := newDouble(t, 3)
	d.without(`"topic":"onion"`, `"topic":"terms"`, `"topic":"status"`, `"topic":"jobs"`, `"topic":"workers"`, `"topic":"lease"`)
	d.snapshot("status", fields{"cluster": "old", "state": "ok"})
	d.snapshot("lease", fields{"holder": "host1", "term": 7})
	d.snapshot("jobs", fields{"id": "j1"})
	d.snapshot("workers", fields{"node": "host1"})
	d.answer = func(r *http.Request) *http.Response {
		if r.URL.Path == "/v1/watch" && strings.Contains(r.URL.Query().Get("topics"), "onion") {
			return said(400, `{"code":"invalid_request","detail":"topics: \"onion\" is not a topic: want some of status, members","status":400}`)
		}
		return nil
	}
	p := open(t, d.link)
	p.says("host1 holds the lease of term 7", "live", "Not told by host0, whose version may be another than that of this page: terms, onion.")
	d.watched(t, "without what is unknown", func(q url.Values) bool {
		return !strings.Contains(q.Get("topics"), "onion") && strings.Contains(q.Get("topics"), "jobs")
	})
	for _, path := range everywhere {
		p.at(path)
		p.until(path+" shows something, or says why not", `document.querySelector("main .card, main .alone")`)
		p.says("Not told by host0")
	}
	p.at("network")
	p.until("the hosts all the same", `document.querySelectorAll("a.node").length === 3`)
	p.at("")
	p.until("of a page that misses more, which", `document.querySelector("main .card table") || document.querySelector("main [role=alert]").textContent.includes("host0")`)
}

// TestNewerDaemon: what a page has never heard of is left alone, or stands there as it came.
func TestNewerDaemon(t *testing.T) {
	needBrowser(t)
	d := newDouble(t, 3)
	d.without(`"event":"synced"`)
	d.watch("weather", fields{"rows": 7})
	d.snapshot("gardens", fields{"node": "host1", "flowers": 3})
	d.watch("delta", fields{"topic": "gardens", "set": []fields{{"node": "host2"}}, "del": []string{"host1"}, "more": true})
	d.watch("gauges", fields{"topic": "gardens", "keys": []string{"host2"}, "cols": fields{"flowers": []int{4}}})
	d.watch("delta", fields{"topic": "members", "set": []fields{{"node": "host2", "state": "hibernating", "role": "gardener", "flowers": fields{"red": 3}, "endpoints": []string{}}}})
	d.watch("log", fields{"cursor": "host0/1:9", "events": []fields{{
		"source": fields{"node": "host0", "inc": 1}, "seq": 9, "hlc": time.Now().UnixMilli() << 16, "term": 7, "kind": "garden_watered", "body": []any{1, "two", nil}, "hash": "00", "prev": "00", "more": true,
	}}})
	d.first = append(d.first, fmt.Sprintf(`{"id":"b.1;host0/1:9","event":"synced","data":{"position":10,"observed_at":%q,"more":1},"more":1}`, time.Now().Format(time.RFC3339)))
	p := open(t, d.link)
	p.says("holds the lease", "live", "garden_watered")
	for _, path := range everywhere {
		p.at(path)
		p.until(path+" is shown", `document.querySelector("main .card") && !document.querySelector("main .alone")`)
	}
	p.at("network?view=hosts")
	p.says("hibernating", "gardener")
	p.at("events/host0/1/9")
	p.says("garden_watered", `"two"`)
	var banner bool
	if p.value(`!!document.querySelector(".banner")`, &banner); banner {
		t.Errorf("something is missed: %s", p.text(".banner"))
	}
}
