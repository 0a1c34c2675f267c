package demo

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/internal/cut"
	"github.com/skein-project/skein/internal/wait"
	"github.com/skein-project/skein/internal/wasmtest"
	"github.com/skein-project/skein/offline"
)

// TestLinesCut: what is between computers and their gateways breaks, stalls in one way or in
// both, and comes back, while all of them run. Whoever has a way to another gateway takes it
// soon; who has none works on, and brings what it did when there is one again. Nothing that was
// finished when a line broke is computed again.
//
// SKEIN_PROVE=1 does all that twice, lets lines stall as well, and the figures count; the job
// is then what one computer alone makes of it, to the bit.
func TestLinesCut(t *testing.T) {
	parallel(t)
	// The job lasts longer than all that is done to the lines.
	n, rounds, chunks, size := 2, 1, 100_000, 50_000_000/leisurely(t)
	// A busy machine is no proof of the time.
	broken, stalled := 30*time.Second, time.Minute
	if proving() {
		n, rounds, chunks, size = 4, 2, 2800, 200_000_000
		// One that breaks is noticed at once, one that stalls by a beat, every 10 s, that is not
		// answered within 10 s; the next gateway is tried within 3 s of that.
		broken, stalled = 6*time.Second, 26*time.Second
	}
	var lines []*cut.Line
	d, ctx, urls := startGatewaysBehind(t, 2, func(listen string) string {
		line, err := cut.NewLine(listen)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(line.Close)
		lines = append(lines, line)
		return line.Addr()
	}, func(*demo) {}, "[api]\nbearer = \"all\"\n")
	gateways := []string{urls[d.hosts[0]], urls[d.hosts[1]]}
	all := startHomeWorkers(ctx, t, d, gateways, n)
	ann := newPortalUser(ctx, t, d.hosts[0], gateways[0], "ann")
	pi := filepath.Join(bin, "examples", "pi.wasm")
	spec, err := d.upload(ctx, pi)
	if err != nil {
		t.Fatal(err)
	}
	spec.Key, spec.Iterations, spec.Chunk, spec.Seed = "cut", uint64(chunks)*size, size, 7
	spec.Permission.Access = job.AccessOwner // hosts would be done with it meanwhile
	var sub api.SubmitResponse
	eventually(ctx, t, 3*time.Minute, "a job for ann's computers is taken", func() (err error) {
		sub, err = ann.submit(ctx, gateways[0], spec)
		return err
	})
	// counted is how many chunks of each outside worker count.
	counted := func() (out map[cluster.NodeID]int) {
		j, err := d.hosts[0].api.Job(ctx, string(sub.Job))
		if err != nil {
			t.Fatal(err)
		}
		if j.State.Final() {
			t.Fatalf("the job is %s too early", j.State)
		}
		out = map[cluster.NodeID]int{}
		for _, w := range j.Workers {
			if cluster.IsOutside(w.Node) {
				out[w.Node] = w.Accepted
			}
		}
		return out
	}
	// goOn waits until something more counts of each, and says how long that took.
	goOn := func(what string, most time.Duration) {
		t.Helper()
		before, began := counted(), time.Now()
		eventually(ctx, t, 3*time.Minute, what, func() error {
			now := counted()
			for w, n := range before {
				if now[w] <= n {
					return fmt.Errorf("%s has %d, had %d", w, now[w], n)
				}
			}
			return nil
		})
		t.Logf("%s: after %v", what, time.Since(began).Round(100*time.Millisecond))
		if most > 0 && time.Since(began) > most {
			t.Errorf("%s: after %v, want %v", what, time.Since(began), most)
		}
	}
	eventually(ctx, t, 5*time.Minute, "all work", func() error { // each compiles the module first
		now := counted()
		if len(now) < len(all) || slices.Contains(slices.Collect(maps.Values(now)), 0) {
			return fmt.Errorf("%v", now)
		}
		return nil
	})
	var gone, silent []absence // silent: for so long that others may be given what they had
	// away does something to the first line, and waits until who worked there has the other
	// gateway.
	away := func(what string, most time.Duration, do func(*cut.Line)) {
		t.Helper()
		g := absence{from: time.Now()}
		for _, w := range all {
			if at, _ := w.attached(); at == gateways[0] {
				g.there = append(g.there, w)
			}
		}
		do(lines[0])
		for _, w := range g.there {
			eventually(ctx, t, 3*time.Minute, what+": a computer works elsewhere", func() error {
				at, when := w.attached()
				if at == gateways[0] {
					return fmt.Errorf("it is at %s since %s", at, when.Format(time.TimeOnly))
				}
				return nil
			})
		}
		took := time.Since(g.from)
		t.Logf("%s: %d computers work elsewhere after %v", what, len(g.there), took.Round(100*time.Millisecond))
		if took > most {
			t.Errorf("%s: it took %v, want %v", what, took, most)
		}
		goOn(what+": they go on", 0)
		lines[0].Mend()
		g.to = time.Now()
		if most == broken {
			gone = append(gone, g)
		} else {
			silent = append(silent, g)
		}
		lines[1].Break() // all come back to the first one
		eventually(ctx, t, 3*time.Minute, "all are back at the first gateway", func() error {
			for i, w := range all {
				if at, _ := w.attached(); at != gateways[0] {
					return fmt.Errorf("pc%d is at %s", i, at)
				}
			}
			return nil
		})
		lines[1].Mend()
	}
	// nowhere does something to both lines for a while, in which nobody has a gateway.
	nowhere := func(what string, most time.Duration, do func(*cut.Line)) {
		t.Helper()
		g := absence{from: time.Now(), there: all}
		for _, line := range lines {
			do(line)
		}
		if err := wait.For(ctx, 15*time.Second); err != nil {
			t.Fatal(err)
		}
		for _, line := range lines {
			line.Mend()
		}
		goOn(what+": they bring what they did, and more", most)
		g.to = time.Now()
		silent = append(silent, g)
	}
	both := func(l *cut.Line) { l.Stall(cut.ToServer, cut.ToClient) }
	for range rounds {
		away("the line breaks", broken, (*cut.Line).Break)
		nowhere("all lines break", stalled, (*cut.Line).Break)
		if !proving() {
			break
		}
		away("the line stalls", stalled, both)
		away("answers do not come", stalled, func(l *cut.Line) { l.Stall(cut.ToClient) })
		nowhere("all lines stall", stalled, both)
		nowhere("no answer comes", stalled, func(l *cut.Line) { l.Stall(cut.ToClient) })
		nowhere("nothing is heard of them", stalled, func(l *cut.Line) { l.Stall(cut.ToServer) })
	}
	var got api.Job
	if proving() {
		got = finish(ctx, t, d.hosts[0], sub.Job)
		if got.State != job.Completed || got.Chunks.Accepted != chunks || got.Attempts.Failed > 0 {
			t.Errorf("%s: %+v, attempts %+v", got.State, got.Chunks, got.Attempts)
		}
	} else if got, err = d.hosts[0].api.Job(ctx, string(sub.Job)); err != nil || got.Attempts.Failed > 0 {
		t.Errorf("%v, attempts %+v", err, got.Attempts)
	}
	open, kept := nothingAgain(ctx, t, d.hosts[0], sub.Job, all, gone)
	t.Logf("%d results while a line was broken, %d of those who were cut off; attempts %+v", open, kept, got.Attempts)
	_, stayed, again := doneAgain(ctx, t, d.hosts[0], sub.Job, all, silent)
	t.Logf("%d results of those whom nobody heard, %d done again: %q", stayed, len(again), again)
	if stayed == 0 {
		t.Error("nobody finished anything while it was cut off")
	}
	if !proving() {
		return
	}
	module, err := os.ReadFile(pi)
	if err != nil {
		t.Fatal(err)
	}
	want, err := offline.RunLocal(ctx, offline.LocalJob{Spec: spec.WithDefaults(), Module: module, RunnerArgv: []string{plainSkein(), "runner"}, Modules: wasmtest.Modules(t)})
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got.Aggregates, want.Aggregates) || got.Iterations != want.Iterations {
		t.Errorf("with lines that were cut %v %+v\nlocally %v %+v", got.Iterations, got.Aggregates, want.Iterations, want.Aggregates)
	}
}
