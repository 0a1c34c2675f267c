package browser

import (
	"fmt"
	"maps"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
)

// busy is a double of a cluster in which much goes on, and not all goes well.
func busy(t *testing.T) *double {
	t.Helper()
	d := newDouble(t, 5)
	d.first = slices.DeleteFunc(d.first, func(line string) bool {
		return strings.Contains(line, `"event":"log"`) || strings.Contains(line, `"event":"synced"`)
	})
	ago := func(a time.Duration) string { return time.Now().Add(-a).UTC().Format(time.RFC3339Nano) }
	long := "a-host-with-a-long-name-in-frankfurt"
	names := []string{"host0", "host1", "host2", long, "host4"}
	health := []string{"alive", "alive", "alive", "suspect", "dead"}
	var members, links, workers, kept []fields
	for i, name := range names {
		members = append(members, fields{
			"node": name, "self": i == 0, "addr": "10.77.201.113", "addr6": "fd4b:6e1c:7a52:1::27", "state": health[i], "role": map[bool]string{true: "holder", false: "standby"}[i == 1], "voter": i < 3, "publisher": i == 1,
			"term": 7, "seen_seconds": 0.4 + float64(i*i), "rtt_seconds": 0.0213, "path": []string{"direct", "direct", "onion", "direct", ""}[i], "version": "v1.2.3-104-g1234567", "zone": fmt.Sprintf("zone-%d", i%2),
			"priority": 10 * i, "lag_events": 1200 * i, "endpoints": []string{"203.0.113.77:51820", "[2001:db8:1234:5678::1]:51820"}, "skew_seconds": -0.013, "cert_expires_at": ago(-400 * time.Hour), "sponsor": i == 0,
		})
		workers = append(workers, fields{
			"node": name, "live": health[i], "connected": i < 4, "ready": i < 3, "draining": i == 2, "progress": []string{"normal", "slow", "idle", "stuck", ""}[i], "verdict": []string{"route", "route", "drain", "exclude", "exclude"}[i],
			"slots": 8, "assigned": i, "window": 8, "backlog_iterations": 12345678, "drain_seconds": 41.5, "rate_per_second": 1.5e8, "accept": "listed", "accept_names": []string{"alice", "group:research"}, "trusted": true,
		})
		for k, other := range names {
			if i == k || i == 4 {
				continue
			}
			links = append(links, fields{
				"from": name, "to": other, "state": health[k], "path": []string{"direct", "onion"}[(i+k)%2], "handshake_seconds": 30 + 60*i*k, "rtt_seconds": 0.0213, "receive_bytes_per_second": 123456.0, "transmit_bytes_per_second": 98765432.0, "reported_at": ago(time.Second),
			})
		}
		kept = append(kept, fields{
			"node": name, "health": health[i], "address": strings.Repeat("k", 56) + ".onion", "weight": i, "points": 3, "asked": 3, "healthy": i < 3, "serving": i < 2, "keys": 1,
			"reason": "its target answers with 502", "backends": []fields{{"name": "http://127.0.0.1:8080", "healthy": i < 2}},
		})
	}
	d.snapshot("status", fields{
		"cluster": "big", "state": "degraded", "reasons": []string{"a-host-with-a-long-name-in-frankfurt is suspect", "host4 is dead"}, "lease": fields{"holder": "host1", "term": 7}, "members": fields{"total": 5, "alive": 3},
		"log": fields{"events": 123456, "sources": 9, "size_bytes": 1 << 30, "state_hash": "abcdef0123456789", "checked_at": ago(36 * time.Minute)}, "jobs": fields{"running": 1},
	})
	d.snapshot("members", members...)
	d.snapshot("links", links...)
	d.snapshot("workers", workers...)
	d.snapshot("terms",
		fields{"term": 7, "holder": "host1", "started_at": ago(10 * time.Minute), "gap_seconds": 42.5, "grants": []string{"host0", "host1", "host2"}, "voters": names[:3]},
		fields{"term": 6, "holder": long, "started_at": ago(45 * time.Minute), "ended_at": ago(11 * time.Minute), "told_at": ago(11 * time.Minute), "last_evidence_at": ago(643 * time.Second), "cause": "expired", "gap_seconds": 0.8, "grants": names[:2], "voters": names[:3]},
		fields{"term": 5, "holder": "host2", "started_at": ago(3 * time.Hour), "ended_at": ago(45 * time.Minute), "cause": "released", "successor": long, "grants": names[:2], "voters": names[:3]},
	)
	d.snapshot("onion", fields{
		"tor": fields{"enabled": true, "state": "ready", "version": "0.4.8.16", "bootstrap_percent": 100, "node": "host0"}, "check": "http 200 of /healthz", "problems": []string{"2 of 8 directories did not take the descriptor: 504 after 60 s"},
		"addresses": []fields{{
			"address": strings.Repeat("k", 56) + ".onion", "set_at": ago(90 * time.Hour), "actor": "uid:0", "clients": []string{"alice"}, "keepers": names[:3], "key": true, "publisher": "host1", "publishing": true, "term": 7, "descriptors": 2,
			"published_at": ago(12 * time.Minute), "points": fields{"host0": 3, "host1": 3, long: 3}, "size": 23456,
		}}, "hosts": kept,
	})
	job := fields{
		"id": "j7", "name": "a-portfolio-with-a-long-name-2026-11", "owner": "alice@example.org", "state": "running", "submitted_at": ago(40 * time.Minute), "elapsed_seconds": 2400, "holder": "host1", "term": 7, "rate_per_second": 1.234e8, "eta_seconds": 5400,
		"chunks": fields{"total": 900, "accepted": 500, "assigned": 13, "pending": 380, "failed": 4, "parked": 3}, "iterations": fields{"total": 90_000_000_000, "accepted": 50_000_000_000}, "attempts": fields{"assigned": 540, "failed": 23, "reclaimed": 4},
		"map":        fields{"chunks": 900, "step": 1, "runs": []fields{{"state": "accepted", "count": 500}, {"state": "assigned", "count": 13}, {"state": "failed", "count": 4}, {"state": "parked", "count": 3}, {"state": "pending", "count": 380}}},
		"workers":    []fields{{"node": "host0", "assigned": 4, "accepted": 200}, {"node": "host1", "assigned": 5, "accepted": 250}, {"node": long, "assigned": 4, "accepted": 50}},
		"aggregates": fields{"value_at_risk_99_of_the_portfolio": fields{"n": 500, "mean": 1234567.891, "min": -12.5, "max": 2.5e7, "ci95_low": 1234000.1, "ci95_high": 1235100.9, "relative_error": 0.00042, "p50": 1.2e6, "p90": 2.1e6, "p99": 4.4e6}},
		"failures":   []fields{{"chunk": 513, "attempt": 3, "worker": long, "at": ago(time.Minute), "reason": "exit code 3; standard error: no such instrument DE000BASF111 in the portfolio", "final": true}},
		"warning":    "4 chunks failed 5 times and were given up: `skein job retry` tries them again",
	}
	waits := fields{
		"id": "j8", "name": "waits", "owner": "bob", "state": "pending", "submitted_at": ago(time.Minute), "elapsed_seconds": 60, "chunks": fields{"total": 10, "pending": 10}, "iterations": fields{"total": 100}, "attempts": fields{},
		"waits": "no host may run it: 3 are not in zone mars, 2 do not take jobs of bob",
	}
	d.snapshot("jobs", job, waits, fields{
		"id": "j6", "name": "pi", "owner": "uid:0", "state": "completed", "submitted_at": ago(3 * time.Hour), "finished_at": ago(2 * time.Hour), "elapsed_seconds": 3600, "chunks": fields{"total": 10, "accepted": 10},
		"iterations": fields{"total": 100, "accepted": 100}, "attempts": fields{"assigned": 10},
	}, behind(ago, "jsum", "sum-of-the-portfolio-2026-11", "j7"), behind(ago, "jpub", "publish", "jsum", "j6:done", "jgoneaaaaaaaaaaaaaaaaaaaaaa:failed"))
	d.snapshot("job/j7", job)
	run := runOfMany(ago)
	d.snapshot("workflow/"+runID, run)
	short := maps.Clone(run)
	delete(short, "steps")
	queued := fields{
		"id": queuedID, "name": "nightly", "owner": "uid:0", "state": "queued", "place": 2, "group": "group nightly-jobs-of-the-portfolio", "schedule": scheduleID, "reason": "", "round": 0, "submitted_at": ago(time.Hour), "finished_at": nil, "elapsed_seconds": 3600,
		"steps": []fields{{"name": "render", "state": "blocked", "reason": "", "total": 0, "counts": fields{}, "instances": []fields{}}},
	}
	listed := maps.Clone(queued)
	delete(listed, "steps")
	first := maps.Clone(listed)
	first["id"], first["place"], first["submitted_at"] = "wdddddddddddddddddddddddddd", 1, ago(2*time.Hour)
	d.snapshot("workflow/"+queuedID, queued)
	d.snapshot("workflows", short, listed, first, fields{
		"id": "wbbbbbbbbbbbbbbbbbbbbbbbbbb", "name": "nightly", "owner": "uid:0", "state": "failed", "reason": "step render: failed: exit code 3; standard error: no such scene", "round": 2, "submitted_at": ago(9 * time.Hour), "finished_at": ago(8 * time.Hour), "elapsed_seconds": 3600,
	})
	var logged []fields
	for i := range 80 {
		kind := []string{"term_start", "member_health", "chunks_accepted", "publish_failed", "job_submitted"}[i%5]
		logged = append(logged, fields{
			"source": fields{"node": names[i%5], "inc": 1}, "seq": 100 + i, "hlc": time.Now().Add(time.Duration(i-90)*20*time.Second).UnixMilli() << 16, "term": 7, "kind": kind, "hash": strings.Repeat("ab", 32), "prev": "00",
			"text": "host1 holds the lease of term 7 after " + long + ", granted by host0, host1 and host2; nobody held it for 42 s",
			"body": fields{"job": "j7", "worker": long, "node": "host4", "to": "dead", "spans": strings.Repeat("0123456789", 30)},
		})
	}
	d.watch("log", fields{"events": logged, "cursor": "host0/1:180"})
	d.first = append(d.first, fmt.Sprintf(`{"id":"b.2;host0/1:180","event":"synced","data":{"position":180,"observed_at":%q}}`, ago(0)))

	line := func(n int, f func(x float64) float64) []float64 {
		out := make([]float64, n)
		for i := range out {
			out[i] = f(float64(i))
		}
		return out
	}
	const points = 120
	given := []fields{}
	for i := range 13 {
		given = append(given, fields{"chunk": 500 + i, "attempt": 1, "worker": names[i%4]})
	}
	d.answer = func(r *http.Request) *http.Response {
		switch r.URL.Path {
		case "/v1/events":
			if r.URL.Query().Get("kind") == "chunks_assigned" {
				return said(200, row(fields{"source": fields{"node": "host1", "inc": 1}, "seq": 90, "hlc": time.Now().Add(-5*time.Minute).UnixMilli() << 16, "kind": "chunks_assigned", "body": fields{"job": "j7", "assignments": given}})+"\n")
			}
		case "/v1/whoami":
			return said(200, row(fields{"name": "uid:0", "role": "admin", "rights": fields{"look": "all", "read": "all", "use": "all", "operate": "all"}}))
		case "/v1/jobs/j7/series":
			return said(200, row(fields{
				"job": "j7", "from": ago(40 * time.Minute), "to": ago(0), "step_seconds": 20, "total": 90_000_000_000, "iterations": line(points, func(x float64) float64 { return x * 4e8 }),
				"rate_per_second": line(points, func(x float64) float64 { return 1e8 * (1.2 + math.Sin(x/8)) }),
				"metrics": []fields{{
					"name": "value_at_risk_99_of_the_portfolio", "n": line(points, func(x float64) float64 { return x }), "mean": line(points, func(float64) float64 { return 3.14153 }),
					"low": line(points, func(x float64) float64 { return 3.14153 - 5e-5/(x+1) }), "high": line(points, func(x float64) float64 { return 3.14153 + 5e-5/(x+1) }),
				}},
				"workers":  []fields{{"node": "host0", "iterations": line(points, func(x float64) float64 { return x * 1e8 })}, {"node": long, "iterations": line(points, func(x float64) float64 { return x * 3e8 })}},
				"failures": []fields{{"reason": "exit code 3; standard error: no such instrument", "attempts": line(points, func(x float64) float64 { return math.Floor(x / 10) })}},
			}))
		case "/v1/schedules":
			return said(200, row(fields{"schedules": schedules(ago)}))
		case "/v1/jobs/jgoodaaaaaaaaaaaaaaaaaaaaaa":
			return said(200, row(fields{"id": "jgoodaaaaaaaaaaaaaaaaaaaaaa", "anomalies": []fields{{"chunk": 17, "worker": long, "reason": "hosts computed different results, and this is the first"}, {"chunk": 18, "worker": long, "reason": "the mean strays"}}}))
		case "/v1/zones":
			return said(200, row(fields{"holder": "host1", "term": 7, "unzoned": 1, "zones": []fields{
				{"zone": "zone-0", "health": "degraded", "why": "of 3 workers: 1 stuck, 1 not ready, 1 overloaded", "for_seconds": 725.0, "hosts": 3, "alive": 2, "drained": 1, "slots": 240, "free": 17, "queued": 1234, "voters": 2, "rtt_seconds": 0.0004, "rtt_from": "measured"},
				{"zone": "zone-1", "health": "unhealthy", "why": "none of 2 hosts is alive", "for_seconds": 12.5, "hosts": 2, "alive": 0, "drained": 0, "slots": 0, "free": 0, "queued": 0, "voters": 1, "rtt_seconds": nil},
				{"zone": "a-zone-with-a-long-name-in-rome", "health": "healthy", "for_seconds": 400000.0, "hosts": 30, "alive": 30, "drained": 0, "slots": 8, "free": 8, "queued": 0, "voters": 2, "rtt_seconds": 0.2513, "rtt_from": "estimated"},
			}}))
		case "/v1/workflows/" + runID:
			return said(200, row(withOutputs(run)))
		case "/v1/replay":
			at := r.URL.Query().Get("at")
			return said(200, row(fields{"replay": fields{
				"host": "host0", "position": "host0/1:5", "events": 5, "state_hash": "abcdef0123456789", "jobs": []fields{{"id": "j6", "name": "pi", "owner": "uid:0", "state": "running", "submitted_at": at, "chunks": fields{}, "iterations": fields{"total": 100, "accepted": 40}}},
				"lease": fields{"term": 7, "holder": "host2", "started_at": at}, "config": fields{"mode": "quorum", "voters": names[:3]},
				"members": []fields{{"node": "host1", "status": "member", "addr": "10.0.0.1", "version": "v1", "health": "suspect", "publishing": true}, {"node": long, "status": "member", "addr": "10.0.0.1", "version": "v1", "health": "alive"}},
			}}))
		case "/v1/log/density":
			counts := line(240, func(x float64) float64 { return math.Floor(30 * math.Abs(math.Sin(x/9))) })
			return said(200, row(fields{"from": ago(5 * time.Hour), "to": ago(0), "events": counts}))
		}
		return nil
	}
	return d
}

// cutOff finds texts that are not wholly seen: beyond the screen where nobody can scroll to
// them, beyond a box that hides what is beyond it, on each other. What ends in an
// ellipsis is whole in the title of it, or in what it leads to. Nobody has to scroll a table to
// see its last column but that of a matrix
// or of what a chart shows; a graph of many steps is as wide as these are many.
const cutOff = `(() => {
	const found = [], seen = [], root = document.querySelector("dialog[open]") ?? document.body, walk = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
	const scrolls = (e) => { for (; e && e !== document.body; e = e.parentElement) if (/auto|scroll/.test(getComputedStyle(e).overflowX)) return e; return null; };
	const name = (e) => e.tagName.toLowerCase() + (e.className?.baseVal ?? e.className ? "." + (e.className.baseVal ?? e.className) : "");
	for (let n; (n = walk.nextNode());) {
		const e = n.parentElement, text = n.textContent.trim();
		if (!text || e.closest(".quiet, .skip, script, style, title, option, datalist, canvas") || !e.checkVisibility({visibilityProperty: true, opacityProperty: true})) continue;
		const range = document.createRange();
		range.selectNodeContents(n);
		const what = JSON.stringify(text.slice(0, 60)) + " in " + name(e), room = scrolls(e);
		for (const r of range.getClientRects()) {
			if (r.width < 1 || r.height < 1) continue;
			if (!room && (r.right > innerWidth + 1 || r.left < -1)) found.push(what + " is beyond the screen");
			const svg = e.closest("svg")?.getBoundingClientRect();
			if (svg && (r.right > svg.right + 1 || r.left < svg.left - 1 || r.top < svg.top - 1 || r.bottom > svg.bottom + 3)) found.push(what + " is beyond its picture");
			if (!svg) for (let b = e; b && b !== root && b !== room; b = b.parentElement) {
				const s = getComputedStyle(b);
				if (s.overflowX !== "hidden" || s.display === "inline") continue;
				const box = b.getBoundingClientRect();
				if ((r.right > box.right + 1 || r.bottom > box.bottom + 4) && !(s.textOverflow === "ellipsis" && b.closest("a, [title]"))) found.push(what + " is cut by " + name(b));
			}
			const cell = e.closest("td, th")?.getBoundingClientRect();
			seen.push([cell ? {left: r.left, top: r.top, right: Math.min(r.right, cell.right), bottom: r.bottom} : r, what, room, e]);
		}
	}
	for (let i = 0; i < seen.length; i++) for (let k = i + 1; k < seen.length; k++) {
		const [a, x, roomA, p] = seen[i], [b, y, roomB, q] = seen[k];
		if (roomA !== roomB || p.contains(q) || q.contains(p) || /ellipsis/.test(getComputedStyle(p).textOverflow + getComputedStyle(p.parentElement).textOverflow)) continue;
		if (Math.min(a.right, b.right) - Math.max(a.left, b.left) > 3 && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 5) found.push(x + " lies on " + y);
	}
	if (document.documentElement.scrollWidth > innerWidth) found.push("it is wider than the screen");
	for (const e of root.querySelectorAll(".scroll")) if (e.scrollWidth > e.clientWidth + 1 && !e.querySelector(".matrix, .steps") && !e.closest("details")) found.push("the table of " + e.ariaLabel + " is wider than its place: " + e.scrollWidth + " px");
	return [...new Set(found)].slice(0, 12);
})()`

// cutInk notes what is written beyond the edge of a chart.
const cutInk = `window.__cut = []; {
	const fill = CanvasRenderingContext2D.prototype.fillText;
	CanvasRenderingContext2D.prototype.fillText = function (text, x, y) {
		const w = this.measureText(text).width, left = x - ({right: w, center: w / 2}[this.textAlign] ?? 0);
		if (this.canvas.closest(".uplot") && (left < -1 || left + w > this.canvas.width + 1)) __cut.push(text + " at " + Math.round(left) + " of " + this.canvas.width);
		return fill.apply(this, arguments);
	};
}`

// TestLooks opens all that can be seen: axe finds nothing, and nothing is cut off.
// SKEIN_PICTURES=DIR keeps a picture of each there.
func TestLooks(t *testing.T) {
	needBrowser(t)
	d := busy(t)
	p := openWith(t, d.link, cutInk)
	p.says("holds the lease", "live", "Step down", "checked by host0")
	p.run(axe(t) + "; 1")
	press := func(expression string) { p.run(expression + "?.click(), 1") }
	at := time.Now().Add(-time.Hour).UTC().Format("2006-01-02T15:04:05.000Z")
	dialog := func(button string) func() {
		return func() {
			press(fmt.Sprintf(`[...document.querySelectorAll("button")].find((b) => %s)`, button))
			p.until("a dialog", `document.querySelector("dialog[open]")`)
		}
	}
	for _, l := range looks() {
		for _, s := range []struct {
			path, wait string
			then       func()
		}{
			{path: "", wait: `document.querySelector(".lanes a.bar") && document.querySelectorAll(".events li").length === 10`},
			{path: "network", wait: `document.querySelectorAll("a.node").length === 5`},
			{path: "network?view=matrix"},
			{path: "network?view=links"},
			{path: "network?view=hosts"},
			{path: "events", wait: `document.querySelectorAll(".events li").length > 10`},
			{path: "events/host1/1/106", wait: `document.querySelector("main pre")`},
			{path: "lease?span=all", wait: `document.querySelectorAll(".lanes a.bar").length === 3`},
			{path: "jobs"},
			{path: "jobs/j7", wait: `document.querySelectorAll(".uplot canvas").length === 4`},
			{path: "workflows", wait: `document.querySelectorAll("[aria-label=schedules] tbody tr").length === 3 && document.querySelectorAll("a.step").length === 5`},
			{path: "workflows?schedule=" + scheduleID, wait: `document.querySelectorAll("[aria-label^='times of'] tbody tr").length === 16`},
			{path: "workflows/" + queuedID, wait: `document.querySelectorAll("[aria-label^='runs that share'] tbody tr").length === 2`},
			{path: "workflows/" + runID + "?step=price_of_each_book", wait: `document.querySelectorAll("a.step").length === 10 && document.body.textContent.includes("mean 17.25") && document.body.textContent.includes("that of a-host")`},
			{path: "workers"},
			{path: "zones", wait: `document.querySelectorAll("section.card").length >= 4`},
			{path: "onion"},
			{path: "network?host=a-host-with-a-long-name-in-frankfurt", wait: `document.querySelector("aside dl")`},
			{path: "?at=" + at, wait: `document.querySelector("#replay") && document.querySelector("path.density")?.getAttribute("d").length > 20`},
			{path: "", then: dialog(`b.getAttribute("aria-label") === "keys and help"`)},
			{path: "lease", then: dialog(`b.textContent === "Step down"`)},
		} {
			p.look(l.colours, l.width)
			p.at(s.path)
			if s.wait != "" {
				p.until(s.path+" is whole", s.wait)
			}
			name := s.path
			if s.then != nil {
				s.then()
				name += " dialog"
			}
			name = fmt.Sprintf("%s %d %s", l.colours, l.width, name)
			p.run(`new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))), 1`)
			p.picture(name)
			violations, err := chromedp.Run(p.ctx, chromedp.Evaluate[string](axeRun, chromedp.EvalAwaitPromise))
			if err != nil {
				t.Fatal(err)
			}
			if violations != "[]" {
				t.Errorf("%s: %s", name, violations)
			}
			var found []string
			p.value(cutOff, &found)
			var ink []string
			p.value(`__cut.splice(0)`, &ink)
			for _, f := range ink {
				found = append(found, f+" px is cut by its chart")
			}
			for _, f := range found {
				t.Errorf("%s: %s", name, f)
			}
			press(`document.querySelector("dialog[open] .x")`)
		}
	}
}

// picture keeps what the page looks like, if that is asked for.
func (tb *tab) picture(name string) {
	tb.t.Helper()
	dir := os.Getenv("SKEIN_PICTURES")
	if dir == "" {
		return
	}
	var size struct{ W, H float64 }
	tb.value(`({W: innerWidth, H: Math.min(6000, document.documentElement.scrollHeight)})`, &size)
	got, err := chromedp.Call(tb.ctx, page.CaptureScreenshot, page.CaptureScreenshotParams{
		CaptureBeyondViewport: new(true), Clip: &page.Viewport{Width: size.W, Height: size.H, Scale: 1},
	})
	if err != nil {
		tb.t.Fatal(err)
	}
	file := filepath.Join(dir, regexp.MustCompile(`\W+`).ReplaceAllString(name, "-")+".png")
	if err := os.WriteFile(file, got.Data, 0o600); err != nil {
		tb.t.Fatal(err)
	}
}
