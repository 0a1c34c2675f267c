package browser

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

const loadID = "laaaaaaaaaaaaaaaaaaaaaaaaaa"

// TestLoads: the list of load tests; one as it goes, whose figures are the sums of what was
// told; its stop, which has to be typed, and its end.
func TestLoads(t *testing.T) {
	needBrowser(t)
	d := busy(t)
	busyAnswer := d.answer
	var mu sync.Mutex
	told, stopped, ended := 0, "", false
	d.answer = func(r *http.Request) *http.Response {
		mu.Lock()
		defer mu.Unlock()
		state, verdict := "started", ""
		if ended {
			state, verdict = "ended", "stopped"
		}
		one := fields{
			"id": loadID, "name": "shop <b>of</b> all", "owner": "alice@example.org", "state": state, "verdict": verdict, "submitted_at": time.Now().UTC().Format(time.RFC3339),
			"hosts": []fields{{"host": "host0", "share": 0.5}, {"host": "host1", "share": 0.5}},
		}
		var out any
		switch {
		case r.Method == http.MethodPost && r.URL.Path == "/v1/load/"+loadID+"/stop":
			body, err := io.ReadAll(r.Body)
			if err != nil {
				return said(400, `{"code":"invalid_request","detail":"no body"}`)
			}
			stopped, ended = string(body), true
			return said(200, `{"api_version":"1"}`)
		case r.URL.Path == "/v1/load":
			out = fields{"runs": []fields{one, {"id": "lb", "name": "old", "owner": "bob", "state": "ended", "verdict": "failed", "why": "p(95)<500 is 900 ms", "submitted_at": "2026-01-02T12:00:00Z", "hosts": []fields{}}}}
		case r.URL.Path == "/v1/load/"+loadID:
			out = one
		case r.URL.Path == "/v1/load/"+loadID+"/live":
			if r.URL.Query().Get("after") == "" {
				told = 0
			}
			if told == 3 && !ended {
				return said(200, `{"state":"started","next":"3","at":3,"of":60,"seconds":0,"users":0,"queue":0,"steps":[],"latency":{"p50":0,"p95":0,"p99":0,"max":0},"hosts":[]}`)
			}
			told = min(told+1, 3)
			times := fields{"p50": 0.021, "p95": 0.066, "p99": 0.11 + 0.02*float64(told), "max": 0.402}
			x := fields{
				"state": state, "verdict": verdict, "doing": "running", "next": strconv.Itoa(told), "at": float64(told), "of": 60.0, "seconds": 1.0, "users": 212, "queue": 3, "planned": 300.0, "latency": times,
				"steps":      []fields{{"name": "pay", "requests": 100, "failed": 2, "dropped": 1, "classes": fields{"ok": 99, "timeout": 1, "dropped": 1}, "checks": fields{"passed": 98, "failed": 2}, "latency": times}},
				"hosts":      []fields{{"host": "host0", "stage": "running", "at": 1, "requests": 50, "cpu": 0.31, "clock": 0.0004, "share": 0.5}, {"host": "host1", "stage": "running", "at": 1, "requests": 50, "cpu": 0.9, "clock": 0.0008, "share": 0.5, "lost": "not heard for 15s"}},
				"thresholds": []fields{{"text": "p(95)<500", "ok": true, "value": 0.066, "unit": "s", "samples": true}, {"text": "pay: p(99)<100ms", "ok": false, "value": 0.13, "unit": "s", "samples": true}},
			}
			if ended {
				x["steps"], x["latency"] = []fields{}, fields{"p50": 0, "p95": 0, "p99": 0, "max": 0}
			}
			out = x
		default:
			return busyAnswer(r)
		}
		text, err := json.Marshal(out)
		if err != nil {
			t.Error(err)
		}
		return said(200, string(text))
	}
	p := open(t, d.link)
	p.says("holds the lease", "live")
	p.press("9")
	p.until("the list", `document.querySelectorAll("main tbody tr").length === 2`)
	p.says("shop <b>of</b> all", "running", "p(95)<500 is 900 ms")
	p.at("load/" + loadID)
	p.until("all that was told", `document.querySelector("main")?.textContent.includes("300") && document.querySelectorAll("svg polyline").length === 1`)
	p.says("breached", "lost: not heard for 15s", "timeout", "98.0%")
	p.until("three answers are summed", `[...document.querySelectorAll("[aria-label=steps] tbody td")].map((c) => c.textContent).includes("300")`)
	p.accessible([]string{"load", "load/" + loadID}, looks()...)
	if at := os.Getenv("SKEIN_PICTURE"); at != "" {
		picture(t, p, at)
	}
	p.at("load/" + loadID)
	p.until("what is to be typed", `[...document.querySelectorAll("main button")].find((b) => b.textContent === "Stop load test")?.click() ?? document.querySelector("dialog[open] input")`)
	p.run(`{ const i = document.querySelector("dialog[open] input"); i.value = "shop <b>of</b> all"; i.dispatchEvent(new Event("input", {bubbles: true})); } 1`)
	p.until("it may be sent", `!document.querySelector("dialog[open] button[type=submit]").disabled`)
	p.run(`document.querySelector("dialog[open] button[type=submit]").click(); 1`)
	p.says("Done.")
	mu.Lock()
	if !strings.Contains(stopped, "asked in the page") {
		t.Errorf("the stop said %q", stopped)
	}
	mu.Unlock()
	p.until("it has ended", `document.querySelector("main .sentence .state")?.textContent.includes("stopped")`)
}
