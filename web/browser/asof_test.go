package browser

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/skein-project/skein/api"
)

// momentOfThree is one as of which the log of a host says that three hosts live.
func momentOfThree(t *testing.T, h *host) time.Time {
	t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(30 * time.Millisecond) {
		at, alive := time.Now(), 0
		var said api.Replay
		h.raw(t, "/v1/replay?at="+at.UTC().Format(time.RFC3339Nano), &said)
		for _, m := range said.Replay.Members {
			if string(m.Health) == "alive" {
				alive++
			}
		}
		if alive == 3 {
			return at
		}
		if at.After(deadline) {
			t.Fatalf("the log of %s says: %+v", h.name, said.Replay.Members)
		}
	}
}

// testAsOf looks back to a moment before the job id was submitted, and to one after it
// ended: the page has of each what `skein log replay` says of it, field by field, and
// nothing that no log has.
func testAsOf(t *testing.T, seen *host, before, after time.Time, id string) {
	p := open(t, seen.ui(t))
	p.says("holds the lease")
	stamp := func(at time.Time) string { return at.UTC().Format("2006-01-02T15:04:05.000Z") }
	for _, at := range []string{stamp(before), stamp(after)} {
		p.at("?at=" + at)
		p.until("the log as of "+at, `document.querySelector("#replay")`)
		var shown, told map[string]any
		if err := json.Unmarshal([]byte(p.text("#replay")), &shown); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal([]byte(skein(t, "log", "replay", "--config", seen.config(), "--at", at, "-o", "json")), &told); err != nil {
			t.Fatal(err)
		}
		if len(told) < 12 || len(shown) != len(told) {
			t.Errorf("as of %s the page has %d fields, skein log replay %d", at, len(shown), len(told))
		}
		for field, want := range told {
			if !reflect.DeepEqual(shown[field], want) {
				t.Errorf("as of %s %s is %v, skein log replay says %v", at, field, shown[field], want)
			}
		}
		p.says("n1 holds the lease of term 1", "all 3 hosts are alive", "as of")
		for _, path := range []string{"", "network?view=hosts", "network", "lease", "jobs", "workers", "onion", "network?host=n3", "network?view=matrix"} {
			sign := "?"
			if strings.Contains(path, "?") {
				sign = "&"
			}
			p.at(path + sign + "at=" + at)
			p.until("#/"+path+" looks back", `document.querySelector(".live").textContent.includes("as of")`)
			p.until("every link of it too", `[...document.querySelectorAll("header nav a, main a")].every((a) => a.getAttribute("href").includes("at="))`)
			var live []string
			p.value(`[...document.querySelectorAll("main button, aside button")].map((b) => b.textContent).filter((b) => /Step down|Drain|drain|Stop|Retry/.test(b))`, &live)
			if len(live) > 0 {
				t.Errorf("#/%s of the past has the actions %q", path, live)
			}
			p.value(`[...document.querySelectorAll("main th[scope=col], aside dt, main dt")].map((h) => h.textContent).filter((h) => ["seen", "rtt", "path", "lacks", "rate", "left", "clock", "renewed", "size", "handshake"].includes(h))`, &live)
			if len(live) > 0 {
				t.Errorf("#/%s of the past shows %q, which no log has", path, live)
			}
		}
		p.at("events?at=" + at)
		p.until("no event of later", fmt.Sprintf(`[...document.querySelectorAll("ol.events li")].length > 5 && [...document.querySelectorAll("ol.events time")].every((e) => e.dateTime <= %q)`, at))
	}
	p.at("jobs/" + id + "?at=" + stamp(after))
	p.says("completed", "12 accepted")
	p.at("jobs?at=" + stamp(before))
	p.says("No job was submitted.")
	p.at("jobs?at=yesterday")
	p.says("yesterday is no time")
	p.at("jobs?at=1999-01-01T00:00:00.000Z")
	p.says("No job was submitted.")

	p.at("?at=" + stamp(before))
	p.until("how much happened when", `document.querySelector("path.density")?.getAttribute("d").length > 20`)
	p.accessible([]string{"?at=" + stamp(before)}, looks()...)
	p.run(`(() => { const s = document.querySelector(".slide input"); s.value = s.max; s.dispatchEvent(new Event("input", {bubbles: true})); })(), 1`)
	p.until("nothing is replayed while it is dragged", fmt.Sprintf(`location.hash.includes(%q)`, "at="))
	p.run(`(() => { const s = document.querySelector(".slide input"); s.value = s.min; s.dispatchEvent(new Event("change", {bubbles: true})); })(), 1`)
	p.until("it is replayed when it is let go", fmt.Sprintf(`!decodeURIComponent(location.hash).includes(%q) && document.querySelector("#replay")`, stamp(before)))
	p.at("?at=" + stamp(before))
	p.until("the log was read", `document.querySelector("#replay")`)
	p.run(`[...document.querySelectorAll(".asof button")].find((b) => b.textContent.includes("60")).click(), 1`)
	p.until("played 60 times as fast, the past becomes what is", `!location.hash.includes("at=") && document.querySelector(".live").textContent.includes("live")`)
	p.until("it is live", `[...document.querySelectorAll("main th")].some((h) => h.textContent === "rtt")`)

	// Many at once: whoever is not answered is told to come again.
	var all sync.WaitGroup
	results := make([]error, 50)
	for i := range results {
		all.Go(func() {
			_, results[i] = seen.api.Raw(t.Context(), "/v1/replay?at="+stamp(before.Add(time.Duration(i)*time.Second)))
		})
	}
	all.Wait()
	answered := 0
	for i, err := range results {
		if wait, ok := errors.AsType[*api.Problem](err); err != nil && (!ok || wait.Status != 429 || wait.RetryAfterSeconds == nil) {
			t.Errorf("replay %d: %v", i, err)
		}
		if err == nil {
			answered++
		}
	}
	if answered == 0 {
		t.Error("no replay was answered")
	}
	t.Logf("%d of 50 replays at once were answered, the others were told to wait", answered)
}
