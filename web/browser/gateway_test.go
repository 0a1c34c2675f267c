package browser

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/heapprofiler"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/skein-project/skein/api"
	names "github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/internal/servertest"
	"github.com/skein-project/skein/internal/servertest/redistest"
)

// venue is three hosts, of which two are gateways, and the pages of those.
type venue struct {
	t        *testing.T
	hosts    []*host
	gateways []string
	token    string            // for ann's workers
	artefact names.Hash        // pi
	redis    *servertest.Redis // what the gateways share, if they do
}

// newVenue starts one; more is of the configuration: of the table gateway on every host, of the
// table gateway on the gateways, and of other tables on every host.
func newVenue(t *testing.T, more ...func(i int) (all, gateway, rest string)) *venue {
	t.Helper()
	needBrowser(t)
	v := &venue{t: t}
	conf := make([]string, 3)
	for i := range conf {
		conf[i] = "[gateway]\n"
		if i < 2 {
			at := port(t)
			v.gateways = append(v.gateways, fmt.Sprintf("http://127.0.0.1:%d", at))
			conf[i] += fmt.Sprintf("listen = \"127.0.0.1:%d\"\n", at)
		}
		for _, m := range more {
			all, gateway, rest := m(i)
			if i > 1 {
				gateway = ""
			}
			conf[i] += all + gateway + rest
		}
	}
	v.hosts = cluster(t, conf...)
	founder := v.hosts[0]
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if _, err := founder.api.SetUser(ctx, "ann", api.UserRequest{Role: "submitter"}); err != nil {
		t.Fatal(err)
	}
	made, err := founder.api.CreateAccess(ctx, api.AccessRequest{Owner: "user:ann", Roles: []string{"work"}, TTLSeconds: 3600})
	if err != nil {
		t.Fatal(err)
	}
	v.token = made.Secret.Reveal()
	module, err := os.ReadFile(filepath.Join(filepath.Dir(program(t)), "examples", "pi.wasm"))
	if err != nil {
		t.Fatal(err)
	}
	put, err := founder.api.PutArtefact(ctx, bytes.NewReader(module))
	if err != nil {
		t.Fatal(err)
	}
	v.artefact = put.Hash
	return v
}

// page is the page of a gateway with an empty profile: its owner has claimed it, and it is
// ready.
func (v *venue) page(gateway string) *tab {
	t := v.t
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	p := open(t, gateway+"/")
	p.until("it does nothing yet", `document.getElementById("state")?.textContent.startsWith("Nothing runs")`)
	p.run(`document.getElementById("start").click(); 1`)
	p.until("its code", `/^[0-9A-Z]{5}-[0-9A-Z]{5}$/.test(document.getElementById("code").textContent)`)
	body, err := json.Marshal(api.WorkerClaim{ClaimCode: api.Secret(p.text("#code"))})
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, gateway+"/v1/workers/claim", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+v.token)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	if _ = resp.Body.Close(); resp.StatusCode != 200 {
		t.Fatal(resp.Status)
	}
	p.until("it is ready", `document.getElementById("state").textContent.startsWith("Ready")`)
	return p
}

// visitor is a page of the founder's gateway.
func visitor(t *testing.T) (v *venue, founder *host, p *tab) {
	t.Helper()
	v = newVenue(t)
	return v, v.hosts[0], v.page(v.gateways[0])
}

// TestPortalOfDaemons: with an empty profile somebody opens the page of a gateway, its owner
// claims it, a click, and it computes chunks of a job that count; the tab is closed in the
// middle, and the job ends as it should, without a failed attempt. SKEIN_PROVE=1 then has
// four pages work at two gateways under faults, with a memory of each gateway and with a
// Redis that they share.
func TestPortalOfDaemons(t *testing.T) {
	v, founder, p := visitor(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	spec := job.Spec{Key: "portal", Artefact: v.artefact, Iterations: 240 * 15_000_000, Chunk: 15_000_000, Seed: 3}
	spec.Permission.Outside = true
	sub, err := founder.api.Submit(ctx, api.SubmitRequest{Spec: spec})
	if err != nil {
		t.Fatal(err)
	}
	p.until("it has done chunks that are settled", `Number(document.getElementById("done").textContent) >= 4`)
	var j api.Job
	founder.raw(t, "/v1/jobs/"+string(sub.Job), &j)
	if j.State.Final() {
		t.Errorf("the job is %s while the page works", j.State)
	}
	var forbidden []string
	if p.value(`window.__forbidden`, &forbidden); len(forbidden) > 0 {
		t.Errorf("the policy forbids %v", forbidden)
	}
	p.do(chromedp.Navigate("about:blank"))                      // it goes in the middle, and says nothing
	whole, end := context.WithTimeout(t.Context(), 10*patience) // there is much to do, and others may do as much
	defer end()
	if j, err = founder.api.FollowJob(whole, string(sub.Job), api.FollowOptions{}, func(api.Job) error { return nil }); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d of 240 chunks by the page, attempts %+v", byPages(j), j.Attempts)
	if byPages(j) == 0 {
		t.Error("nothing of the page counts")
	}
	if j.State != job.Completed || j.Chunks.Accepted != 240 || j.Attempts.Failed > 0 {
		t.Errorf("%s: %+v, %+v", j.State, j.Chunks, j.Attempts)
	}
	if !proving() {
		return
	}
	v.faults(p)
	shared := sharedVenue(t)
	shared.faults(shared.page(shared.gateways[0]))
}

// sharedVenue is a venue whose gateways share a Redis.
func sharedVenue(t *testing.T) *venue {
	t.Helper()
	redis, _ := redistest.Start(t)
	v := newVenue(t, func(int) (all, gateway, rest string) {
		return "store = \"redis\"\n", "", fmt.Sprintf("[redis]\naddresses = \"unix://%s\"\n", redis.Socket)
	})
	v.redis = redis
	return v
}

// TestPageStays: a page that is left open on a slow processor goes on computing and takes
// no more memory for it; what it did counts, no attempt of it is lost, and it stops and
// forgets when it is told. With SKEIN_PROVE=1 it stays for an hour.
func TestPageStays(t *testing.T) {
	stay, looks := 20*time.Second, 10
	if proving() {
		stay, looks = time.Hour, 120
	}
	v, founder, p := visitor(t)
	p.do(func(ctx context.Context, target *chromedp.Target) (chromedp.Void, error) {
		_, err := cdp.Call(ctx, target, emulation.SetCPUThrottlingRate, emulation.SetCPUThrottlingRateParams{Rate: 4})
		return chromedp.Void{}, err
	})
	ctx, cancel := context.WithTimeout(t.Context(), stay+6*patience)
	defer cancel()
	spec := job.Spec{Key: "stays", Artefact: v.artefact, Iterations: 100_000 * 40_000_000, Chunk: 40_000_000, Seed: 3}
	spec.Permission.Outside = true
	sub, err := founder.api.Submit(ctx, api.SubmitRequest{Spec: spec})
	if err != nil {
		t.Fatal(err)
	}
	p.until("it has begun", `Number(document.getElementById("done").textContent) >= 2`)
	var heap []float64 // bytes
	before := 0
	for i := range looks {
		time.Sleep(stay / time.Duration(looks))
		heap = append(heap, p.heap())
		if i%(looks/4) == looks/4-1 {
			p.until("it goes on", fmt.Sprintf(`Number(document.getElementById("done").textContent) > %d`, before))
			p.value(`Number(document.getElementById("done").textContent)`, &before)
		}
	}
	early, late := slices.Max(heap[:looks/2]), slices.Max(heap[looks/2:])
	t.Logf("%d chunks in %s; heap at most %.2f MB in the first half, %.2f MB in the second", before, stay, early/1e6, late/1e6)
	if late > 1.2*early+1e6 {
		t.Errorf("its heap grows: %.0f", heap)
	}
	p.run(`document.getElementById("start").click(); 1`)
	p.until("it has stopped", `document.getElementById("state").textContent.startsWith("Stopped")`)
	var count int
	p.value(`Number(document.getElementById("done").textContent)`, &count)
	for end := time.Now().Add(3 * patience); ; time.Sleep(100 * time.Millisecond) { // members check some of it before all counts
		j, err := founder.api.Job(ctx, string(sub.Job)) // which a host that has too much to do refuses
		n := byPages(j)
		if err == nil && n >= count && j.Attempts.Failed == 0 {
			break
		} else if time.Now().After(end) {
			t.Errorf("the page has done %d, the log counts %d; attempts %+v; %v", count, n, j.Attempts, err)
			break
		}
	}
	p.run(`document.getElementById("forget").click(); 1`)
	p.until("it is nobody", `document.getElementById("state").textContent.startsWith("Forgotten") && document.getElementById("worker").textContent === "-"`)
}

// heap is how many bytes the objects of the page take, without garbage.
func (tb *tab) heap() (used float64) {
	tb.t.Helper()
	tb.do(func(ctx context.Context, target *chromedp.Target) (chromedp.Void, error) {
		if _, err := cdp.Call(ctx, target, heapprofiler.CollectGarbage, cdp.Empty{}); err != nil {
			return chromedp.Void{}, err
		}
		u, err := cdp.Call(ctx, target, runtime.GetHeapUsage, cdp.Empty{})
		used = u.UsedSize
		return chromedp.Void{}, err
	})
	return used
}

// byPages counts the chunks of a job that others than hosts did.
func byPages(j api.Job) (n int) {
	for _, w := range j.Workers {
		if names.IsOutside(w.Node) {
			n += w.Accepted
		}
	}
	return n
}
