package browser

import (
	"encoding/json"
	"fmt"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/skein-project/skein/api"
)

// TestDaemons: the page of three daemons. It says what the API says, follows when the
// holder is killed without being loaded again, acts, and is usable by everybody.
func TestDaemons(t *testing.T) {
	needBrowser(t)
	hosts := cluster(t)
	seen := hosts[1]
	before := momentOfThree(t, seen)
	id := skein(t, "--socket", seen.socket(), "job", "run", "--wasm", filepath.Join(filepath.Dir(program(t)), "examples", "pi.wasm"),
		"--iterations", "12000", "--chunk", "1000", "--name", "pi<b>", "--key", "k")
	p := open(t, seen.ui(t))
	p.says("n1 holds the lease of term 1", "all 3 hosts are alive", "seen from n2")
	p.until("the code is not in the address", `location.hash === "#/"`)
	other := open(t, seen.ui(t)+"/lease")
	other.until("the page that the link names", `location.hash === "#/lease" && document.querySelector("h1").textContent === "Lease"`)
	p.run(`window.loadedOnce = 1`)

	// As the API has it.
	var members api.Members
	seen.raw(t, "/v1/members", &members)
	p.at("network?view=hosts")
	for _, m := range members.Members {
		p.until("host "+string(m.Node), fmt.Sprintf(`[...document.querySelectorAll("tbody tr")].some((r) => r.textContent.startsWith(%q) && r.textContent.includes("alive"))`, m.Node))
		p.at("network?view=hosts&host=" + string(m.Node))
		p.says(m.Addr, m.Version)
	}
	p.at("network?view=links")
	p.until("each host's word of each other one", `[...document.querySelectorAll("tbody tr")].filter((r) => /alive/.test(r.textContent) && /direct/.test(r.textContent)).length === 6`)
	p.at("network")
	p.until("the crown", `document.querySelector("[data-crown]")?.dataset.crown === "n1"`)
	p.until("no half of a link that is not up", `document.querySelectorAll("line.half.up").length >= 6 && document.querySelectorAll(".edge line.half:not(.up)").length === 0`)
	p.at("jobs")
	p.says("pi<b>")
	p.at("jobs/" + id)
	p.says("completed", "100%", "12 accepted")
	p.until("the map of the chunks", `document.querySelector("path.chunk.accepted")`)
	p.until("charts", `document.querySelectorAll(".uplot canvas").length === 3`)
	p.says("Progress and rate", "Mean of pi", "Share of each host over time")
	p.until("each with a table that says the same", `(() => {
		const last = [...document.querySelectorAll("details")].map((d) => { d.open = true; return d.querySelector("tbody tr").textContent; });
		return last.length === 3 && last[0].includes("100.0%") && last[1].includes("3.1");
	})()`)
	var series api.JobSeries
	seen.raw(t, "/v1/jobs/"+id+"/series", &series)
	if n := len(series.Iterations); n != api.UsualPoints || series.Iterations[n-1] != 12000 || len(series.Metrics) != 1 {
		t.Errorf("how the job went: %+v", series)
	}
	var j api.Job
	seen.raw(t, "/v1/jobs/"+id, &j)
	p.says(fmt.Sprint(j.Aggregates["pi"].Mean)[:6], string(j.ID))
	p.at("events?q=kind:term_start")
	p.says("term 1: n1 holds the lease")
	p.at("events/n1/1/1")
	p.says("Event 1 of n1", "the first of its chain")
	p.at("events?q=kind%3Ano_such")
	p.says("No event.")

	t.Run("keys", func(t *testing.T) { testKeys(t, p, hosts, id) })

	t.Run("proof", func(t *testing.T) { testProof(t, seen) })

	t.Run("as of", func(t *testing.T) { testAsOf(t, seen, before, time.Now(), id) })

	t.Run("everybody", func(t *testing.T) {
		defer p.as(t)()
		p.accessible(append(paths(), "jobs/"+id, "events/n1/1/1"), looks()[1:]...) // TestLooks has the others
	})

	t.Run("islands", func(t *testing.T) { testIslands(t, p, hosts) })

	t.Run("the holder is killed", func(t *testing.T) {
		defer p.as(t)()
		p.at("network")
		p.until("the crown", `document.querySelector("[data-crown]")?.dataset.crown === "n1"`)
		began := time.Now()
		hosts[0].kill()
		var told time.Duration
		s := seen.await(t, "under another holder", func(s api.Status) error {
			if s.Lease.Holder == "n1" || s.Lease.Holder == "" || s.Lease.Term < 2 {
				return fmt.Errorf("%q holds the lease", s.Lease.Holder)
			}
			told = time.Since(began)
			return nil
		})
		p.until("the crown moves", fmt.Sprintf(`document.querySelector("[data-crown]")?.dataset.crown === %q`, s.Lease.Holder))
		moved := time.Since(began)
		t.Logf("another holder after %s, its crown after %s", told.Round(time.Millisecond), moved.Round(time.Millisecond))
		most := 20 * time.Second
		if proving() { // nothing else runs then
			most = time.Second
		}
		if moved-told > most {
			t.Errorf("the page is %s behind the API, want at most %s", moved-told, most)
		}
		p.until("n1 stands apart", `[...document.querySelectorAll("text.island")].some((e) => e.textContent === "not reached")`)
		p.at("events?q=kind:term_start")
		p.says(fmt.Sprintf("term %d: %s holds the lease", s.Lease.Term, s.Lease.Holder), "after n1")
		p.at("lease")
		p.until("a bar for each term", `document.querySelectorAll(".lanes a.bar").length >= 2`)
		var terms api.LeaseHistory
		seen.raw(t, "/v1/lease/history", &terms)
		now, was := terms.Terms[0], terms.Terms[1]
		if was.LastEvidenceAt == nil || now.GapSeconds == nil || *now.GapSeconds <= 0 || now.StartedAt.Sub(*was.LastEvidenceAt).Seconds() != *now.GapSeconds {
			t.Errorf("between the terms: %+v and %+v", was, now)
		}
		p.until("the gap is red", `document.querySelectorAll(".lanes rect.gap").length === 1`)
		p.until("its length", `[...document.querySelectorAll("td .bad")].length >= 1`)
		p.at("lease?span=15m&from=" + url.QueryEscape(was.LastEvidenceAt.Add(time.Millisecond).Format(time.RFC3339Nano)) + "&to=" + url.QueryEscape(now.StartedAt.Add(time.Millisecond).Format(time.RFC3339Nano)))
		p.until("the event that ended the gap", `[...document.querySelectorAll(".events li")].some((e) => e.textContent.includes("term_start"))`)
		p.until("and not the first term", `![...document.querySelectorAll(".events li")].some((e) => e.textContent.includes("term 1:"))`)
		p.until("what is marked", `document.querySelector(".lanes rect.brushed")`)
		p.at("")
		p.says(fmt.Sprintf("%s holds the lease of term %d", s.Lease.Holder, s.Lease.Term), "n1 suspect")
		p.until("it was loaded once", `window.loadedOnce === 1`)
	})

	t.Run("brushing", func(t *testing.T) {
		defer p.as(t)()
		p.at("lease?span=all")
		p.run(`(() => {
			const svg = document.querySelector(".lanes svg"), box = svg.getBoundingClientRect();
			const at = (type, x) => svg.dispatchEvent(new PointerEvent(type, {bubbles: true, button: 0, clientX: box.left + box.width * x, clientY: box.top + 5}));
			at("pointerdown", 0.3); at("pointermove", 0.5); at("pointermove", 0.9); at("pointerup", 0.9);
			return 1;
		})()`)
		p.until("the span is in the address", `/from=.*&to=/.test(location.hash) && !!document.querySelector(".brushed")`)
		p.says("Events from")
		p.run(`[...document.querySelectorAll("a")].find((a) => a.textContent === "filter the events").click(), 1`)
		p.until("as a filter", `/^since:\d{4}-.*Z until:\d{4}-.*Z$/.test(document.getElementById("filter")?.value)`)
	})

	t.Run("export", func(t *testing.T) {
		defer p.as(t)()
		p.run(`URL.createObjectURL = (b) => { b.text().then((text) => { window.__saved = text; }); return "#/events"; }, 1`)
		p.at("events?q=kind%3Aterm_start,member_joined")
		p.until("the command", `document.querySelector("main").textContent.includes("skein events --all -o jsonl --kind 'term_start,member_joined'")`)
		p.run(`[...document.querySelectorAll("main button")].find((b) => b.textContent === "Export").click(), 1`)
		p.until("it is saved", `window.__saved`)
		var saved string
		p.value(`window.__saved`, &saved)
		printed := skein(t, "--socket", seen.socket(), "events", "--all", "-o", "jsonl", "--kind", "term_start,member_joined")
		said := regexp.MustCompile(`"(observed_at|position)":[^,]*,`) // when it was asked
		if a, b := said.ReplaceAllString(strings.TrimSpace(saved), ""), said.ReplaceAllString(printed, ""); a != b || strings.Count(a, "\n") < 3 {
			t.Errorf("the page saved\n%s\nthe command printed\n%s", a, b)
		}
	})

	t.Run("an action once, and its event", func(t *testing.T) {
		defer p.as(t)()
		p.run(`(() => { const f = window.fetch; window.fetch = (u, o) => { if (o?.method === "POST") window.__sent = [u, {...o, signal: undefined}]; return f(u, o); }; return 1; })()`)
		s := seen.await(t, "held", func(s api.Status) error {
			if s.Lease.Holder == "" {
				return fmt.Errorf("nobody holds")
			}
			return nil
		})
		holder := string(s.Lease.Holder)
		p.at("lease")
		p.run(`[...document.querySelectorAll("main button")].find((b) => b.textContent === "Step down").click(), 1`)
		p.until("the question", `document.querySelector("dialog[open] input")`)
		p.do(chromedp.SendKeys("dialog input", holder), chromedp.KeyEvent("\r"))
		p.until("a link to its event", `/^#\/events\/.+\/\d+\/\d+$/.test(document.querySelector("dialog p a")?.getAttribute("href"))`)
		events := func() []string {
			return strings.Split(skein(t, "--socket", seen.socket(), "events", "--all", "-o", "jsonl", "--kind", "step_down_asked"), "\n")
		}
		list := events()
		var e api.Event
		if err := json.Unmarshal([]byte(list[0]), &e); err != nil || len(list) != 1 || string(e.Source.Node) != holder {
			t.Fatalf("in the log: %v, %v", list, err)
		}
		var href string
		p.value(`document.querySelector("dialog p a").getAttribute("href")`, &href)
		if want := fmt.Sprintf("#/events/%s/%d/%d", e.Source.Node, e.Source.Inc, e.Seq); href != want {
			t.Errorf("the link is to %s, want %s", href, want)
		}
		// The same request again, as after an answer that was lost.
		p.run(`fetch(...window.__sent).then(async (r) => { window.__again = [r.status, new Headers(window.__sent[1].headers).get("Idempotency-Key")]; }), 1`)
		p.until("it is answered as before", `window.__again?.[0] === 200 && window.__again[1].length === 36`)
		if again := events(); len(again) != 1 {
			t.Errorf("asked for twice under one key, it was done twice: %v", again)
		}
		p.run(`document.querySelector("dialog p a").click(), 1`)
		p.says(fmt.Sprintf("Event %d of %s", e.Seq, e.Source.Node))
	})
}

// TestLink: it opens one page, once; another tab of it is let in by the first.
func TestLink(t *testing.T) {
	needBrowser(t)
	d := newDouble(t, 3)
	p := open(t, d.link)
	p.says("holds the lease")
	p.do(chromedp.Navigate("about:blank"), chromedp.Navigate(d.link))
	p.says("holds the lease") // this tab has its key
	other := open(t, d.link)
	other.says("This page is closed", "skein ui")
	other.mu.Lock()
	defer other.mu.Unlock()
	asked := slices.DeleteFunc(slices.Clone(other.asked), func(url string) bool { return strings.Contains(url, "/assets/") })
	if len(asked) > 3 {
		t.Errorf("it asked %d times: %v", len(asked), asked)
	}
}
