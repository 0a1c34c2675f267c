package browser

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/skein-project/skein/api"
	names "github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/scheduler/stream"
)

// TestPortal: a page on which somebody lets a browser work. It does nothing before a click,
// is claimed, works, pauses where it should, and forgets.
func TestPortal(t *testing.T) {
	claimed := false // under f.mu
	f := newFloor(t, func(f *floor, mux *http.ServeMux) {
		answer := func(w http.ResponseWriter, status int, out any) {
			w.WriteHeader(status)
			_ = json.NewEncoder(w).Encode(out) // the page may have gone
		}
		mux.Handle("GET /portal/", http.StripPrefix("/portal/", http.FileServer(http.Dir(filepath.Join("..", "worker", "dist")))))
		mux.HandleFunc("GET /v1/info", func(w http.ResponseWriter, _ *http.Request) {
			answer(w, 200, api.GatewayInfo{Cluster: "c1", URLs: []string{"https://gw"}})
		})
		mux.HandleFunc("POST /v1/workers/{what}", func(w http.ResponseWriter, r *http.Request) {
			f.mu.Lock()
			defer f.mu.Unlock()
			if r.PathValue("what") == "token" {
				if !claimed {
					answer(w, 403, map[string]any{"detail": "nobody has claimed it"})
					return
				}
				answer(w, 200, map[string]any{"token": "token of " + f.worker, "expires_at": time.Now().Add(time.Hour).UTC()})
				return
			}
			var body api.WorkerRegister
			err := json.NewDecoder(r.Body).Decode(&body)
			key, bad := base64.StdEncoding.DecodeString(body.PublicKey)
			if err != nil || bad != nil {
				t.Errorf("registration: %v %v", err, bad)
			}
			f.worker = names.OutsideID(key)
			state := api.StateUnclaimed
			if claimed {
				state = "enrolled"
			}
			answer(w, 201, map[string]any{"worker": f.worker, "state": state, "claim_code": "7K3QD-0V9XW", "fingerprint": "ab cd", "expires_at": time.Now().UTC()})
		})
	})
	f.do(chromedp.Navigate(f.base + "portal/"))
	state := func(text string) {
		t.Helper()
		f.until("it says "+text, `document.getElementById("state")?.textContent.startsWith("`+text+`")`)
	}
	press := func(id string) {
		t.Helper()
		var ok bool
		f.value(`(document.getElementById("`+id+`").click(), true)`, &ok)
	}
	state("Nothing runs")
	var bases []string
	f.wait("indexedDB.databases().then((l) => l.map((d) => d.name))", &bases)
	if f.mu.Lock(); len(bases) != 0 || !strings.HasPrefix(string(f.worker), "w-") || f.worker != names.OutsideID([]byte("page")) {
		t.Errorf("before the click: databases %v, worker %s", bases, f.worker)
	}
	f.mu.Unlock()
	f.run(axe(t) + "; 1")
	seen := func() {
		t.Helper()
		var wrong []string
		for _, l := range looks() {
			f.look(l.colours, l.width)
			f.wait(`axe.run(document, {resultTypes: ["violations"]}).then((r) => r.violations.map((v) => v.id + ": " + v.nodes.map((n) => n.html).join(" ")))`, &wrong)
			var over bool
			if f.value(`document.documentElement.scrollWidth > innerWidth`, &over); over || len(wrong) > 0 {
				t.Errorf("%s, %d px: wider %v, %v", l.colours, l.width, over, wrong)
			}
		}
	}
	seen()
	press("start")
	state("Waiting to be claimed")
	if text := f.text("#claim"); !strings.Contains(text, "7K3QD-0V9XW") || !strings.Contains(text, "ab cd") {
		t.Errorf("to claim it: %s", text)
	}
	seen()
	f.mu.Lock()
	claimed = true
	f.mu.Unlock()
	joined := func(x stream.Frame) bool { return x.Join != nil }
	gone := func(x stream.Frame) bool { return x.Part != nil && x.Part.Gone }
	if join := f.hear("join", joined).Join; join.Slots < 1 || join.MemoryBytes != 1<<30 {
		t.Errorf("%+v", join)
	}
	state("Ready")
	pi := f.job(piGuest(t), 1000)
	f.give(pi, 5)
	if r := f.result(pi, 5); r.Result == nil {
		t.Errorf("%+v", r)
	}
	f.settle(pi, 5)
	f.until("it is counted", `document.getElementById("done").textContent === "1" && document.getElementById("kept").textContent === "0"`)

	var ok bool
	hide := func(hidden string) {
		f.value(`(Object.defineProperty(document, "hidden", {value: `+hidden+`, configurable: true}), document.dispatchEvent(new Event("visibilitychange")))`, &ok)
	}
	hide("true")
	f.hear("part of who is hidden", gone)
	state("Paused while this tab is hidden")
	hide("false")
	f.hear("join of who is seen", joined)
	state("Ready")
	press("start")
	f.hear("part of who was stopped", gone)
	state("Stopped")
	press("start")
	f.hear("join of who begins again", joined)
	press("forget")
	state("Forgotten")
	f.wait(`new Promise((done) => { const o = indexedDB.open("skein"); o.onsuccess = () => { const g = o.result.transaction("keys").objectStore("keys").count(); g.onsuccess = () => { o.result.close(); done(g.result === 0); }; }; })`, &ok)
	if !ok {
		t.Error("the key is still there")
	}
	if n := f.text("#done"); n != "1" {
		t.Errorf("%s done", n)
	}
}
