package demo

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/config"
	"github.com/skein-project/skein/daemon"
	"github.com/skein-project/skein/gateway/crew"
	"github.com/skein-project/skein/gateway/desk"
	"github.com/skein-project/skein/offline"
	"github.com/skein-project/skein/scheduler/stream"
	"github.com/skein-project/skein/worker/artefact"
	"github.com/skein-project/skein/worker/executor"
)

// outsideHost in the environment of this test's program makes it a host with outside
// workers of its own; it is the program that runs chunks.
const outsideHost = "SKEIN_TEST_OUTSIDE"

const (
	outsiders    = 50
	outsideSlots = 2 // that all of them share
)

// runOutsideHost is `skein run` of a host at which outside workers attach.
func runOutsideHost() error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	args := strings.Join(os.Args[1:], " ") // run --config FILE [--join @FILE]
	var file, token string
	if _, err := fmt.Sscanf(args, "run --config %s --join @%s", &file, &token); err != nil {
		return fmt.Errorf("%s: %w", args, err)
	}
	cfg, err := config.Load(config.Options{Path: file})
	if err != nil {
		return err
	}
	runner := []string{os.Getenv(outsideHost), "runner"}
	return daemon.Run(ctx, cfg, daemon.RunOptions{
		Version: "test", Join: token, Stderr: os.Stderr, RunnerArgv: runner,
		Outside: func(ctx context.Context, c *crew.Crew, a *artefact.Store) error {
			wasm, err := executor.NewWASM(executor.WASMOptions{
				Artefacts: a, Slots: outsideSlots, RunnerArgv: runner, CacheDir: filepath.Join(cfg.StateDir, "outside-cache"), MemoryBytes: 1 << 30, Logger: zerolog.Nop(),
			})
			if err != nil {
				return err
			}
			slots := make(chan int, outsideSlots) // free ones
			for i := range outsideSlots {
				slots <- i
			}
			ctx, fail := context.WithCancelCause(ctx)
			var all sync.WaitGroup
			all.Go(func() { fail(wasm.Run(ctx)) })
			for i := range outsiders {
				o := &outsider{id: cluster.OutsideID(fmt.Append(nil, i)), owner: fmt.Sprintf("visitor:%d", i), wasm: wasm, slots: slots}
				all.Go(func() { fail(o.run(ctx, c)) })
			}
			all.Wait()
			return context.Cause(ctx)
		},
	})
}

// outsider is somebody's computer.
type outsider struct {
	id    cluster.NodeID
	owner string
	wasm  *executor.WASM
	slots chan int
	todo  []executor.Task
	kept  map[job.Attempt]stream.Result
}

// run attaches, does what it is given, and keeps each result until it is settled.
func (o *outsider) run(ctx context.Context, c *crew.Crew) error {
	o.kept = make(map[job.Attempt]stream.Result)
	seat, _, err := c.Attach(desk.Attach{Worker: o.id, Owner: o.owner, Slots: 1, Room: 2, Executors: []string{job.ExecutorWASM}})
	if err != nil {
		return err
	}
	beat := time.NewTicker(3 * time.Second)
	defer beat.Stop()
	done := make(chan stream.Result, 1) // of the one that runs
	busy := false
	for {
		if !busy && len(o.todo) > 0 {
			busy = true
			go func(t executor.Task) { done <- o.execute(ctx, t) }(o.todo[0])
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case r := <-done:
			busy = false
			o.forget([]job.Attempt{r.Attempt})
			o.kept[r.Attempt] = r
			if _, err := seat.Complete([]stream.Result{r}); err != nil {
				return err
			}
		case <-beat.C:
			b := desk.Beat{Ready: true, Kept: len(o.kept)}
			for _, t := range o.todo {
				b.Have = append(b.Have, desk.Progress{Attempt: t.Attempt})
			}
			if _, err := seat.Beat(b); err != nil {
				return err
			}
		case <-seat.Ready():
			for _, p := range seat.Take() {
				switch p.Kind {
				case desk.PushChunks:
					for _, r := range p.Chunks.Refs {
						o.todo = append(o.todo, executor.Task{Attempt: r, Spec: *p.Chunks.Spec})
					}
				case desk.PushSettled, desk.PushStop:
					o.forget(p.Refs)
				case desk.PushGone:
					return fmt.Errorf("%s is not wanted: %s", o.id, p.Reason)
				}
			}
		}
	}
}

func (o *outsider) forget(refs []job.Attempt) {
	for _, r := range refs {
		delete(o.kept, r)
		o.todo = slices.DeleteFunc(o.todo, func(t executor.Task) bool { return t.Attempt == r })
	}
}

func (o *outsider) execute(ctx context.Context, t executor.Task) stream.Result {
	slot := <-o.slots
	defer func() { o.slots <- slot }()
	began := time.Now()
	got, err := o.wasm.Execute(ctx, slot, t)
	r := stream.Result{Attempt: t.Attempt, Seconds: time.Since(began).Seconds()}
	if r.Result = &got; err != nil {
		r.Result, r.Error, r.Class = nil, job.ReasonOf(err), executor.ClassOf(err)
	}
	return r
}

// TestOutsideWorkers: fifty computers that no host runs do a part of a job, at one of
// three real hosts, which is killed in the middle. The job is what one computer alone
// makes of it, to the bit, and each chunk counts once.
func TestOutsideWorkers(t *testing.T) {
	parallel(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	skein := filepath.Join(bin, "skein")
	exe := script(t, "skein", fmt.Sprintf("if [ \"$1\" = run ] && [ -n \"$%s\" ]; then exec %q \"$@\"; fi\nexec %q \"$@\"", outsideHost, self, skein))
	d, ctx := startWith(t, 3, func(d *demo) {
		calm(d)
		d.o.Exe = exe
		d.env = func(i, _ int) []string {
			if i == 2 {
				return []string{outsideHost + "=" + plainSkein()}
			}
			return nil
		}
	})
	pi := filepath.Join(bin, "examples", "pi.wasm")
	spec, err := d.upload(ctx, pi)
	if err != nil {
		t.Fatal(err)
	}
	const chunks = 800
	spec.Key, spec.Iterations, spec.Chunk, spec.Seed = "outside", chunks*5_000_000, 5_000_000, 7
	spec.Permission.Outside = true
	sub := submit(ctx, t, d.hosts[0], spec)
	strange := func() (workers, n int) {
		j, err := d.hosts[0].api.Job(ctx, string(sub.Job))
		if err != nil {
			return 0, 0
		}
		if j.State.Final() {
			t.Fatalf("the job is %s before its host is killed", j.State)
		}
		for _, w := range j.Workers {
			if cluster.IsOutside(w.Node) && w.Accepted > 0 {
				workers, n = workers+1, n+w.Accepted
			}
		}
		return workers, n
	}
	until(ctx, t, "outside workers to count", func() bool { _, n := strange(); return n >= 10 })
	workers, n := strange()
	gateway := d.hosts[2]
	if err := gateway.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-gateway.done
	got := finish(ctx, t, d.hosts[0], sub.Job)
	t.Logf("%d chunks of %d outside workers counted before their host was killed; %d attempts, %d reclaimed, %d failed", n, workers, got.Attempts.Assigned, got.Attempts.Reclaimed, got.Attempts.Failed)
	if got.State != job.Completed || got.Chunks.Accepted != chunks || got.Attempts.Failed > 0 {
		t.Errorf("%s: %+v, attempts %+v", got.State, got.Chunks, got.Attempts)
	}
	module, err := os.ReadFile(pi)
	if err != nil {
		t.Fatal(err)
	}
	want, err := offline.RunLocal(ctx, offline.LocalJob{Spec: spec.WithDefaults(), Module: module, RunnerArgv: []string{plainSkein(), "runner"}})
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got.Aggregates, want.Aggregates) || got.Iterations != want.Iterations {
		t.Errorf("with outside workers %v %+v\nlocally %v %+v", got.Iterations, got.Aggregates, want.Iterations, want.Aggregates)
	}
	// A log that a kill ended is whole.
	if out, err := exec.CommandContext(ctx, skein, "log", "verify", "--state-dir", gateway.stateDir()).CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}
