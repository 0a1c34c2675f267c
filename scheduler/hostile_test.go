package scheduler

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
)

// hostilities are what visitors do: compute wrongly, and say that they were quick; never
// answer; fail; vanish with all they have and come back; send results of others' chunks.
var hostilities = []string{"lie", "hurry", "silent", "fail", "vanish", "flood"}

// besieged runs one job of chunks on three hosts beside as many hostile visitors of one
// network, and says how long it took.
func besieged(t *testing.T, chunks, visitors int) (took time.Duration) {
	holder := cluster.NodeID("a")
	hosts := []*fakeWorker{newFakeWorker("a", 2), newFakeWorker("b", 2), newFakeWorker("c", 2)}
	gates := []*gatewayHost{newGatewayHost(t.Context(), &holder), newGatewayHost(t.Context(), &holder)}
	hosts[0].crew, hosts[1].crew = gates[0], gates[1]
	for _, h := range hosts {
		h.delay = 4 * time.Second
	}
	r := newRig(t, newMemLog("a"), hosts...)
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for i := range visitors {
		o := newOutsider(i, "visitor:one", gates...)
		o.hostile = hostilities[i%len(hostilities)]
		o.lies = o.hostile == "lie" || o.hostile == "hurry" || o.hostile == "flood"
		wg.Go(func() { o.run(ctx) })
		if o.hostile == "vanish" {
			wg.Go(func() {
				for ctx.Err() == nil {
					select {
					case <-ctx.Done():
					case <-time.After(time.Second): // sooner than it has done anything
						poke(o.quits)
					}
				}
			})
		}
	}
	stop := r.run(1)
	time.Sleep(5 * time.Second)
	dials := make([]int, len(hosts))
	for i, h := range hosts {
		h.mu.Lock()
		dials[i] = h.dials
		h.mu.Unlock()
	}
	began := time.Now()
	j := r.ended(r.submitOutside("k", chunks), 2*time.Hour)
	took = time.Since(began)
	wantDone(t, j)
	if a := j.Aggregates[0]; a.N != 10*uint64(chunks) || a.Mean != float64(chunks-1)/2 || a.Min != 0 || a.Max != float64(chunks-1) {
		t.Errorf("aggregate %+v", a)
	}
	if n := r.log.count(event.KindChunkFailed); n > 0 {
		t.Errorf("%d attempts failed", n)
	}
	ran := 0
	for i, h := range hosts {
		h.mu.Lock()
		if h.dials != dials[i] {
			t.Errorf("the stream of %s ended", h.node)
		}
		for _, n := range h.ran {
			ran += n
		}
		h.mu.Unlock()
	}
	strange := 0
	for _, w := range j.Workers {
		if cluster.IsOutside(w.Worker) {
			strange += w.Chunks
		}
	}
	t.Logf("%d visitors: %v, members ran %d attempts for %d chunks, visitors count with %d", visitors, took, ran, chunks, strange)
	_ = stop()
	cancel()
	wg.Wait()
	for _, g := range gates {
		g.kill()
	}
	for _, w := range r.workers {
		w.kill()
	}
	return took
}

// TestHostileVisitors: a job that is open to visitors takes members, besieged by keys of
// one network that all do their worst, less than a tenth longer than without; nothing wrong
// counts, nothing fails, and no member's stream ends.
func TestHostileVisitors(t *testing.T) {
	chunks, visitors := rounds(600, 3000), rounds(24, 100)
	var alone, beside time.Duration
	synctest.Test(t, func(t *testing.T) { alone = besieged(t, chunks, 0) })
	synctest.Test(t, func(t *testing.T) { beside = besieged(t, chunks, visitors) })
	if lost := beside.Seconds()/alone.Seconds() - 1; lost >= 0.1 {
		t.Errorf("members lose %.1f %%: %v, and %v without", 100*lost, beside, alone)
	}
}
