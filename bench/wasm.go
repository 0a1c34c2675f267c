package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/rs/zerolog"

	"github.com/skein-project/skein/bench/facebench"
	"github.com/skein-project/skein/bench/suite"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/worker/artefact"
	"github.com/skein-project/skein/worker/executor"
)

// runnerRole makes this program a runner of chunks.
const runnerRole = "runner"

// guests compares an example job as a guest of the wasm executor with the same
// Go code compiled for this machine, a process per chunk.
func guests(ctx context.Context, s *suite.Suite) error {
	const job = "pi"
	rate := suite.Series{
		Name: "iterations of " + job + " as a guest", Unit: "iterations/s", Digest: suite.Median,
		With: "the same Go code, native",
	}
	empty := suite.Series{
		Name: "a chunk of one iteration of " + job + " as a guest", Unit: "ms", Digest: suite.Median,
		With: "a native process for the chunk",
	}
	g, err := newGuest(ctx, filepath.Join(s.Dir, "guest"), job)
	if err != nil {
		return err
	}
	defer g.close()
	for i := range s.Size.Rounds + 1 {
		s.Progress("%s as a guest, round %d of %d", job, i, s.Size.Rounds)
		var a, b figures
		err := suite.InTurn(i, func() (err error) {
			a, err = measure(s.Size.Burst, func(n uint64) error { return g.execute(ctx, n) })
			return err
		}, func() (err error) {
			b, err = measure(s.Size.Burst, func(n uint64) error { return g.native(ctx, n) })
			return err
		})
		if err != nil {
			return err
		}
		if i > 0 { // the first compiles and warms up
			rate.Ours, rate.Peer = append(rate.Ours, a.perSecond), append(rate.Peer, b.perSecond)
			empty.Ours, empty.Peer = append(empty.Ours, a.one), append(empty.Peer, b.one)
		}
	}
	s.Add(rate)
	s.Add(empty)
	return nil
}

// browserGuest compares an example job as a guest of a browser that works with the same
// module as a guest of the wasm executor.
func browserGuest(ctx context.Context, s *suite.Suite) error {
	const job = "pi"
	row := suite.Series{
		Name: "page: iterations of " + job + " as a guest", Unit: "iterations/s", Digest: suite.Median, Target: suite.Want("ratio", ">=", 0.5),
		With: "the same module, a guest of a host's wasm executor",
	}
	g, err := newGuest(ctx, filepath.Join(s.Dir, "page-guest"), job)
	if err != nil {
		return err
	}
	defer g.close()
	for i := range s.Size.Rounds + 1 {
		s.Progress("%s as a guest in Chromium, round %d of %d", job, i, s.Size.Rounds)
		var a map[string][]float64
		var b figures
		err := suite.InTurn(i, func() (err error) {
			a, err = facebench.Measured(ctx, s, "-rounds", "1", "-for", s.Size.Burst.String(), "-module", g.program+".wasm",
				"-scripts", filepath.Join("..", "web", "worker", "dist"), "guest")
			return err
		}, func() (err error) {
			b, err = measure(s.Size.Burst, func(n uint64) error { return g.execute(ctx, n) })
			return err
		})
		if absent, ok := errors.AsType[*facebench.NoBrowserError](err); ok {
			s.Skip(row.Name, absent.Error())
			return nil
		}
		if err != nil {
			return err
		}
		if i > 0 { // the first compiles and warms up
			row.Ours, row.Peer = append(row.Ours, a["guest"]...), append(row.Peer, b.perSecond)
		}
	}
	s.Add(row)
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
			return figures{perSecond: float64(n) / (took - one).Seconds(), one: suite.Ms(one)}, nil
		}
	}
}

// guest is one job, as a module and as a program.
type guest struct {
	program string
	exec    *executor.WASM
	spec    job.Spec
	cancel  context.CancelFunc
	done    chan struct{} // closed when the executor ended
}

func newGuest(ctx context.Context, dir, j string) (*guest, error) {
	g := &guest{program: filepath.Join(dir, j), done: make(chan struct{})}
	module := g.program + ".wasm"
	for out, env := range map[string][]string{g.program: nil, module: {"GOOS=wasip1", "GOARCH=wasm"}} {
		build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", out, "./examples/"+j)
		build.Dir, build.Env = "..", append(os.Environ(), append(env, "CGO_ENABLED=0")...)
		if text, err := build.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("build the example %s: %w: %s", j, err, text)
		}
	}
	code, err := os.ReadFile(module)
	if err != nil {
		return nil, err
	}
	store, err := artefact.New(artefact.Options{Dir: filepath.Join(dir, "artefacts")})
	if err != nil {
		return nil, err
	}
	g.spec = job.Spec{Key: "bench"}
	if g.spec.Artefact, err = store.Put(bytes.NewReader(code), job.MaxModuleBytes); err != nil {
		return nil, err
	}
	g.exec, err = executor.NewWASM(executor.WASMOptions{
		Artefacts: store, Slots: 1, RunnerArgv: []string{"/proc/self/exe", runnerRole}, CacheDir: filepath.Join(dir, "cache"),
		MemoryBytes: job.DefaultMemory, Logger: zerolog.Nop(),
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
	_, err := g.exec.Execute(ctx, 0, executor.Task{Attempt: job.Attempt{Job: "bench", Number: 1}, Spec: s.WithDefaults()})
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
