package browser

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster/job"
)

// Shape of what faults sends: at least so many jobs, some of them open at a time.
const (
	faultyJobs   = 40
	faultyOpen   = 6
	faultyChunks = 8
	faultySize   = 10_000_000
	faultyRounds = 3
)

// faults has the page p and three more work at two gateways while hosts are killed, stopped
// and cut off and pages close and open, and Redis is killed and emptied; each job is whole in
// the end, and none has a failed attempt.
func (v *venue) faults(p *tab) {
	t := v.t
	pages := []*tab{p}
	v.begin(p, v.gateways[0])
	for i := 1; i < 4; i++ {
		pages = append(pages, v.page(v.gateways[i%2]))
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*patience)
	defer cancel()
	var jobs []job.ID // the sender's until it has ended
	var all sync.WaitGroup
	var over, enough atomic.Bool
	// some asks hosts in turns until one does it.
	some := func(what string, do func(ctx context.Context, h *host) error) {
		var err error
		for i := 0; ctx.Err() == nil; i++ {
			each, end := context.WithTimeout(ctx, 15*time.Second)
			err = do(each, v.hosts[i%len(v.hosts)])
			if end(); err == nil {
				return
			}
			time.Sleep(100 * time.Millisecond)
		}
		t.Errorf("%s: %v", what, err)
	}
	ended := func(id job.ID) func(ctx context.Context, h *host) error {
		return func(ctx context.Context, h *host) error {
			j, err := h.api.Job(ctx, string(id))
			if err == nil && !j.State.Final() {
				err = fmt.Errorf("job %s is %s: %+v", id, j.State, j.Chunks)
			}
			return err
		}
	}
	all.Go(func() {
		defer over.Store(true)
		for i := 0; ctx.Err() == nil && (i < faultyJobs || !enough.Load()); i++ {
			spec := job.Spec{Key: fmt.Sprint("faults ", i), Artefact: v.artefact, Iterations: faultyChunks * faultySize, Chunk: faultySize, Seed: uint64(i)}
			spec.Permission.Outside = true
			some(spec.Key, func(ctx context.Context, h *host) error {
				sub, err := h.api.Submit(ctx, api.SubmitRequest{Spec: spec})
				if err == nil {
					jobs = append(jobs, sub.Job)
				}
				return err
			})
			if i >= faultyOpen && i < len(jobs) {
				some("a job ends", ended(jobs[i-faultyOpen]))
			}
		}
	})
	rnd, did := rand.New(rand.NewPCG(3, 4)), map[string]int{}
	for i := 0; ctx.Err() == nil && (i < 4*faultyRounds || !over.Load()); i++ {
		if i == 4*faultyRounds-1 {
			enough.Store(true)
		}
		h := v.hosts[(i/4+rnd.IntN(2))%len(v.hosts)]
		pause := time.Duration(2+rnd.IntN(8)) * time.Second
		switch i % 4 {
		case 0:
			did["host killed"]++
			h.kill()
			time.Sleep(pause)
			h.start(t)
		case 1:
			did["host stopped"]++
			_ = h.cmd.Process.Signal(syscall.SIGSTOP) // it lives
			time.Sleep(pause)
			_ = h.cmd.Process.Signal(syscall.SIGCONT)
		case 2:
			did["host cut off"]++
			h.off(true)
			time.Sleep(pause)
			h.off(false)
		case 3:
			did["page closed"]++
			n := rnd.IntN(len(pages))
			pages[n].do(chromedp.Navigate("about:blank"))
			time.Sleep(pause)
			v.begin(pages[n], v.gateways[n%2])
			if v.redis != nil {
				did["Redis killed"]++
				if err := errors.Join(v.redis.Kill(), v.redis.Start(ctx), v.redis.Flush(ctx)); err != nil {
					t.Error(err)
				}
			}
		}
		time.Sleep(2 * time.Second)
	}
	all.Wait()
	for _, h := range v.hosts {
		h.await(t, "among three", func(s api.Status) error {
			if s.Members.Alive != 3 {
				return fmt.Errorf("%d alive", s.Members.Alive)
			}
			return nil
		})
	}
	var submitted, accepted uint64
	byThem := 0
	for _, id := range jobs {
		some("all jobs end", ended(id))
		for end := time.Now().Add(patience); ; time.Sleep(100 * time.Millisecond) { // the founder may hear of it later
			if err := ended(id)(ctx, v.hosts[0]); err == nil {
				break
			} else if time.Now().After(end) {
				t.Fatal(err)
			}
		}
		j, err := v.hosts[0].api.Job(ctx, string(id))
		if err != nil {
			t.Fatal(err)
		}
		if j.State != job.Completed || j.Chunks.Accepted != faultyChunks || j.Iterations.Accepted != j.Spec.Iterations || j.Attempts.Failed > 0 {
			t.Errorf("job %s: %s, chunks %+v, iterations %+v of %d, attempts %+v", id, j.State, j.Chunks, j.Iterations, j.Spec.Iterations, j.Attempts)
		}
		submitted, accepted = submitted+j.Spec.Iterations, accepted+j.Iterations.Accepted
		byThem += byPages(j)
	}
	t.Logf("SUMMARY: 4 pages, %d jobs of %d chunks, %d of them by pages; iterations submitted %d, accepted %d; faults %v", len(jobs), faultyChunks, byThem, submitted, accepted, did)
	if len(jobs) < faultyJobs || submitted != accepted || byThem == 0 {
		t.Error("not every iteration counts once, or none of pages")
	}
}

// begin has the page of a gateway, whose key is there, work again.
func (v *venue) begin(p *tab, gateway string) {
	v.t.Helper()
	for end := time.Now().Add(3 * patience); ; time.Sleep(100 * time.Millisecond) {
		req, err := http.NewRequestWithContext(v.t.Context(), http.MethodGet, gateway+"/readyz", nil)
		if err != nil {
			v.t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(req)
		if err == nil {
			if _ = resp.Body.Close(); resp.StatusCode == 200 {
				break
			}
			err = errors.New(resp.Status)
		}
		if time.Now().After(end) {
			v.t.Fatalf("%s is no gateway again: %v", gateway, err)
		}
	}
	p.do(chromedp.Navigate(gateway + "/"))
	p.until("it can begin", `document.getElementById("state")?.textContent.startsWith("Nothing runs")`)
	p.run(`document.getElementById("start").click(); 1`)
}
