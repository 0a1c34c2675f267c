package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/rs/zerolog"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/scheduler/stream"
	"github.com/skein-project/skein/worker"
)

// runnerRole makes this program a runner of chunks.
const runnerRole = "runner"

// guests compares an example job as a guest of the wasm executor with the same
// Go code compiled for this machine, a process per chunk.
func guests(ctx context.Context, s *suite) error {
	const job = "pi"
	rate := series{
		name: "iterations of " + job + " as a guest", unit: "iterations/s", digest: median,
		with: "the same Go code, native",
	}
	empty := series{
		name: "a chunk of one iteration of " + job + " as a guest", unit: "ms", digest: median,
		with: "a native process for the chunk",
	}
	g, err := newGuest(ctx, filepath.Join(s.dir, "guest"), job)
	if err != nil {
		return err
	}
	defer g.close()
	for i := range s.size.rounds + 1 {
		s.progress("%s as a guest, round %d of %d", job, i, s.size.rounds)
		var a, b figures
		err := inTurn(i, func() (err error) {
			a, err = measure(s.size.burst, func(n uint64) error { return g.execute(ctx, n) })
			return err
		}, func() (err error) {
			b, err = measure(s.size.burst, func(n uint64) error { return g.native(ctx, n) })
			return err
		})
		if err != nil {
			return err
		}
		if i > 0 { // the first compiles and warms up
			rate.ours, rate.peer = append(rate.ours, a.perSecond), append(rate.peer, b.perSecond)
			empty.ours, empty.peer = append(empty.ours, a.one), append(empty.peer, b.one)
		}
	}
	s.add(rate)
	s.add(empty)
	return nil
}

// figures are the iterations per second of a long chunk beyond the time of
// a chunk of one iteration, in milliseconds.
type figures struct{ perSecond, one float64 }

// measure finds a chunk that takes about d.
func measure(d time.Duration, run func(iterations uint64) error) (figures, error) {
	timed := func(n uint64) (time.Duration, error) {
		began := time.Now()
		err := run(n)
		return time.Since(began), err
	}
	one, err := timed(1)
	if err != nil {
		return figures{}, err
	}
	for n := uint64(10_000); ; n *= 4 {
		took, err := timed(n)
		if err != nil {
			return figures{}, err
		}
		if took > one && took >= d/2 {
			return figures{perSecond: float64(n) / (took - one).Seconds(), one: ms(one)}, nil
		}
	}
}

// guest is one job, as a module and as a program.
type guest struct {
	program string
	exec    *worker.WASM
	spec    cluster.JobSpec
	cancel  context.CancelFunc
	done    chan struct{} // closed when the executor ended
}

func newGuest(ctx context.Context, dir, job string) (*guest, error) {
	g := &guest{program: filepath.Join(dir, job), done: make(chan struct{})}
	module := g.program + ".wasm"
	for out, env := range map[string][]string{g.program: nil, module: {"GOOS=wasip1", "GOARCH=wasm"}} {
		build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", out, "./examples/"+job)
		build.Dir, build.Env = "..", append(os.Environ(), append(env, "CGO_ENABLED=0")...)
		if text, err := build.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("build the example %s: %w: %s", job, err, text)
		}
	}
	code, err := os.ReadFile(module)
	if err != nil {
		return nil, err
	}
	store, err := worker.NewArtefacts(worker.ArtefactsOptions{Dir: filepath.Join(dir, "artefacts")})
	if err != nil {
		return nil, err
	}
	g.spec = cluster.JobSpec{Key: "bench"}
	if g.spec.Artefact, err = store.Put(bytes.NewReader(code), cluster.MaxModuleBytes); err != nil {
		return nil, err
	}
	g.exec, err = worker.NewWASM(worker.WASMOptions{
		Artefacts: store, Slots: 1, RunnerArgv: []string{"/proc/self/exe", runnerRole}, CacheDir: filepath.Join(dir, "cache"),
		MemoryBytes: cluster.DefaultMemory, Logger: zerolog.Nop(),
	})
	if err != nil {
		return nil, err
	}
	runCtx, cancel := context.WithCancel(context.Background())
	g.cancel = cancel
	go func() {
		defer close(g.done)
		_ = g.exec.Run(runCtx) // says that it was cancelled
	}()
	return g, nil
}

func (g *guest) close() {
	g.cancel()
	<-g.done
}

// execute runs one chunk as a guest.
func (g *guest) execute(ctx context.Context, iterations uint64) error {
	s := g.spec
	s.Iterations, s.Chunk = iterations, iterations
	_, err := g.exec.Execute(ctx, 0, worker.Task{Ref: stream.Ref{Job: "bench", Attempt: 1}, Spec: s.WithDefaults()})
	return err
}

// native runs the same chunk as a process.
func (g *guest) native(ctx context.Context, iterations uint64) error {
	cmd := exec.CommandContext(ctx, g.program)
	cmd.Env = []string{fmt.Sprintf("SKEIN_ITERATIONS=%d", iterations), "SKEIN_SEED_OFFSET=0", "SKEIN_CHUNK_ID=0", "SKEIN_SEED=0"}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("native: %w: %s", err, out)
	}
	return nil
}
