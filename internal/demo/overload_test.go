package demo

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/job"
)

// TestOverload floods the holder with submissions, lists and watches, more than it can
// do, for seconds: nothing that was acknowledged is lost, stops are carried out all the
// while, the lease moves once at most, and later every host is calm. SKEIN_PROVE=1 floods
// for a minute, on a machine that does nothing else, and holds stops to 2 s and the way
// back to normal to a minute.
func TestOverload(t *testing.T) {
	flood, clients, bound := 6*time.Second, 32, 20*time.Second
	if proving() {
		flood, clients, bound = time.Minute, 128, 2*time.Second
	}
	d, ctx := startWith(t, 3, func(d *demo) { d.o.Profile = cluster.ProfileClassic })
	holder, err := d.holder(ctx)
	if err != nil {
		t.Fatal(err)
	}
	before, err := holder.api.Lease(ctx)
	if err != nil {
		t.Fatal(err)
	}
	spec, err := d.upload(ctx, filepath.Join(bin, "examples", "pi.wasm"))
	if err != nil {
		t.Fatal(err)
	}
	storm, calmed := context.WithTimeout(ctx, flood)
	defer calmed()
	var (
		all              sync.WaitGroup
		mu               sync.Mutex
		acknowledged     []job.ID
		refused, listed  atomic.Int64
		worst            string // level seen
		stopped, stopMax time.Duration
		stops            int
	)
	for c := range clients {
		all.Go(func() {
			own := spec
			own.Iterations, own.Chunk = 100, 100
			for i := 0; storm.Err() == nil; i++ {
				own.Key = fmt.Sprintf("flood %d-%d", c, i)
				// Without patience of its own: what is refused comes back at once.
				sub, err := holder.api.Submit(storm, api.SubmitRequest{Spec: own})
				if err == nil {
					mu.Lock()
					acknowledged = append(acknowledged, sub.Job)
					mu.Unlock()
				} else {
					refused.Add(1)
				}
				if _, err := holder.api.Members(storm); err == nil {
					listed.Add(1)
				}
			}
		})
	}
	all.Go(func() { // somebody who stops what runs
		long := spec
		long.Iterations, long.Chunk = 1<<40, 1<<40
		for i := 0; storm.Err() == nil; i++ {
			if st, err := holder.api.Status(storm); err == nil && st.Pressure.Score > 0 {
				mu.Lock()
				worst = max(worst, fmt.Sprintf("%.1f %s", st.Pressure.Score, st.Pressure.Level))
				mu.Unlock()
			}
			long.Key = fmt.Sprintf("to be stopped %d", i)
			sub, err := holder.api.Submit(storm, api.SubmitRequest{Spec: long})
			if err != nil {
				continue
			}
			began := time.Now()
			if _, err := holder.api.StopJob(ctx, string(sub.Job), ""); err != nil {
				t.Errorf("stop refused: %v", err)
				return
			}
			took := time.Since(began)
			stops, stopped, stopMax = stops+1, stopped+took, max(stopMax, took)
		}
	})
	all.Wait()
	calmSince := time.Now()
	t.Logf("%d acknowledged, %d refused, %d lists, worst score %s; %d stops, mean %s, worst %s",
		len(acknowledged), refused.Load(), listed.Load(), worst, stops, stopped/time.Duration(max(1, stops)), stopMax)
	if len(acknowledged) == 0 || stops == 0 || stopMax > bound {
		t.Errorf("%d acknowledged, %d stops, the worst took %s", len(acknowledged), stops, stopMax)
	}
	out, errs, code := d.cli(ctx, holder, "overload")
	if t.Logf("$ skein overload\n%s%s", out, errs); code != 0 || !strings.Contains(out, "work delay") || !strings.Contains(out, "telemetry") {
		t.Errorf("exit %d", code)
	}
	o, err := holder.api.Overload(ctx)
	if err != nil || len(o.Signals) != 7 || len(o.Lanes) != 6 || !o.Enabled {
		t.Errorf("%+v, %v", o, err)
	}
	within := 5 * time.Minute
	if proving() {
		within = time.Minute
	}
	for _, h := range d.hosts {
		eventually(ctx, t, within, h.name+" to be calm", func() error {
			st, err := h.api.Status(ctx)
			// On a machine that does much else the processor is short for all of them.
			if err == nil && st.Pressure.Level != "normal" && (proving() || st.Pressure.Level != "elevated") {
				err = fmt.Errorf("%s by %s", st.Pressure.Level, st.Pressure.Signal)
			}
			return err
		})
	}
	t.Logf("calm %s after", time.Since(calmSince).Round(time.Second))
	other := d.hosts[(slices.Index(d.hosts, holder)+1)%len(d.hosts)]
	for _, id := range acknowledged {
		eventually(ctx, t, time.Minute, "job "+string(id), func() error {
			_, err := other.api.Job(ctx, string(id))
			return err
		})
	}
	after, err := other.api.Lease(ctx)
	if err != nil || after.Term > before.Term+1 {
		t.Errorf("term %d, it was %d, %v", after.Term, before.Term, err)
	}
}
