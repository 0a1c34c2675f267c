package browser

import (
	"fmt"
	"maps"
	"net/http"
	"testing"
	"time"
)

// logged is an event as the API has it.
func logged(seq int, ago time.Duration, kind string, body fields) fields {
	return fields{
		"source": fields{"node": "host9", "inc": 1}, "seq": seq, "hlc": time.Now().Add(-ago).UnixMilli() << 16, "term": 7, "kind": kind,
		"body": body, "hash": "00", "prev": "00",
	}
}

func given(chunk int, worker string) fields {
	return fields{"job": "j7", "assignments": []fields{{"chunk": chunk, "attempt": 1, "worker": worker}}}
}

// TestAtAGlance: what whoever is woken up asks is answered where the page begins, also
// while a job writes many events a second: who holds the lease, of whom it has that and
// why. The page of a job says which chunk takes long, and where.
func TestAtAGlance(t *testing.T) {
	needBrowser(t)
	d := newDouble(t, 3)
	job := fields{
		"id": "j7", "name": "pi", "owner": "uid:0", "state": "running", "submitted_at": time.Now(), "elapsed_seconds": 90, "holder": "host1", "term": 7,
		"chunks": fields{"total": 5, "accepted": 1, "assigned": 3}, "iterations": fields{"total": 100, "accepted": 30}, "attempts": fields{"assigned": 4},
		"map": fields{"chunks": 5, "step": 1, "runs": []fields{{"state": "accepted", "count": 1}, {"state": "assigned", "count": 3}, {"state": "pending", "count": 1}}},
	}
	d.snapshot("jobs", job)
	d.snapshot("job/j7", job)
	d.snapshot("terms", fields{"term": 7, "holder": "host1", "started_at": time.Now().Add(-time.Minute), "gap_seconds": 4.6, "grants": []string{}, "voters": []string{}},
		fields{"term": 6, "holder": "host2", "started_at": time.Now().Add(-20 * time.Minute), "ended_at": time.Now().Add(-time.Minute), "cause": "expired", "grants": []string{}, "voters": []string{}})
	// The stream has chunks alone, the last 5 s; what is older is asked for.
	var busy []fields
	for i := range 30 {
		busy = append(busy, logged(100+i, 4*time.Second, "chunks_accepted", fields{"job": "j7", "spans": []fields{}}))
	}
	d.watch("log", fields{"cursor": "host9/1:200", "events": append(busy, logged(200, 3*time.Second, "chunks_assigned", given(2, "host1")), logged(201, 0, "chunks_assigned", fields{"job": "j7", "assignments": 7}))})
	d.answer = func(r *http.Request) *http.Response {
		q := r.URL.Query()
		switch {
		case r.URL.Path != "/v1/events":
			return nil
		case q.Get("kind") == "chunks_assigned" && q.Get("entity") == "job:j7":
			return said(200, row(logged(10, 80*time.Second, "chunks_assigned", given(1, "host2")))+"\n"+row(logged(11, 70*time.Second, "chunks_assigned", given(2, "host2")))+"\n")
		case q.Get("tail") == "10":
			return said(200, row(logged(9, time.Minute, "lease_lost", fields{"term": 6, "cause": "expired"}))+"\n")
		}
		return nil
	}
	p := open(t, d.link)
	p.says("host1 holds the lease of term 7", "taken over from", "host2: expired, nobody for 4.6s")
	p.until("what happened before the chunks", `[...document.querySelectorAll(".events li")].some((e) => e.textContent.includes("lease_lost"))`)
	p.until("no chunk that went well", `document.querySelectorAll(".events li").length > 1 && ![...document.querySelectorAll(".events li")].some((e) => /chunks_(accepted|assigned)/.test(e.textContent))`)
	p.at("jobs/j7")
	rows := `[...document.querySelectorAll("table")].filter((t) => t.textContent.startsWith("chunk"))[0]`
	p.until("the chunk that takes long, the next, and one that was given out only now", fmt.Sprintf(`(() => {
		const rows = [...(%s?.querySelectorAll("tbody tr") ?? [])].map((r) => r.textContent);
		return rows.length === 3 && /^1host2\d+[sm]$/.test(rows[0]) && /^2host1[\d.]+[sm]$/.test(rows[1]) && /^3-0\.0s$/.test(rows[2]);
	})()`, rows))
}

// TestBrokenAtAGlance: what the host found wrong in the log stands where the page begins.
func TestBrokenAtAGlance(t *testing.T) {
	needBrowser(t)
	d := newDouble(t, 3)
	p := open(t, d.link)
	badge := func(what string, log fields, verdict, says string) {
		t.Helper()
		whole := fields{"events": 10, "sources": 3, "size_bytes": 1, "state_hash": "abcdef0123456789"}
		maps.Copy(whole, log)
		d.lines <- row(fields{"event": "delta", "data": fields{"topic": "status", "set": []fields{{
			"cluster": "big", "state": "ok", "lease": fields{"holder": "host1", "term": 7}, "members": fields{"total": 3, "alive": 3}, "jobs": fields{}, "log": whole,
		}}}})
		p.until(what, fmt.Sprintf(`[...document.querySelectorAll("main .badge[data-proof=%s]")].some((e) => e.textContent.includes(%q) && e.querySelector("a[href='#/events']"))`, verdict, says))
	}
	ago := time.Now().Add(-12 * time.Minute)
	badge("nobody checked", nil, "unchecked", "not checked")
	badge("the host did", fields{"checked_at": ago}, "unchecked", "checked by host0 12m ago")
	badge("it could not", fields{"checked_at": ago, "check_problem": "not checked: no room"}, "unchecked", "host0 found: not checked: no room")
	badge("it found damage", fields{"checked_at": ago, "check_problem": "segment 3, n3/1:512: hash mismatch"}, "broken", "host0 found: segment 3, n3/1:512: hash mismatch")
	badge("two histories", fields{"forked": []fields{{"node": "host2", "inc": 4}}}, "broken", "broken at host2/4")
}

// TestPastPublisher: a host that was killed never said that it publishes no more; looking
// back, another one publishes.
func TestPastPublisher(t *testing.T) {
	needBrowser(t)
	d := newDouble(t, 3)
	at := time.Now().Add(-time.Minute).UTC().Format(time.RFC3339)
	member := func(node, health string, publishing bool) fields {
		return fields{"node": node, "status": "member", "addr": "10.0.0.1", "version": "v1", "health": health, "publishing": publishing}
	}
	d.answer = func(r *http.Request) *http.Response {
		switch r.URL.Path {
		case "/v1/replay":
			return said(200, row(fields{"replay": fields{
				"host": "host0", "position": "host0/1:5", "events": 5, "state_hash": "abcdef0123456789", "jobs": []fields{},
				"lease": fields{"term": 7, "holder": "host2", "started_at": at, "ended_at": nil}, "config": fields{"mode": "quorum", "voters": []string{"host2"}},
				"members": []fields{member("host1", "suspect", true), member("host2", "alive", true)},
			}}))
		case "/v1/log/density":
			return said(200, row(fields{"from": at, "to": at, "events": []int{1, 2}}))
		}
		return nil
	}
	p := open(t, d.link)
	p.says("holds the lease", "live")
	p.at("?at=" + at)
	p.says("as of", "host2 holds the lease of term 7")
	p.until("who published", `[...document.querySelectorAll("dl.facts div")].some((e) => e.textContent === "publisheshost2")`)
}
