package browser

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp/kb"
)

const (
	runID      = "waaaaaaaaaaaaaaaaaaaaaaaaaa"
	queuedID   = "wcccccccccccccccccccccccccc"
	scheduleID = "saaaaaaaaaaaaaaaaaaaaaaaaaa"
)

// behind is a job that waits for others.
func behind(ago func(time.Duration) string, id, name string, after ...string) fields {
	return fields{
		"id": id, "name": name, "owner": "uid:0", "state": "queued", "submitted_at": ago(5 * time.Minute), "elapsed_seconds": 300, "spec": fields{"after": after},
		"chunks": fields{"total": 10, "pending": 10}, "iterations": fields{"total": 100}, "attempts": fields{}, "waits": "waits for job j7, which is running",
	}
}

// schedules are one that goes well, one that did not always, and one that is paused.
func schedules(ago func(time.Duration) string) []fields {
	one := func(id, name string, more ...fields) fields {
		out := fields{
			"id": id, "name": name, "owner": "uid:0", "workflow": "nightly", "cron": "30 2 * * *", "zone": "Europe/Berlin", "missed": "last", "missed_seconds": 86400, "overlap": "skip", "paused": false, "set_at": ago(99 * time.Hour),
			"set_by": "uid:0@host1", "open_runs": 1, "next": []string{ago(-3 * time.Hour), ago(-27 * time.Hour), ago(-51 * time.Hour)},
		}
		var last []fields
		for i := range 16 {
			at := time.Duration(1+24*i) * time.Hour
			last = append(last, fields{"at": ago(at), "logged_at": ago(at - 2*time.Second), "run": "wbbbbbbbbbbbbbbbbbbbbbbbbbb"})
		}
		out["last"] = last
		for _, m := range more {
			maps.Copy(out, m)
		}
		return out
	}
	bad := one(scheduleID, "portfolio-at-the-end-of-each-trading-day-in-frankfurt")
	bad["last"].([]fields)[0] = fields{"at": ago(time.Hour), "logged_at": ago(time.Hour), "skipped": "other runs have not ended"}
	bad["last"].([]fields)[3] = fields{"at": ago(73 * time.Hour), "logged_at": ago(60 * time.Hour), "skipped": "missed", "missed": 4}
	return []fields{bad, one("sbbbbbbbbbbbbbbbbbbbbbbbbbb", "nightly"), one("scccccccccccccccccccccccccc", "yearly", fields{"paused": true, "next": []string{}, "last": []fields{}})}
}

// runOfMany is a run that is under way, of steps in all states, one with many instances.
func runOfMany(ago func(time.Duration) string) fields {
	one := func(state, job string) fields {
		return fields{"total": 1, "counts": fields{state: 1}, "instances": []fields{{"index": 0, "state": state, "try": 1, "job": job}}}
	}
	step := func(name, state string, more ...fields) fields {
		out := fields{"name": name, "state": state, "reason": "", "total": 0, "counts": fields{}, "instances": []fields{}}
		for _, m := range more {
			maps.Copy(out, m)
		}
		return out
	}
	after := func(names ...string) fields { return fields{"after": names} }
	var priced []fields
	for i := range 40 {
		state := "completed"
		if i > 30 {
			state = "running"
		}
		priced = append(priced, fields{"index": i, "state": state, "try": 1 + i%2, "job": "jgoodaaaaaaaaaaaaaaaaaaaaaa", "disputed": i == 3, "item": fields{"book": "emerging-markets-fx", "day": i}})
	}
	return fields{
		"id": runID, "name": "value-at-risk-of-the-portfolio", "owner": "alice@example.org", "state": "running", "reason": "", "round": 1, "submitted_at": ago(20 * time.Minute), "finished_at": nil, "elapsed_seconds": 1200,
		"steps": []fields{
			step("mount", "completed", one("completed", "jmountaaaaaaaaaaaaaaaaaaaaaa"), fields{"role": "setup"}),
			step("prepare", "completed", one("completed", "jprepaaaaaaaaaaaaaaaaaaaaaaa")),
			step("price_of_each_book", "running", after("prepare"), fields{"many": true, "total": 64, "disputed": 1, "counts": fields{"completed": 31, "running": 33}, "instances": priced}),
			step("check", "failed", after("prepare"), one("failed", "jcheckaaaaaaaaaaaaaaaaaaaaaa"), fields{"on_failure": "ignore", "reason": "exit code 3; standard error: no such instrument DE000BASF111 in the portfolio"}),
			step("alarm", "completed", one("completed", "jalarmaaaaaaaaaaaaaaaaaaaaaa"), fields{"after_failed": []string{"check"}}),
			step("audit", "ready", one("ready", ""), fields{"after_done": []string{"check"}}),
			step("never", "skipped", after("check"), fields{"reason": "step check: failed"}),
			step("report", "blocked", after("price_of_each_book")),
			step("publish", "blocked", after("report", "audit")),
			step("unmount", "blocked", fields{"role": "teardown"}),
		},
	}
}

// withOutputs is the same run as it is read by itself.
func withOutputs(run fields) fields {
	out := maps.Clone(run)
	var steps []fields
	for _, s := range run["steps"].([]fields) {
		s = maps.Clone(s)
		var list []fields
		for _, in := range s["instances"].([]fields) {
			in = maps.Clone(in)
			in["outputs"] = fields{"mean": 17.25}
			list = append(list, in)
		}
		s["instances"] = list
		steps = append(steps, s)
	}
	out["steps"] = steps
	return out
}

// TestWorkflows: the list, a run as a graph and as a table that say the same, one step with
// its instances and outputs by the keyboard, what changes as it comes, and stop and retry
// for who may.
func TestWorkflows(t *testing.T) {
	needBrowser(t)
	d := busy(t)
	busyAnswer := d.answer
	var mu sync.Mutex
	var asked []request
	d.answer = func(r *http.Request) *http.Response {
		if r.Method != http.MethodPost {
			return busyAnswer(r)
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return said(400, `{"code":"invalid_request","detail":"no body"}`)
		}
		mu.Lock()
		defer mu.Unlock()
		asked = append(asked, request{r.URL.Path, string(body), r.Header.Get("Idempotency-Key")})
		return said(200, `{"api_version":"1"}`)
	}
	p := open(t, d.link)
	p.says("holds the lease", "live")
	p.press("6")
	p.until("the list", `document.querySelectorAll("[aria-label='runs of workflows'] tbody tr").length === 4`)
	p.says("step render: failed: exit code 3", "queued, number 2")

	// Schedules: each with its next time, what came of the last one, and all of one in words.
	p.until("the schedules", `document.querySelectorAll("[aria-label=schedules] tbody tr").length === 3`)
	p.says("in\u00a03h", "other runs have not ended", "paused")
	p.until("the latest times in a picture", `document.querySelector("svg[aria-label='16 times: 14 runs, 2 without, 4 missed'] rect.parked")`)
	p.run(`[...document.querySelectorAll("[aria-label=schedules] a.word")].find((a) => a.textContent.startsWith("portfolio")).click(); 1`)
	p.until("its times", `document.querySelectorAll("[aria-label^='times of'] tbody tr").length === 16`)

	// Jobs that wait for others: the picture and the table say the same.
	var jobs []string
	p.value(`[...document.querySelectorAll("a.step")].map((a) => a.getAttribute("aria-label"))`, &jobs)
	for _, want := range []string{"sum-of-the-portfolio-2026-11, queued, after a-portfolio-with-a-long-name-2026-11", "publish, queued, after sum-of-the-portfolio-2026-11, jgoneaaaa\u2026 failed, pi ended", "pi, completed"} {
		if !slices.Contains(jobs, want) {
			t.Errorf("no job %q among %q", want, jobs)
		}
	}
	p.until("the table of them", `document.querySelectorAll("[aria-label='jobs that wait for others'] tbody tr").length === 5`)
	p.at("workflows/" + runID)
	p.until("a box for each step", `document.querySelectorAll("a.step").length === 10`)
	d.watched(t, "of the run", func(q url.Values) bool { return len(q["workflow"]) == 1 && q["workflow"][0] == runID })
	const differ = `[...document.querySelectorAll("a.step")].filter((b) => {
		const row = [...document.querySelectorAll("main table")].flatMap((t) => [...t.querySelectorAll("tbody tr")]).find((r) => r.querySelector("td a")?.textContent === b.dataset.step);
		return !row || !b.getAttribute("aria-label").startsWith(b.dataset.step + ", " + row.querySelector(".state").lastElementChild.textContent);
	}).map((b) => b.dataset.step)`
	var other []string
	if p.value(differ, &other); len(other) > 0 {
		t.Errorf("the picture and the table say other things of %s", other)
	}
	p.until("6 lines of after, 1 of failed, 1 of done, 4 of roles", `["after", "failed", "done", "role"].map((k) => document.querySelectorAll("svg.steps .way." + k).length).join() === "6,1,1,4"`)
	var wrong []string
	if p.value(`(() => { const at = (n) => document.querySelector("a.step[data-step=" + n + "] rect").x.baseVal.value; return [["mount","prepare"],["prepare","check"],["check","alarm"],["report","publish"],["publish","unmount"]].filter(([a, b]) => at(a) >= at(b)).map(String); })()`, &wrong); len(wrong) > 0 {
		t.Errorf("steps stand before those that they wait for: %s", wrong)
	}

	p.run(`document.querySelector("a.step[data-step=prepare]").focus(); 1`)
	for range 10 {
		var at string
		if p.value(`document.activeElement.dataset.step ?? ""`, &at); at == "price_of_each_book" {
			break
		}
		p.press(kb.ArrowRight)
	}
	p.press(kb.Enter)
	p.until("its instances", `document.querySelectorAll("[aria-label='instances of price_of_each_book'] tbody tr").length === 40`)
	p.says("mean 17.25", "40 of 64 instances")

	changed := runOfMany(func(time.Duration) string { return time.Now().UTC().Format(time.RFC3339) })
	changed["steps"].([]fields)[7]["state"] = "running"
	d.lines <- fmt.Sprintf(`{"event":"delta","data":{"topic":"workflow/%s","set":[%s]}}`, runID, row(changed))
	p.until("report runs", `document.querySelector("a.step.running[data-step=report]")`)

	p.says("In doubt", "price_of_each_book[3]", "17", "that of a-host-with-a-long-name-in-frankfurt")

	press := func(title, typed string) request {
		t.Helper()
		p.until(title, fmt.Sprintf(`[...document.querySelectorAll("main button")].find((b) => b.textContent === %q)?.click() ?? document.querySelector("dialog[open]")`, title))
		p.until("what is to be typed", `document.querySelector("dialog[open] input")`)
		p.run(fmt.Sprintf(`{ const i = document.querySelector("dialog[open] input"); i.value = %q; i.dispatchEvent(new Event("input", {bubbles: true})); } 1`, typed))
		p.until("it may be sent", `!document.querySelector("dialog[open] button[type=submit]").disabled`)
		p.run(`document.querySelector("dialog[open] button[type=submit]").click(); 1`)
		p.says("Done.")
		p.press(kb.Escape)
		p.until("it is closed", `!document.querySelector("dialog[open]")`)
		mu.Lock()
		defer mu.Unlock()
		return asked[len(asked)-1]
	}
	if got := press("Stop run", "value-at-risk-of-the-portfolio"); got.path != "/v1/workflows/"+runID+"/stop" || !strings.Contains(got.body, "asked in the page") {
		t.Errorf("%+v", got)
	}
	changed["state"], changed["finished_at"] = "cancelled", time.Now().UTC().Format(time.RFC3339)
	d.lines <- fmt.Sprintf(`{"event":"delta","data":{"topic":"workflow/%s","set":[%s]}}`, runID, row(changed))
	if got := press("Retry run", "value-at-risk-of-the-portfolio"); got.path != "/v1/workflows/"+runID+"/retry" || got.body != "{}" {
		t.Errorf("%+v", got)
	}
	p.at("workflows?schedule=" + scheduleID)
	const schedule = "portfolio-at-the-end-of-each-trading-day-in-frankfurt"
	if got := press("Pause", schedule); got.path != "/v1/schedules/"+scheduleID+"/pause" || got.body != "{}" {
		t.Errorf("%+v", got)
	}
	if got := press("Run now", schedule); got.path != "/v1/schedules/"+scheduleID+"/run" || got.key == "" {
		t.Errorf("%+v", got)
	}
	p.at("workflows/" + queuedID)
	p.says("Number 2 of those that wait in group nightly-jobs-of-the-portfolio")
	p.at("workflows/nix")
	p.says("No run has this id or name")
}
