package browser

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/skein-project/skein/cluster/event"
)

// request is one for a change.
type request struct{ path, body, key string }

// TestActions: each action asks for what it says, once however often it is sent, and leads
// to its own event: not to one of before, nor to that of another host or job.
func TestActions(t *testing.T) {
	needBrowser(t)
	d := newDouble(t, 3)
	var mu sync.Mutex
	var asked []request
	lost := true // the next answer, on its way back
	d.answer = func(r *http.Request) *http.Response {
		if r.URL.Path == "/v1/whoami" {
			return said(200, `{"name":"uid:0","role":"administrator","rights":{"look":"all","read":"all","use":"all","operate":"all"}}`)
		}
		if r.Method != http.MethodPost {
			return nil
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return said(400, `{"code":"invalid_request","detail":"no body"}`)
		}
		mu.Lock()
		defer mu.Unlock()
		asked = append(asked, request{r.URL.Path, string(body), r.Header.Get("Idempotency-Key")})
		if lost = !lost; !lost {
			return said(503, `{"code":"not_ready","detail":"the holder does not answer"}`)
		}
		return said(200, `{"api_version":"1"}`)
	}
	p := open(t, d.link)
	p.says("holds the lease", "live")
	tell := func(topic string, v any) {
		d.lines <- fmt.Sprintf(`{"event":"delta","data":{"topic":%q,"set":[%s]}}`, topic, row(v))
	}
	seq := 100
	write := func(node string, kind event.Kind, body any) {
		seq++
		d.lines <- fmt.Sprintf(`{"event":"log","data":{"events":[%s],"cursor":"n0/1:%d"}}`, row(fields{
			"source": fields{"node": node, "inc": 1}, "seq": seq, "hlc": time.Now().UnixMilli() << 16, "kind": kind, "body": body, "hash": "00", "prev": "00",
		}), seq)
	}
	worker := func(draining bool) {
		tell("workers", fields{"node": "host2", "live": "alive", "draining": draining, "slots": 4, "accept_names": []string{}})
	}
	onion := func(weight int) {
		tell("onion", fields{"tor": fields{"enabled": true}, "addresses": []fields{}, "problems": []string{}, "hosts": []fields{
			{"node": "host2", "health": "alive", "address": "x.onion", "weight": weight, "points": 3, "healthy": true},
		}})
	}
	job := func(parked int) {
		tell("jobs", fields{
			"id": "j7", "name": "pi", "owner": "user:ann", "state": "running", "submitted_at": time.Now(), "holder": "host1", "term": 7,
			"chunks": fields{"total": 10, "accepted": 3, "failed": 0, "parked": parked}, "iterations": fields{"total": 100, "accepted": 30}, "attempts": fields{"assigned": 4},
		})
	}
	term := 7
	// arrived waits until the page has what was sent before, by what comes after.
	arrived := func() {
		p.t.Helper()
		term++
		tell("lease", fields{"holder": "host1", "term": term, "mode": "quorum", "voters": 5, "abstaining": []string{}, "config": fields{"voters": []string{}}})
		p.until("what was sent", fmt.Sprintf(`document.querySelector("#said").textContent.includes("of term %d;")`, term))
	}
	const once = 36 // characters of a key
	keys := map[string]bool{}
	for _, c := range []struct {
		button, at, name string
		first            func()
		path, body       string
		kind             event.Kind
		by, other        string // hosts that write the event, and one like it
		own, foreign     any
	}{
		{
			"Step down", "lease", "host1", func() {}, "/v1/lease/step-down", `{"reason":"asked in the page"}`, event.KindStepDownAsked, "host1", "host2",
			event.StepDownAsked{Term: 7},
			event.StepDownAsked{Term: 7},
		},
		{
			"Drain", "workers", "host2", func() { worker(false) }, "/v1/worker/drain", `{"node":"host2"}`, event.KindWorkerDrained, "host2", "host1",
			event.WorkerDrained{Drained: true},
			event.WorkerDrained{Drained: true},
		},
		{
			"Undo drain", "workers", "host2", func() { worker(true) }, "/v1/worker/drain", `{"node":"host2","undo":true}`, event.KindWorkerDrained, "host2", "host2",
			event.WorkerDrained{},
			event.WorkerDrained{Drained: true},
		},
		{
			"Onion drain", "onion", "host2", func() { onion(1) }, "/v1/onion/drain", `{"node":"host2"}`, event.KindOnionDrained, "host2", "host0",
			event.OnionDrained{Drained: true},
			event.OnionDrained{Drained: true},
		},
		{
			"Undo onion drain", "onion", "host2", func() { onion(0) }, "/v1/onion/drain", `{"node":"host2","undo":true}`, event.KindOnionDrained, "host2", "host2",
			event.OnionDrained{},
			event.OnionDrained{Drained: true},
		},
		{
			"Retry chunks", "jobs/j7", "pi", func() { job(2) }, "/v1/jobs/j7/release", `{}`, event.KindChunksReleased, "host1", "host1",
			event.ChunksReleased{Job: "j7", Attempt: 2},
			event.ChunksReleased{Job: "j1", Attempt: 2},
		},
		{
			"Stop job", "jobs/j7", "pi", func() { job(0) }, "/v1/jobs/j7/stop", `{"reason":"asked in the page"}`, event.KindJobStopped, "host1", "host1",
			event.JobStopped{Job: "j7"},
			event.JobStopped{Job: "j1"},
		},
	} {
		t.Run(c.button, func(t *testing.T) {
			defer p.as(t)()
			p.at(c.at)
			of := strings.TrimPrefix(c.at, "jobs/")
			d.watched(t, "of what is shown", func(q url.Values) bool { return of == c.at || q.Get("job") == of })
			c.first()
			write(c.by, c.kind, c.own) // of before
			arrived()
			mu.Lock()
			asked, lost = nil, true
			mu.Unlock()
			// The row of host2, where there are rows.
			button := fmt.Sprintf(`[...document.querySelectorAll("main button")].find((b) => b.textContent === %q && (!b.closest("tr") || b.closest("tr").textContent.startsWith("host2")))`, c.button)
			p.until("the button", button)
			p.run(button + `.click(), 1`)
			p.until("the question", `document.querySelector("dialog[open] input")`)
			p.do(chromedp.SendKeys("dialog input", c.name), chromedp.KeyEvent("\r"))
			p.says("the holder does not answer")
			p.until("it can be asked again", `document.querySelector("dialog button[type=submit]:not(:disabled)")`)
			p.run(`document.querySelector("dialog button[type=submit]").click(), 1`)
			p.until("it is done", `document.querySelector("dialog [role=status]").textContent.startsWith("Done")`)
			mu.Lock()
			sent := asked
			mu.Unlock()
			want := request{c.path, c.body, ""}
			for _, r := range sent {
				want.key = r.key
				if len(r.key) != once || r != want || r.key != sent[0].key {
					t.Errorf("asked for %+v, want %s with %s, always under one key", sent, c.path, c.body)
				}
			}
			if len(sent) != 2 || keys[sent[0].key] {
				t.Fatalf("%d requests, want 2; their key was used before: %v", len(sent), keys[sent[0].key])
			}
			keys[sent[0].key] = true
			write(c.other, c.kind, c.foreign)
			arrived()
			var href string
			if p.value(`document.querySelector("dialog p a")?.getAttribute("href") ?? ""`, &href); href != "" {
				t.Errorf("it leads to %s, which is another's", href)
			}
			p.says("Its event is on its way.")
			write(c.by, c.kind, c.own)
			p.until("the link to it", fmt.Sprintf(`document.querySelector("dialog p a")?.getAttribute("href") === "#/events/%s/1/%d"`, c.by, seq))
			p.run(`document.querySelector("dialog p a").click(), 1`)
			p.says(fmt.Sprintf("Event %d of %s", seq, c.by))
			p.until("the question is gone", `!document.querySelector("dialog")`)
		})
	}
}
