package browser

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/skein-project/skein/web"
)

// tables answers what the plain pages ask, with texts that somebody hostile wrote; what
// else the page asks, a double does.
type tables struct{ double *double }

func (d tables) RoundTrip(r *http.Request) (*http.Response, error) {
	now := time.Now().UTC()
	answer := func(kind string, bodies ...fields) (*http.Response, error) {
		var text strings.Builder
		for _, b := range bodies {
			b["node"], b["observed_at"] = "host0", now
			text.WriteString(row(b) + "\n")
		}
		return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {kind}}, Body: io.NopCloser(strings.NewReader(text.String()))}, nil
	}
	lease := fields{"holder": "host1", "term": 7, "mode": "quorum", "profile": "lan", "voters": 3, "publisher": "host1", "config": fields{"voters": []string{"host0", "host1"}}}
	switch r.URL.Path {
	case "/v1/status":
		return answer("application/json", fields{"cluster": "big", "state": "degraded", "reasons": []string{hostile}, "role": "standby", "lease": lease, "members": fields{"total": 3, "alive": 2}})
	case "/v1/members":
		return answer("application/json", fields{"members": []fields{
			{"node": "host0", "self": true, "state": "alive", "role": "standby", "addr": "10.86.0.1", "version": "v1", "path": "self"},
			{"node": "host1", "state": "alive", "role": "holder", "addr": "10.86.0.2", "version": "v1", "path": "direct", "seen_seconds": 0.4, "rtt_seconds": 0.002},
			{"node": "host2", "state": "dead", "role": "standby", "addr": "10.86.0.3", "version": hostile},
		}})
	case "/v1/lease":
		return answer("application/json", lease)
	case "/v1/lease/history":
		return answer("application/json", fields{"terms": []fields{{"term": 7, "holder": "host1", "started_at": now.Add(-time.Minute), "grants": []string{"host0", "host1"}}, {"term": 6, "holder": hostile, "started_at": now.Add(-time.Hour), "ended_at": now.Add(-2 * time.Minute), "cause": hostile}}})
	case "/v1/lease/voters":
		return answer("application/json", fields{"voters": []fields{{"node": "host0", "state": "alive", "voter": true, "target": true}}})
	case "/v1/workers":
		return answer("application/json", fields{"workers": []fields{{"node": "host0", "live": "alive", "ready": true, "progress": "normal", "verdict": "route", "slots": 4, "accept": hostile}}})
	case "/v1/jobs":
		return answer("application/json", fields{"jobs": []fields{{"id": "jaaaaaaaaaaaaaaaaaaaaaaaaaa", "name": hostile, "owner": hostile, "state": "running", "submitted_at": now}}})
	case "/v1/workflows":
		return answer("application/json", fields{"workflows": []fields{{"id": runID, "name": hostile, "owner": hostile, "state": "failed", "reason": hostile, "submitted_at": now}}})
	case "/v1/workflows/" + runID:
		return answer("application/json", withOutputs(runOfMany(func(d time.Duration) string { return now.Add(-d).Format(time.RFC3339) })))
	case "/v1/onion":
		return answer("application/json", fields{"tor": fields{"enabled": false}, "problems": []string{hostile}})
	case "/v1/version":
		return answer("application/json", fields{})
	case "/v1/events":
		return answer("application/x-ndjson", fields{"source": fields{"node": "host1", "inc": 1}, "seq": 1, "time": now, "kind": "lease_released", "body": fields{"term": 6, "successor": hostile, "reason": strings.Repeat(hostile, 600)}})
	}
	return d.double.RoundTrip(r)
}

func openPages(t *testing.T) string {
	t.Helper()
	h, err := web.New(web.Options{API: tables{newDouble(t, 3)}, Names: []string{"127.0.0.1"}, ReadOnly: true, Base: "/ui"})
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(h)
	t.Cleanup(func() { s.CloseClientConnections(); s.Close() })
	return s.URL + "/"
}

// TestPlainPages: without a script every page is there, shows what others wrote as text,
// leads to the others and is filtered by its form; nothing else is asked for.
func TestPlainPages(t *testing.T) {
	needBrowser(t)
	base := openPages(t)
	p := open(t, base+"p/overview")
	p.base = base
	p.scripts(false)
	for _, page := range []string{"overview", "members", "lease", "events", "jobs", "workflows", "workflows?run=" + runID, "workers", "onion"} {
		p.do(chromedp.Navigate(base + "p/" + page))
		name, _, _ := strings.Cut(page, "?")
		p.until("page "+page, fmt.Sprintf(`document.querySelector("h1")?.textContent.toLowerCase() === %q && document.querySelectorAll("nav a").length === 8`, name))
		var bad bool
		if p.value(`!!document.querySelector("script, img, svg, [style], iframe, object")`, &bad); bad {
			t.Errorf("%s has more than tables", page)
		}
		if p.value(`/[\u202e\u0000\u001b\u2028]/.test(document.body.textContent)`, &bad); bad {
			t.Errorf("%s shows what cannot be seen", page)
		}
		p.scripts(true) // axe is one; the page has none
		p.judgeNow(axe(t), page)
		p.scripts(false)
	}
	p.do(chromedp.Navigate(base + "p/members"))
	p.until("three hosts", `document.querySelectorAll("tbody tr").length === 3`)
	p.run(`document.querySelector("[name=q]").value = "DEAD"; document.querySelector("form").submit(); 1`)
	p.until("one host", `location.search.includes("q=DEAD") && document.querySelectorAll("tbody tr").length === 1`)
	p.says("host2")
	p.do(chromedp.Navigate(base))
	p.until("the page has data without its script", `document.querySelector("#plain .sentence")?.textContent.includes("Cluster big is degraded") && !document.querySelector("#app *")`)
}

// scripts lets the browser run any, or none.
func (tb *tab) scripts(run bool) {
	tb.t.Helper()
	tb.do(func(ctx context.Context, _ *chromedp.Target) (chromedp.Void, error) {
		_, err := chromedp.Call(ctx, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: !run})
		return chromedp.Void{}, err
	})
}

// judgeNow has axe judge what is shown now, in both colours and widths.
func (tb *tab) judgeNow(axe, page string) {
	tb.t.Helper()
	tb.run(axe + "; 1")
	for _, l := range looks() {
		tb.look(l.colours, l.width)
		text, err := chromedp.Run(tb.ctx, chromedp.Evaluate[string](
			`axe.run(document, {resultTypes: ["violations"]}).then((r) => JSON.stringify(r.violations.map((v) => v.id + ": " + v.nodes.map((n) => n.html.slice(0, 200) + " " + n.failureSummary).join(" | "))))`, chromedp.EvalAwaitPromise))
		if err != nil {
			tb.t.Fatal(err)
		}
		if text != "[]" {
			tb.t.Errorf("%s, %d px, %s: %s", l.colours, l.width, page, text)
		}
		var over bool
		if tb.value(`document.documentElement.scrollWidth > innerWidth`, &over); over {
			tb.t.Errorf("%s, %d px, %s is wider than the screen", l.colours, l.width, page)
		}
	}
	tb.look("light", 1280)
}

// TestOpenPage: where everybody may read, the page has data until its script has a picture,
// asks below its base, and has no bearer.
func TestOpenPage(t *testing.T) {
	needBrowser(t)
	base := openPages(t)
	p := open(t, base)
	p.says("live", "holds the lease")
	p.until("the script has taken over", `!document.getElementById("plain") && document.querySelector("#app h1")`)
	p.at("events")
	p.mu.Lock()
	defer p.mu.Unlock()
	asked := 0
	for _, text := range p.asked {
		u, err := url.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(u.Path, "/v1/") {
			t.Errorf("it asked %s", text)
		}
		if strings.HasPrefix(u.Path, "/ui/v1/") {
			asked++
		}
	}
	if asked == 0 {
		t.Error("it asked nothing below its base")
	}
}
