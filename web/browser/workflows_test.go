package browser

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp/kb"
)

const runID = "waaaaaaaaaaaaaaaaaaaaaaaaaa"

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
		priced = append(priced, fields{"index": i, "state": state, "try": 1 + i%2, "job": "jgoodaaaaaaaaaaaaaaaaaaaaaa", "item": fields{"book": "emerging-markets-fx", "day": i}})
	}
	return fields{
		"id": runID, "name": "value-at-risk-of-the-portfolio", "owner": "alice@example.org", "state": "running", "reason": "", "round": 1, "submitted_at": ago(20 * time.Minute), "finished_at": nil, "elapsed_seconds": 1200,
		"steps": []fields{
			step("mount", "completed", one("completed", "jmountaaaaaaaaaaaaaaaaaaaaaa"), fields{"role": "setup"}),
			step("prepare", "completed", one("completed", "jprepaaaaaaaaaaaaaaaaaaaaaaa")),
			step("price_of_each_book", "running", after("prepare"), fields{"many": true, "total": 64, "counts": fields{"completed": 31, "running": 33}, "instances": priced}),
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
	p.until("the list", `document.querySelectorAll("main tbody tr").length === 2`)
	p.says("step render: failed: exit code 3")
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
	p.at("workflows/nix")
	p.says("No run has this id or name")
}
