package demo

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/load/report"
)

// TestLoadOnHosts: a load test runs on the hosts whose lists allow it, and what followers
// are told, the report and the target agree to the count; also when the holder is killed
// meanwhile. A host that is killed makes it incomplete, a stop leaves no request behind,
// and what no list allows gets none.
func TestLoadOnHosts(t *testing.T) {
	parallel(t)
	var hits, strange atomic.Uint64
	count := func(n *atomic.Uint64) *httptest.Server {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			n.Add(1)
			fmt.Fprint(w, "ok")
		}))
		t.Cleanup(s.Close)
		return s
	}
	target, other := count(&hits), count(&strange)
	at := strings.TrimPrefix(target.URL, "http://")
	d, ctx := startWith(t, 4, func(d *demo) {
		d.env = func(i, _ int) []string {
			if i == 3 {
				return nil // it allows nothing
			}
			return []string{"SKEIN_LOAD_ENABLED=true", "SKEIN_LOAD_OWNERS=*", "SKEIN_LOAD_TARGETS=" + at + "=0"}
		}
	})
	asked := d.hosts[3]
	run := func(args ...string) (out, errs string, code int) {
		t.Helper()
		out, errs, code = d.cli(ctx, asked, append([]string{"load"}, args...)...)
		t.Logf("$ skein load %s\n%.4000s%s[exit %d]", strings.Join(args, " "), out, errs, code)
		return out, errs, code
	}
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{"run", "--rate", "5", "--for", "2s", other.URL}, "load.targets has nothing for 127.0.0.1"},
		{[]string{"run", "--rate", "5", "--for", "2s", "http://169.254.169.254/"}, "nothing is ever sent to"},
		{[]string{"run", "--hosts", "4", "--rate", "5", "--for", "2s", target.URL}, "3 of 4 hosts may take part"},
		{[]string{"run", "--on", asked.name, "--rate", "5", "--for", "2s", target.URL}, "load.enabled is false"},
	} {
		if _, errs, code := run(c.args...); code != 2 || !strings.Contains(errs, c.says) {
			t.Errorf("%v: exit %d, want 2 and %q", c.args, code, c.says)
		}
	}
	if hits.Load() != 0 || strange.Load() != 0 {
		t.Fatal("what was refused was sent")
	}
	submit := func(args ...string) string {
		t.Helper()
		out, _, code := run(append([]string{"run", "--detach"}, args...)...)
		if code != 0 {
			t.Fatalf("exit %d", code)
		}
		return strings.TrimSpace(out)
	}
	// sum follows a test to its end from the host that was asked; meanwhile is called once
	// when it has counted something.
	sum := func(id string, meanwhile func()) (classes map[string]uint64, end api.LoadLive) {
		t.Helper()
		classes = map[string]uint64{}
		after, fresh := "", true
		eventually(ctx, t, 3*time.Minute, "the load test ends", func() error {
			x, err := asked.api.LoadLive(ctx, id, after, time.Second)
			if err != nil {
				return err
			}
			after, end = x.Next, x
			if x.Again {
				clear(classes)
			}
			for _, s := range x.Steps {
				for c, n := range s.Classes {
					classes[c] += n
				}
			}
			if fresh && len(classes) > 0 && x.At > 2 {
				fresh = false
				meanwhile()
			}
			if x.State != event.LoadEnded {
				return fmt.Errorf("%s, %s", x.State, x.Doing)
			}
			return nil
		})
		return classes, end
	}
	agree := func(id string, classes map[string]uint64, sent uint64) *report.Report {
		t.Helper()
		var doc *report.Report
		eventually(ctx, t, time.Minute, "the report is reached", func() error {
			x, err := asked.api.LoadReport(ctx, id)
			if err != nil {
				return err
			}
			doc, err = report.Parse(x.Report)
			return err
		})
		told, _ := json.Marshal(classes)
		want, _ := json.Marshal(doc.Classes)
		if string(told) != string(want) {
			t.Errorf("followers were told %s, the report has %s", told, want)
		}
		if sent > 0 && doc.Requests != sent {
			t.Errorf("the report has %d requests, the target had %d", doc.Requests, sent)
		}
		return doc
	}

	id := submit("--hosts", "3", "--rate", "90", "--for", "6s", "--threshold", "rate(failed)<1%", target.URL)
	classes, _ := sum(id, func() {})
	doc := agree(id, classes, hits.Load())
	if len(doc.Hosts) != 3 || doc.Requests != 540 || doc.Verdict != "passed" && doc.Verdict != "suspect" {
		t.Errorf("%s %v: %d requests of hosts %+v", doc.Verdict, doc.Why, doc.Requests, doc.Hosts)
	}
	for _, h := range doc.Hosts {
		if h.Requests != 180 {
			t.Errorf("%s sent %d of 540", h.Name, h.Requests)
		}
	}

	holder, err := d.holder(ctx)
	if err != nil {
		t.Fatal(err)
	}
	var parts []string
	for _, h := range d.hosts[:3] {
		if h != holder && len(parts) < 2 {
			parts = append(parts, h.name)
		}
	}
	before := hits.Load()
	id = submit("--on", strings.Join(parts, ","), "--rate", "60", "--for", "15s", target.URL)
	classes, _ = sum(id, func() {
		if holder == asked {
			return
		}
		if err := holder.cmd.Process.Signal(syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
	})
	doc = agree(id, classes, hits.Load()-before)
	if doc.Requests != 900 || doc.Verdict != "passed" && doc.Verdict != "suspect" {
		t.Errorf("with another holder: %s %v, %d requests", doc.Verdict, doc.Why, doc.Requests)
	}
	if !holder.alive() {
		if err := holder.run(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := d.holder(ctx); err != nil {
		t.Fatal(err)
	}

	id = submit("--on", strings.Join(parts, ","), "--rate", "20", "--for", "10m", target.URL)
	waits := submit("--on", strings.Join(parts, ","), "--rate", "20", "--for", "10m", target.URL)
	classes, _ = sum(id, func() {
		if _, _, code := run("stop", "--all", "--reason", "enough"); code != 0 {
			t.Errorf("stop: exit %d", code)
		}
	})
	if r, err := asked.api.LoadRun(ctx, waits); err != nil || r.State != event.LoadEnded || r.Verdict != "stopped" {
		t.Errorf("what waited: %+v, %v", r, err)
	}
	after := hits.Load()
	doc = agree(id, classes, 0)
	if doc.Verdict != "stopped" {
		t.Errorf("stopped: %s %v", doc.Verdict, doc.Why)
	}
	time.Sleep(time.Second)
	if n := hits.Load(); n > after+doc.Classes["interrupted"] { // whose answers were not waited for
		t.Errorf("%d requests after the end", n-after)
	}

	var lost *host
	if now, err := d.holder(ctx); err != nil {
		t.Fatal(err)
	} else {
		for _, h := range d.hosts[:3] {
			if h != now && h.alive() {
				lost = h
			}
		}
	}
	var on []string
	for _, h := range d.hosts[:3] {
		on = append(on, h.name)
	}
	id = submit("--on", strings.Join(on, ","), "--on-loss", "redistribute", "--rate", "30", "--for", "40s", target.URL)
	classes, _ = sum(id, func() {
		if err := lost.cmd.Process.Signal(syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
	})
	doc = agree(id, classes, 0)
	if doc.Verdict != "incomplete" {
		t.Errorf("without %s: %s %v", lost.name, doc.Verdict, doc.Why)
	}
	// From then on the others send its 10/s as well; before it had sent some itself. One that was
	// told later than that did so as much later, and one that was not heard sent nothing: the
	// report says so.
	from, less := time.Duration(0), 0.0
	for _, n := range doc.Notes {
		if text, ok := strings.CutPrefix(n, "from "); ok && strings.Contains(n, "the others carry the share of the lost") {
			from, _ = time.ParseDuration(strings.Fields(text)[0])
			if _, part, some := strings.Cut(text, ", but "); some { // a host that did not answer then has what it had
				percent, _ := strconv.ParseFloat(strings.Fields(part)[0], 64)
				less += 1200 * percent / 100
			}
		}
		less += 5 * secondsAfter(n, "it was told ")
	}
	for _, x := range doc.Generator.Doubts {
		less += 15 * secondsAfter(x, "it sent nothing for ")
	}
	if least := 1200 - 10*min(from.Seconds(), 40) - less; from == 0 || float64(doc.Requests) < least-1 || doc.Requests > 1200 {
		t.Errorf("%d requests, want %g-1200; %v %v", doc.Requests, least, doc.Notes, doc.Generator.Doubts)
	}
	if _, _, code := run("watch", id, "--out", filepath.Join(t.TempDir(), "r.html")); code != 8 {
		t.Errorf("exit %d of an incomplete test, want 8", code)
	}
	run("ls")
	run("status", id)
	if strange.Load() != 0 {
		t.Error("a target that no list has was hit")
	}
}

// secondsAfter is the duration that follows some words, in seconds; 0: there is none.
func secondsAfter(text, words string) float64 {
	_, rest, ok := strings.Cut(text, words)
	if !ok {
		return 0
	}
	d, _ := time.ParseDuration(strings.TrimRight(strings.Fields(rest)[0], ",;"))
	return d.Seconds()
}
