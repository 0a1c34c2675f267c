package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster/flow"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/internal/cut"
	"github.com/skein-project/skein/internal/wait"
)

// thirty is a workflow of 30 steps: a tree of sweeps, each of which prices at what the
// report before it found, a step that fails twice and is ignored, one that follows its
// failure, a setup and a teardown.
func thirty(sweep job.Spec) flow.Def {
	raw := func(format string, args ...any) json.RawMessage { return json.RawMessage(fmt.Sprintf(format, args...)) }
	sweep.Iterations, sweep.Chunk = 2000, 1000
	one := sweep
	one.Iterations, one.Chunk, one.Attempts = 1, 1, 1
	means := map[string]json.RawMessage{"means": raw("[1]")}
	d := flow.Def{Name: "thirty", Steps: []flow.Step{
		{Name: "setup", Role: flow.RoleSetup, Job: one, Inputs: means},
		{Name: "bad", Job: one, Retry: flow.Retry{Times: 1}, OnFailure: flow.FailureIgnore}, // has no config
		{Name: "alarm", AfterFailed: []string{"bad"}, Job: one, Inputs: means},
		{Name: "clean", Role: flow.RoleTeardown, Job: one, Inputs: means},
	}}
	for i := range 13 {
		price := flow.Step{
			Name: fmt.Sprintf("price%d", i), Each: raw("[0.1, 0.3]"), Job: sweep, Outputs: map[string]string{"mean": "metric:price.mean"},
			Inputs: map[string]json.RawMessage{"barrier": raw("0.%d", 50+i), "strike": raw("1")},
		}
		if i > 0 {
			before := fmt.Sprintf("report%d", (i-1)/2)
			price.After, price.Each = []string{before}, raw(`["${%s.highest}", 0.2]`, before)
		}
		d.Steps = append(d.Steps, price, flow.Step{
			Name: fmt.Sprintf("report%d", i), After: []string{price.Name}, Job: one,
			Inputs:  map[string]json.RawMessage{"means": raw(`"${%s.mean}"`, price.Name)},
			Outputs: map[string]string{"highest": "metric:highest.mean", "spread": "metric:spread.mean"},
		})
	}
	return d
}

// triesOf are the tries at all instances of a run.
func triesOf(w api.Workflow) string {
	out := ""
	for _, s := range w.Steps {
		for _, in := range s.Instances {
			out += fmt.Sprintf(" %s[%d]#%d", s.Name, in.Index, in.Try)
		}
	}
	return out
}

// faults are kills and cuts of hosts, one after the other.
type faults struct {
	d     *demo
	apart *cut.Cutter
	n     [3]int // holders killed, holders cut off, others killed
}

// next has a host fail and come back.
func (f *faults) next(ctx context.Context) error {
	holder, err := f.d.holder(ctx)
	if err != nil {
		return err
	}
	what := (f.n[0] + f.n[1] + f.n[2]) % len(f.n)
	f.n[what]++
	if what == 1 {
		port := f.d.ports[slices.Index(f.d.hosts, holder)]
		f.apart.Put(port, 1)
		err := wait.For(ctx, 3*time.Second)
		f.apart.Put(port, 0)
		return err
	}
	struck := holder
	if what == 2 {
		struck = f.d.other(holder)
	}
	if err := killGroup(struck.cmd.Process); err != nil {
		return err
	}
	<-struck.done
	if err := wait.For(ctx, time.Second); err != nil {
		return err
	}
	return struck.run()
}

// TestWorkflowsUnderFaults has runs of 30 steps under way while holders are killed and cut
// off and other hosts are killed, one after the other. Each run ends as one that nothing
// happened to, with the same outputs to the bit, no try more than that had, and every chunk
// of every job counts once. The suite has few runs and a fault of each kind; SKEIN_PROVE=1
// has 100 runs, or SKEIN_RUNS, and faults until they have ended.
func TestWorkflowsUnderFaults(t *testing.T) {
	parallel(t)
	const calmTime = 2 * time.Second // between two faults
	runs, most := 3, 3
	if proving() {
		runs, most = 100, math.MaxInt
	}
	if n, err := strconv.Atoi(os.Getenv("SKEIN_RUNS")); err == nil {
		runs = n
	}
	apart := cut.New()
	t.Cleanup(apart.Close)
	d, ctx := startWith(t, 3, func(d *demo) {
		d.env = func(_, port int) []string {
			at, err := apart.Front(port)
			if err != nil {
				t.Fatal(err)
			}
			return []string{"SKEIN_MESH_ADVERTISE=" + at.String()}
		}
	})
	sweep, err := d.upload(ctx, filepath.Join(bin, "examples", "sweep.wasm"))
	if err != nil {
		t.Fatal(err)
	}
	def := thirty(sweep)
	if len(def.Steps) != 30 {
		t.Fatalf("%d steps", len(def.Steps))
	}
	// submit is asked of any host until one takes it: the same key is the same run.
	begin := func(key string) flow.RunID {
		for n := 0; ; n++ {
			sub, err := d.hosts[n%3].api.SubmitWorkflow(ctx, api.WorkflowRequest{Key: key, Definition: def})
			if err == nil {
				return sub.Run
			}
			if wait.For(ctx, 10*pollEvery) != nil {
				t.Fatalf("run %s is not taken: %v", key, err)
			}
		}
	}
	// of asks hosts until one of them says how a run is.
	of := func(id flow.RunID) (w api.Workflow) {
		for n := 0; ; n++ {
			w, err := d.hosts[n%3].api.Workflow(ctx, string(id))
			if err == nil {
				return w
			}
			if wait.For(ctx, pollEvery) != nil {
				t.Fatalf("nobody tells of run %s: %v", id, err)
			}
		}
	}
	calm := of(begin("calm"))
	began := time.Now()
	for !calm.State.Final() {
		if wait.For(ctx, pollEvery) != nil {
			t.Fatalf("the run without faults does not end: %s", ofRun(calm))
		}
		calm = of(calm.ID)
	}
	want := ofRun(calm) + triesOf(calm)
	if calm.State != flow.Partial {
		t.Fatalf("the run without faults: %s", want)
	}
	t.Logf("without faults a run takes %s", time.Since(began).Round(time.Millisecond))

	f := &faults{d: d, apart: apart}
	storm, calmed := context.WithCancel(ctx)
	over := make(chan error, 1)
	go func() {
		for n := 0; n < most && wait.For(storm, calmTime) == nil; n++ {
			if err := f.next(storm); err != nil && storm.Err() == nil {
				over <- err
				return
			}
		}
		over <- nil
	}()
	began = time.Now()
	var all []flow.RunID
	for i := 0; i < runs; {
		for n := 0; n < 25 && i < runs; n, i = n+1, i+1 {
			all = append(all, begin(fmt.Sprint("storm ", i)))
		}
		for _, id := range all[max(0, len(all)-25):] {
			for !of(id).State.Final() {
				if wait.For(ctx, 4*pollEvery) != nil {
					t.Fatalf("run %s does not end: %s", id, ofRun(of(id)))
				}
			}
		}
	}
	took := time.Since(began)
	calmed()
	if err := <-over; err != nil {
		t.Fatal(err)
	}
	for _, h := range d.hosts {
		if !h.alive() {
			start1(t, h)
		}
		apart.Put(d.ports[slices.Index(d.hosts, h)], 0)
	}
	t.Logf("%d runs of %d steps in %s; holders killed: %d, cut off: %d, others killed: %d", runs, len(def.Steps), took.Round(time.Second), f.n[0], f.n[1], f.n[2])
	if f.n[0] == 0 || f.n[1] == 0 {
		t.Errorf("too little happened to them")
	}
	clusterIs(ctx, t, d.hosts, 3, 3)
	allEqual(ctx, t, d)
	jobs := 0
	for _, h := range d.hosts {
		for i, id := range all {
			w, err := h.api.Workflow(ctx, string(id))
			if err != nil {
				t.Fatal(err)
			}
			if got := ofRun(w) + triesOf(w); got != want {
				t.Errorf("%s: run %d is\n%s\nwant\n%s", h.name, i, got, want)
			}
			for _, s := range w.Steps {
				for _, in := range s.Instances {
					if in.State != flow.Completed || h != d.hosts[0] {
						continue
					}
					jobs++
					j, err := h.api.Job(ctx, string(in.Job))
					if err != nil || j.State != job.Completed || j.Chunks.Accepted != j.Chunks.Total || j.Iterations.Accepted != j.Iterations.Total {
						t.Errorf("run %d, job of %s[%d]: %s, %+v, %v", i, s.Name, in.Index, j.State, j.Chunks, err)
					}
				}
			}
		}
	}
	// Nothing is left over: whatever was submitted for a run has ended with it.
	eventually(ctx, t, time.Minute, "no job is left", func() error {
		list, err := d.hosts[0].api.Jobs(ctx)
		for _, j := range list.Jobs {
			if !j.State.Final() {
				err = errors.Join(err, fmt.Errorf("%s (%s) is %s", j.ID, j.Name, j.State))
			}
		}
		return err
	})
	t.Logf("%d jobs were completed, each chunk counts once", jobs)
}
