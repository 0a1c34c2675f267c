package demo

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/internal/wait"
)

// outsideFaults sends jobs to a cluster while its hosts, which are its gateways and hold
// its lease in turns, and its outside workers are killed, stopped and cut off.
type outsideFaults struct {
	t    *testing.T
	ctx  context.Context
	d    *demo
	at   []*host // gateways that are used
	urls map[*host]string
	all  []*homeWorker
	ann  *portalUser
	cut  func(h *host, on bool)
	also []func() // faults of what else there is, each of which notes what it did

	rnd  *rand.Rand
	did  map[string]int
	jobs []job.ID // send's own until it has ended
}

// Shape of the jobs: small, and some open at a time.
const (
	faultyChunks = 4
	faultySize   = 1_000_000
	faultyOpen   = 40
)

// run sends n jobs like spec, and checks that each of them is whole in the end.
func (f *outsideFaults) run(spec job.Spec, n int) {
	f.t.Helper()
	f.rnd, f.did = rand.New(rand.NewPCG(1, 2)), map[string]int{}
	spec.Iterations, spec.Chunk = faultyChunks*faultySize, faultySize
	var all sync.WaitGroup
	var over atomic.Bool
	all.Go(func() { defer over.Store(true); f.send(spec, n) })
	faults := append([]func(){f.killHost, f.stopHost, f.cutHost, f.killWorkers, f.stopWorkers}, f.also...)
	began := time.Now()
	for i := 0; !over.Load() && f.ctx.Err() == nil; i++ {
		if i%len(faults) == 0 {
			f.rnd.Shuffle(len(faults), func(a, b int) { faults[a], faults[b] = faults[b], faults[a] })
		}
		faults[i%len(faults)]()
		f.pass(2 * time.Second)
	}
	all.Wait()
	sent := time.Since(began)
	for _, what := range []string{"host killed", "holder killed", "host stopped", "host cut off", "computers killed", "computers stopped"} {
		if f.did[what] == 0 {
			f.t.Errorf("no %s in %s", what, sent)
		}
	}
	f.whole(sent)
}

func (f *outsideFaults) pass(d time.Duration) { _ = wait.For(f.ctx, d) } // its end shows elsewhere

// someHost asks hosts in turns until one does it.
func (f *outsideFaults) someHost(what string, do func(ctx context.Context, h *host) error) {
	var err error
	for i := 0; f.ctx.Err() == nil; i++ {
		ctx, cancel := context.WithTimeout(f.ctx, 20*time.Second)
		err = do(ctx, f.d.hosts[i%len(f.d.hosts)])
		if cancel(); err == nil {
			return
		}
		f.pass(200 * time.Millisecond)
	}
	f.t.Errorf("%s: %v", what, err)
}

// send sends jobs, one half of them of ann, whose computers they are, the other one of
// somebody who does not believe them. The same key is the same job, however often it is sent.
func (f *outsideFaults) send(spec job.Spec, n int) {
	for i := range n {
		spec.Key, spec.Seed = fmt.Sprintf("faults %d", i), uint64(i+1)
		var sub api.SubmitResponse
		f.someHost(spec.Key, func(ctx context.Context, h *host) (err error) {
			if i%2 == 0 {
				return f.ann.ask(ctx, http.MethodPost, f.urls[h]+"/v1/jobs", api.SubmitRequest{Spec: spec}, &sub)
			}
			sub, err = h.api.Submit(ctx, api.SubmitRequest{Spec: spec})
			return err
		})
		f.jobs = append(f.jobs, sub.Job)
		if i < faultyOpen {
			continue
		}
		f.someHost("a job ends", func(ctx context.Context, h *host) error {
			j, err := h.api.Job(ctx, string(f.jobs[i-faultyOpen]))
			if err == nil && !j.State.Final() {
				err = fmt.Errorf("job %s is %s: %+v", j.ID, j.State, j.Chunks)
			}
			return err
		})
		if f.ctx.Err() != nil {
			return
		}
	}
}

func (f *outsideFaults) note(what string) { f.did[what]++ }

func (f *outsideFaults) killHost() {
	h := f.d.hosts[f.rnd.IntN(len(f.d.hosts))]
	ctx, cancel := context.WithTimeout(f.ctx, 5*time.Second)
	if l, err := h.api.Lease(ctx); err == nil && l.Holder == cluster.NodeID(h.name) {
		f.note("holder killed")
	}
	cancel()
	f.note("host killed")
	kill(f.t, h)
	f.pass(time.Duration(1+f.rnd.IntN(8)) * time.Second)
	start1(f.t, h)
	f.back(h)
}

// back waits until a host is a gateway.
func (f *outsideFaults) back(h *host) {
	eventually(f.ctx, f.t, 3*time.Minute, h.name+" is a gateway again", func() error {
		return outsideAsk(f.ctx, http.MethodGet, f.urls[h]+"/readyz", "", nil, nil)
	})
}

func (f *outsideFaults) stopHost() {
	h := f.d.hosts[f.rnd.IntN(len(f.d.hosts))]
	f.note("host stopped")
	_ = h.cmd.Process.Signal(syscall.SIGSTOP) // it lives
	f.pass(time.Duration(3+f.rnd.IntN(10)) * time.Second)
	_ = h.cmd.Process.Signal(syscall.SIGCONT)
	f.back(h)
}

func (f *outsideFaults) cutHost() {
	h := f.d.hosts[f.rnd.IntN(len(f.d.hosts))]
	f.note("host cut off")
	f.cut(h, true)
	f.pass(time.Duration(5+f.rnd.IntN(15)) * time.Second)
	f.cut(h, false)
}

// some of the computers.
func (f *outsideFaults) some() []*homeWorker {
	all := slices.Clone(f.all)
	f.rnd.Shuffle(len(all), func(a, b int) { all[a], all[b] = all[b], all[a] })
	return all[:len(all)/10]
}

func (f *outsideFaults) killWorkers() {
	f.note("computers killed")
	for _, w := range f.some() {
		w.end(syscall.SIGKILL)
		w.start(f.t)
	}
}

func (f *outsideFaults) stopWorkers() {
	f.note("computers stopped")
	some := f.some()
	for _, w := range some {
		_ = w.cmd.Process.Signal(syscall.SIGSTOP) // it lives
	}
	f.pass(time.Duration(5+f.rnd.IntN(15)) * time.Second)
	for _, w := range some {
		_ = w.cmd.Process.Signal(syscall.SIGCONT)
	}
}

// whole checks each job at each host, and in the log.
func (f *outsideFaults) whole(sent time.Duration) {
	f.t.Helper()
	mended := time.Now()
	for _, id := range f.jobs {
		eventually(f.ctx, f.t, 5*time.Minute, "job "+string(id)+" ends everywhere", func() error {
			for _, h := range f.d.hosts {
				j, err := h.api.Job(f.ctx, string(id))
				if err == nil && !j.State.Final() {
					err = errors.New(string(j.State))
				}
				if err != nil {
					return fmt.Errorf("%s: %w", h.name, err)
				}
			}
			return nil
		})
	}
	ended := time.Since(mended)
	var submitted, accepted, assigned, failed, reclaimed uint64
	outside := 0
	for _, id := range f.jobs {
		for _, h := range f.d.hosts {
			j, err := h.api.Job(f.ctx, string(id))
			if err != nil {
				f.t.Fatal(err)
			}
			if j.State != job.Completed || j.Chunks.Accepted != faultyChunks || j.Chunks.Failed > 0 || j.Iterations.Accepted != j.Spec.Iterations || j.Attempts.Failed > 0 {
				f.t.Errorf("job %s at %s: %s, chunks %+v, iterations %+v of %d, attempts %+v", id, h.name, j.State, j.Chunks, j.Iterations, j.Spec.Iterations, j.Attempts)
			}
			if h != f.d.hosts[0] {
				continue
			}
			submitted, accepted = submitted+j.Spec.Iterations, accepted+j.Iterations.Accepted
			assigned, failed, reclaimed = assigned+j.Attempts.Assigned, failed+j.Attempts.Failed, reclaimed+j.Attempts.Reclaimed
			for _, w := range j.Workers {
				if cluster.IsOutside(w.Node) {
					outside += w.Accepted
				}
			}
		}
	}
	twice, seen := 0, map[job.Attempt]bool{}
	for _, e := range eventsOf(f.ctx, f.t, f.d.hosts[0], event.KindChunksAccepted) {
		b := body[event.ChunksAccepted](f.t, e)
		for _, a := range b.Accepts {
			chunk := job.Attempt{Job: b.Job, Chunk: a.Chunk}
			if seen[chunk] {
				twice++
			}
			seen[chunk] = true
		}
	}
	f.t.Logf("SUMMARY: %d jobs of %d chunks sent within %s, all ended %s after the last fault; iterations submitted %d, accepted %d; chunks by outside workers %d of %d; accepted again and void %d; attempts %d, of which failed %d, taken back %d; faults %v",
		len(f.jobs), faultyChunks, sent.Round(time.Second), ended.Round(time.Second), submitted, accepted, outside, len(f.jobs)*faultyChunks, twice, assigned, failed, reclaimed, sorted(f.did))
	if submitted != accepted || outside == 0 {
		f.t.Error("not every iteration counts once, or none of outside workers")
	}
}

func sorted(did map[string]int) (out []string) {
	for _, what := range slices.Sorted(maps.Keys(did)) {
		out = append(out, fmt.Sprintf("%d x %s", did[what], what))
	}
	return out
}
