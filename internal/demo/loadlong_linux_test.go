package demo

import (
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/load/report"
)

const (
	longRate = 2000 // requests a second, of three hosts
	longLag  = 1500 * time.Millisecond
	longLook = 5 * time.Second // between looks at the memory
)

// engineOf is the process of a load test that a daemon has; 0: none.
func engineOf(daemon int) int {
	files, _ := filepath.Glob("/proc/[0-9]*/status") // it may end meanwhile
	for _, name := range files {
		if parent, err := procField(name, "PPid"); err != nil || int(parent) != daemon {
			continue
		}
		line, _ := os.ReadFile(filepath.Join(filepath.Dir(name), "cmdline"))
		if strings.Contains(string(line), "load-slice") {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(name)))
			return pid
		}
	}
	return 0
}

// TestLoadLong has three hosts send 2,000 requests a second for SKEIN_LONG (a duration):
// none is lost, the memory of daemons and engines stays as it is, and a follower hears of what
// was counted soon. What it took of which processor is told.
func TestLoadLong(t *testing.T) {
	length, err := time.ParseDuration(os.Getenv("SKEIN_LONG"))
	if err != nil {
		t.Skip("SKEIN_LONG=30m has three hosts send 2,000 requests a second for that long")
	}
	var hits atomic.Uint64
	target := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		hits.Add(1)
		fmt.Fprint(w, "ok")
	}))
	defer target.Close()
	at := strings.TrimPrefix(target.URL, "http://")
	d, ctx := startWith(t, 3, environ("SKEIN_LOAD_ENABLED=true", "SKEIN_LOAD_OWNERS=*", "SKEIN_LOAD_TARGETS="+at+"=0"))
	holder, err := d.holder(ctx)
	if err != nil {
		t.Fatal(err)
	}
	asked := d.other(holder)
	rest, err := usedBy(holder.cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(idleLook)
	idle, err := usedBy(holder.cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	out, errs, code := d.cli(ctx, asked, "load", "run", "--detach", "--hosts", "3", "--rate", strconv.Itoa(longRate), "--for", length.String(), target.URL)
	if code != 0 {
		t.Fatalf("exit %d: %s%s", code, out, errs)
	}
	id := strings.TrimSpace(out)
	type heard struct {
		at  time.Time
		end float64 // of the run, in seconds
	}
	var told []heard
	requests, after := uint64(0), ""
	memory := map[string][]float64{} // megabytes, of each process
	var looked time.Time
	var before, behind use
	began, over := time.Time{}, time.Time{}
	for last := 0.0; over.IsZero(); {
		var x api.LoadLive
		eventually(ctx, t, 30*time.Second, "the follower is answered", func() (err error) { // what it is told later counts as late
			x, err = asked.api.LoadLive(ctx, id, after, time.Second)
			return err
		})
		now := time.Now()
		after = x.Next
		if x.Again {
			requests = 0
		}
		for _, s := range x.Steps {
			requests += s.Requests
		}
		if x.At > last && x.State == event.LoadStarted && x.At < x.Of {
			told, last = append(told, heard{now, x.At}), x.At
		}
		if x.At > 0 && began.IsZero() {
			began = now
			if before, err = usedBy(holder.cmd.Process.Pid); err != nil {
				t.Fatal(err)
			}
		}
		if now.Sub(looked) > longLook && !began.IsZero() && x.At < x.Of-1 {
			looked = now
			if behind, err = usedBy(holder.cmd.Process.Pid); err != nil {
				t.Fatal(err)
			}
			for _, h := range d.hosts {
				for name, pid := range map[string]int{h.name: h.cmd.Process.Pid, h.name + " engine": engineOf(h.cmd.Process.Pid)} {
					if u, err := usedBy(pid); err == nil {
						memory[name] = append(memory[name], float64(u.resident)/1e6)
					}
				}
			}
		}
		if x.State == event.LoadEnded && sum(x) == 0 {
			over = now
		}
	}
	var doc *report.Report
	eventually(ctx, t, time.Minute, "the report is reached", func() error {
		x, err := asked.api.LoadReport(ctx, id)
		if err == nil {
			doc, err = report.Parse(x.Report)
		}
		return err
	})
	var lags []time.Duration
	for _, h := range told {
		lags = append(lags, h.at.Sub(doc.Started.Add(time.Duration(h.end*float64(time.Second)))))
	}
	slices.Sort(lags)
	if len(lags) < 10 {
		t.Fatalf("the follower heard %d times", len(lags))
	}
	p99 := lags[len(lags)*99/100]
	share := func(a, b use, d time.Duration) float64 { return (b.cpu - a.cpu).Seconds() / d.Seconds() }
	busy := share(before, behind, looked.Sub(began))
	t.Logf("%s, %v: %d requests in %gs, failed %d, p99 %.3g ms", doc.Verdict, doc.Why, doc.Requests, doc.Seconds, doc.Requests-doc.Classes["ok"], doc.Latency.P99*1e3)
	t.Logf("the follower heard of a window %s behind its end in the middle, %s at p99, %s at most", lags[len(lags)/2].Round(time.Millisecond), p99.Round(time.Millisecond), lags[len(lags)-1].Round(time.Millisecond))
	t.Logf("the daemon of the holder took %.2f %% of a core, %.2f %% before the test", busy*100, share(rest, idle, idleLook)*100)
	for _, name := range slices.Sorted(maps.Keys(memory)) {
		list := memory[name]
		if len(list) < 8 {
			t.Errorf("%s: the memory was seen %d times", name, len(list))
			continue
		}
		early, late := mean(list[len(list)/4:len(list)/2]), mean(list[len(list)*3/4:])
		t.Logf("%s: %.1f MB in the second quarter, %.1f MB in the last, %.1f MB at most", name, early, late, slices.Max(list))
		if late > early*1.15+4 {
			t.Errorf("%s grows: %.1f MB, then %.1f MB", name, early, late)
		}
	}
	plan := uint64(longRate * length.Seconds())
	if hits.Load() != plan || doc.Requests != plan || requests != plan {
		t.Errorf("the plan has %d requests, the target had %d, the report %d, the follower was told %d", plan, hits.Load(), doc.Requests, requests)
	}
	if p99 > longLag {
		t.Errorf("the follower heard of a window %s behind its end, want %s", p99, longLag)
	}
}

func sum(x api.LoadLive) (n uint64) {
	for _, s := range x.Steps {
		n += s.Requests
	}
	return n
}

func mean(list []float64) (m float64) {
	for _, x := range list {
		m += x / float64(len(list))
	}
	return m
}
