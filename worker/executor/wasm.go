package executor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/worker/artefact"
	"github.com/skein-project/skein/worker/runner"
)

// Defaults of WASMOptions.
const (
	DefaultMemoryCap    = uint64(1) << 30
	DefaultLoadTimeout  = 2 * time.Minute
	DefaultFetchTimeout = 2 * time.Minute
	DefaultPatience     = 15 * time.Second
	fetchPause          = 300 * time.Millisecond
	DefaultCacheBytes   = int64(1) << 30
)

// WASMOptions configures the wasm executor.
type WASMOptions struct {
	// Artefacts supplies modules and configs, from other hosts if need be.
	Artefacts *artefact.Store
	// Outputs stores the files that guests leave, and ScratchDir holds them until then;
	// without them jobs with outputs do not run here.
	Outputs    *artefact.Store
	ScratchDir string
	// Slots is the number of children; it must be that of the Worker.
	Slots int
	// RunnerArgv starts a process that calls runner.Main; default:
	// {"/proc/self/exe", "runner"}, which is the running program even after
	// its file was replaced.
	RunnerArgv []string
	// CacheDir keeps compiled modules over restarts; empty: none.
	CacheDir string
	// CacheBytes bounds CacheDir; at the start the oldest entries go.
	CacheBytes int64
	// MemoryBytes is the most linear memory that a job may ask for here.
	MemoryBytes uint64
	// LoadTimeout bounds the compilation of a module, FetchTimeout the
	// transfer of an artefact. Neither counts as the chunk's time.
	LoadTimeout, FetchTimeout time.Duration
	// FetchPatience is how long hosts are asked again for an artefact that
	// none of them has; default 15 s, negative: not at all.
	FetchPatience time.Duration

	Logger     zerolog.Logger
	Registerer prometheus.Registerer // may be nil
}

// WASM runs WASI commands in child processes, one per slot.
type WASM struct {
	opts WASMOptions
	log  zerolog.Logger
	m    wasmMetrics

	spawns chan spawn    // capacity 0: each caller waits for its child
	slots  []chan *child // capacity 1: holds the slot's idle child or nil; empty while it works
	ended  chan struct{} // closed when Run returned

	mu      sync.Mutex
	live    map[*child]bool
	loading map[cluster.Hash]chan struct{} // capacity 1: a token to compile the module first
	warm    map[cluster.Hash]bool          // compiled in this process's time
}

type wasmMetrics struct {
	spawned prometheus.Counter
	killed  prometheus.Counter
	load    prometheus.Histogram
}

type spawn struct{ answer chan spawned } // capacity 1

type spawned struct {
	child *child
	err   error
}

// NewWASM checks o and makes the executor. It starts no process.
func NewWASM(o WASMOptions) (*WASM, error) {
	if len(o.RunnerArgv) == 0 {
		o.RunnerArgv = []string{"/proc/self/exe", "runner"}
	}
	o.MemoryBytes = cmp.Or(o.MemoryBytes, DefaultMemoryCap)
	o.FetchPatience = cmp.Or(o.FetchPatience, DefaultPatience)
	o.LoadTimeout = cmp.Or(o.LoadTimeout, DefaultLoadTimeout)
	o.FetchTimeout = cmp.Or(o.FetchTimeout, DefaultFetchTimeout)
	o.CacheBytes = cmp.Or(o.CacheBytes, DefaultCacheBytes)
	o.Slots = cmp.Or(o.Slots, runtime.NumCPU())
	switch {
	case o.Artefacts == nil:
		return nil, errors.New("wasm executor: no artefact store")
	case o.Slots < 1 || o.Slots > MaxSlots:
		return nil, fmt.Errorf("wasm executor: slots is %d, want 1-%d", o.Slots, MaxSlots)
	case o.MemoryBytes < job.MinMemoryBytes || o.MemoryBytes > job.MaxMemoryBytes:
		return nil, fmt.Errorf("wasm executor: memory is %d, want %d-%d", o.MemoryBytes, job.MinMemoryBytes, job.MaxMemoryBytes)
	}
	if o.CacheDir != "" {
		dir, err := filepath.Abs(o.CacheDir)
		if err != nil {
			return nil, fmt.Errorf("module cache: %w", err)
		}
		o.CacheDir = dir
		if err := pruneCache(dir, o.CacheBytes); err != nil {
			return nil, err
		}
	}
	if o.ScratchDir != "" {
		dir, err := filepath.Abs(o.ScratchDir)
		if err == nil {
			err = os.RemoveAll(dir) // what an earlier process left
		}
		if err == nil {
			err = os.MkdirAll(dir, 0o700)
		}
		if err != nil {
			return nil, fmt.Errorf("wasm executor: scratch directory: %w", err)
		}
		o.ScratchDir = dir
	}
	e := &WASM{
		opts:    o,
		log:     o.Logger.With().Str("component", "worker.wasm").Logger(),
		spawns:  make(chan spawn),
		ended:   make(chan struct{}),
		live:    map[*child]bool{},
		loading: map[cluster.Hash]chan struct{}{},
		warm:    map[cluster.Hash]bool{},
	}
	for range o.Slots + 1 { // one more, for Compile and Trial
		slot := make(chan *child, 1)
		slot <- nil
		e.slots = append(e.slots, slot)
	}
	e.m = wasmMetrics{
		spawned: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "skein_runner_starts_total", Help: "Child processes started to run guests.",
		}),
		killed: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "skein_runner_kills_total", Help: "Child processes ended because a guest ran too long, was cancelled or broke its child.",
		}),
		load: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "skein_runner_load_seconds", Help: "Time to compile a module or to read it from the cache.",
			Buckets: prometheus.ExponentialBuckets(0.005, 3, 9),
		}),
	}
	return e, registerMetrics(o.Registerer, e.m.spawned, e.m.killed, e.m.load)
}

// pruneCache makes dir and removes its oldest files beyond limit bytes. Children
// write to the cache meanwhile: a file that is gone when it is looked at is none.
func pruneCache(dir string, limit int64) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("module cache: %w", err)
	}
	// What a release before left there has no checksums, and is not read any more.
	old, err := filepath.Glob(filepath.Join(dir, "wazero-*"))
	for _, name := range old {
		err = errors.Join(err, os.RemoveAll(name))
	}
	if err != nil {
		return fmt.Errorf("module cache: %w", err)
	}
	type file struct {
		name string
		size int64
		at   time.Time
	}
	var files []file
	var sum int64
	err = filepath.WalkDir(dir, func(name string, d os.DirEntry, err error) error {
		var info os.FileInfo
		if err == nil && !d.IsDir() {
			info, err = d.Info()
		}
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil || d.IsDir():
			return err
		}
		files = append(files, file{name, info.Size(), info.ModTime()})
		sum += info.Size()
		return nil
	})
	if err != nil {
		return fmt.Errorf("module cache: %w", err)
	}
	slices.SortFunc(files, func(a, b file) int { return a.at.Compare(b.at) })
	for _, f := range files {
		if sum <= limit {
			break
		}
		if err := os.Remove(f.name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("module cache: %w", err)
		}
		sum -= f.size
	}
	return nil
}

// Run starts children on demand until ctx ends, then kills them all. All
// start from one system thread, and the kernel kills them when it ends.
func (e *WASM) Run(ctx context.Context) error {
	runtime.LockOSThread() // never unlocked: the thread ends with this goroutine
	defer close(e.ended)
	defer e.killAll()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case s := <-e.spawns:
			c, err := startChild(e.opts.RunnerArgv, runner.Setup{CacheDir: e.opts.CacheDir})
			if err == nil {
				e.m.spawned.Inc()
				e.mu.Lock()
				e.live[c] = true
				e.mu.Unlock()
			} else {
				e.log.Error().Err(err).Msg("runner does not start")
			}
			s.answer <- spawned{c, err}
		}
	}
}

func (e *WASM) killAll() {
	e.mu.Lock()
	all := make([]*child, 0, len(e.live))
	for c := range e.live {
		all = append(all, c)
	}
	e.mu.Unlock()
	for _, c := range all {
		e.discard(c)
	}
}

// discard ends c for good.
func (e *WASM) discard(c *child) {
	c.close()
	e.mu.Lock()
	delete(e.live, c)
	e.mu.Unlock()
}

// take returns the slot's child, started if there is none.
func (e *WASM) take(ctx context.Context, slot int) (*child, error) {
	select {
	case c := <-e.slots[slot]:
		if c != nil {
			return c, nil
		}
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	s := spawn{answer: make(chan spawned, 1)}
	var got spawned
	select {
	case e.spawns <- s:
		got = <-s.answer
	case <-e.ended:
		got.err = errors.New("executor has ended")
	case <-ctx.Done():
		got.err = ctx.Err()
	}
	if got.err != nil {
		e.slots[slot] <- nil
	}
	return got.child, got.err
}

// Execute implements Executor.
func (e *WASM) Execute(ctx context.Context, slot int, t Task) (job.ChunkResult, error) {
	var none job.ChunkResult
	if slot < 0 || slot >= e.opts.Slots {
		return none, Infra(fmt.Errorf("no slot %d", slot))
	}
	if t.Spec.MemoryBytes > e.opts.MemoryBytes {
		return none, Infra(fmt.Errorf("the job needs %d bytes of memory, this host allows %d", t.Spec.MemoryBytes, e.opts.MemoryBytes))
	}
	task, heard := e.task(t.Spec, t.Attempt.Chunk), hearing{report: t.Report, ask: t.Ask, words: t.Words}
	task.Words = t.Words != nil
	done, left, err := e.withFiles(ctx, slot, task, t, heard)
	if errors.Is(err, artefact.ErrCorrupt) { // the bytes decayed on this disk: once more with fresh ones
		t.Resume = nil
		done, left, err = e.withFiles(ctx, slot, task, t, heard)
	}
	if err != nil {
		return none, err
	}
	return finished(t.Spec, done.Stdout, task.Iterations, left)
}

// withFiles gives the guest its files, and stores what it leaves.
func (e *WASM) withFiles(ctx context.Context, slot int, task runner.Task, t Task, heard hearing) (*runner.Done, job.Files, error) {
	spec := t.Spec
	task.NoResult = spec.Result == job.ResultNone
	if len(spec.Files) > 0 {
		fetching, cancel := context.WithTimeout(ctx, e.opts.FetchTimeout)
		var err error
		task.Files, err = fetchFiles(fetching, e.opts.Artefacts, e.opts.Outputs, spec, e.opts.FetchPatience)
		cancel()
		if err != nil {
			return nil, nil, Infra(err)
		}
	}
	if spec.Checkpoint {
		task.SaveEvery = job.CheckpointEvery
		task.Files = append(task.Files, resume(ctx, e.opts.Outputs, t)...)
	}
	if len(spec.Outputs) > 0 || spec.Checkpoint {
		if e.opts.Outputs == nil || e.opts.ScratchDir == "" {
			return nil, nil, Infra(errNoOutputs)
		}
		dir, err := os.MkdirTemp(e.opts.ScratchDir, "skein-chunk-")
		if err != nil {
			return nil, nil, Infra(fmt.Errorf("make scratch directory: %w", err))
		}
		defer func() {
			if err := os.RemoveAll(dir); err != nil {
				e.log.Warn().Err(err).Msg("scratch directory of a chunk not removed")
			}
		}()
		// A guest has what it leaves in memory.
		task.OutDir, task.OutBytes = dir, min(spec.AttemptLimit(), int64(spec.MemoryBytes))
		if spec.Checkpoint {
			task.OutBytes += min(job.MaxCheckpointBytes, int64(spec.MemoryBytes))
			if t.Save != nil {
				s := &saver{dir: dir, owner: -1, outputs: e.opts.Outputs, tell: t.Save} // the guest's runner waits between two
				heard.save = s.save
			}
		}
	}
	done, err := e.perform(ctx, slot, task, heard, limitOf(spec))
	if errors.Is(err, artefact.ErrCorrupt) {
		err = errors.Join(err, verifyFiles(e.opts.Artefacts, e.opts.Outputs, spec))
	}
	if err != nil {
		return nil, nil, err
	}
	left, err := Collect(task.OutDir, spec, min(task.OutBytes, spec.AttemptLimit()), -1, e.opts.Outputs)
	return done, left, err
}

// task is a chunk of a job as a child is given it.
func (e *WASM) task(spec job.Spec, chunk int) runner.Task {
	offset, n := spec.ChunkRange(chunk)
	task := runner.Task{
		Module: spec.Artefact, ModulePath: e.opts.Artefacts.Path(spec.Artefact),
		Config: spec.Config, MemoryPages: uint32(spec.MemoryBytes / runner.PageBytes),
		Iterations: n, Offset: offset, Chunk: chunk, Seed: spec.Seed,
	}
	if !task.Config.IsZero() {
		task.ConfigPath = e.opts.Artefacts.Path(task.Config)
	}
	return task
}

// Compile validates the module and warms the cache, so that the first chunk
// here starts at once. The module must be stored. An error that wraps
// ErrModule is the module's fault.
func (e *WASM) Compile(ctx context.Context, module cluster.Hash, memory uint64) error {
	done, err := e.perform(ctx, e.opts.Slots, runner.Task{
		Module: module, ModulePath: e.opts.Artefacts.Path(module),
		MemoryPages: uint32(min(memory, e.opts.MemoryBytes) / runner.PageBytes), Compile: true,
	}, hearing{}, within(e.opts.LoadTimeout))
	e.rest()
	if done != nil && done.Verdict == runner.VerdictModule {
		return fmt.Errorf("%w: %s", runner.ErrModule, done.Detail)
	}
	return err
}

// rest ends the child beside the slots: it will not be needed soon.
func (e *WASM) rest() {
	select {
	case c := <-e.slots[e.opts.Slots]:
		if c != nil {
			e.discard(c)
		}
		e.slots[e.opts.Slots] <- nil
	default: // another Compile or Trial has it
	}
}

// perform fetches what t needs, runs it in the slot's child and translates
// how it ended.
func (e *WASM) perform(ctx context.Context, slot int, t runner.Task, heard hearing, most limit) (*runner.Done, error) {
	if err := e.fetch(ctx, t); err != nil {
		return nil, Infra(err) // hosts come and go: no verdict about the work
	}
	done, err := e.attempt(ctx, slot, t, heard, most)
	if errors.Is(err, errDiedIdle) { // not the chunk's fault: once more with a new child
		done, err = e.attempt(ctx, slot, t, heard, most)
	}
	if errors.Is(err, errDiedIdle) {
		return nil, Infra(err)
	}
	if err != nil {
		return nil, err
	}
	err = verdictError(done)
	switch {
	case errors.Is(err, artefact.ErrCorrupt):
		err = Infra(errors.Join(err, e.opts.Artefacts.Verify(t.Module), e.opts.Artefacts.Verify(t.Config)))
	case done.Verdict == runner.VerdictFailed:
		err = Infra(err)
	}
	return done, err
}

// attempt runs t in the slot's child and keeps the child if it is still good.
func (e *WASM) attempt(ctx context.Context, slot int, t runner.Task, heard hearing, most limit) (*runner.Done, error) {
	c, err := e.take(ctx, slot)
	if err != nil {
		return nil, Infra(fmt.Errorf("start runner: %w", err))
	}
	done, err := e.converse(ctx, c, t, heard, most)
	if err == nil {
		e.slots[slot] <- c
		return done, nil
	}
	e.m.killed.Inc()
	e.discard(c)
	e.slots[slot] <- nil
	if said := c.stderr.LastWords(); said != "" && !errors.Is(err, errStopped) {
		err = fmt.Errorf("%w; %s", err, said)
	}
	return nil, err
}

func (e *WASM) fetch(ctx context.Context, t runner.Task) error {
	ctx, cancel := context.WithTimeout(ctx, e.opts.FetchTimeout)
	defer cancel()
	if err := fetchOne(ctx, e.opts.Artefacts, t.Module, e.opts.FetchPatience); err != nil {
		return fmt.Errorf("module: %w", err)
	}
	if t.Config.IsZero() {
		return nil
	}
	if err := fetchOne(ctx, e.opts.Artefacts, t.Config, e.opts.FetchPatience); err != nil {
		return fmt.Errorf("config: %w", err)
	}
	if size, _ := e.opts.Artefacts.Has(t.Config); size > job.MaxConfigBytes {
		return fmt.Errorf("config: %w: %d bytes, at most %d are allowed", artefact.ErrTooLarge, size, job.MaxConfigBytes)
	}
	return nil
}

var (
	// errStopped is wrapped when the parent ended a guest on purpose.
	errStopped = errors.New("stopped")
	// errDiedIdle is wrapped when the runner ended before the guest began.
	errDiedIdle = errors.New("before the guest began")
)

// converse gives t to c and waits. After an error c is of no further use.
func (e *WASM) converse(ctx context.Context, c *child, t runner.Task, heard hearing, most limit) (*runner.Done, error) {
	free, err := e.first(ctx, t.Module)
	if err != nil {
		return nil, err
	}
	var reply runner.Reply
	err = c.ask(ctx, within(e.opts.LoadTimeout), "module took longer than %s to load", &t, &reply, hearing{})
	free(err == nil && reply.Loaded != nil)
	if errors.Is(err, errDied) {
		err = fmt.Errorf("%w (%w)", err, errDiedIdle)
	}
	if err != nil || reply.Done != nil {
		return reply.Done, err
	}
	if reply.Loaded == nil {
		return nil, fmt.Errorf("%w: neither loaded nor done", runner.ErrFrame)
	}
	if reply.Loaded.Seconds > 0 {
		e.m.load.Observe(reply.Loaded.Seconds)
	}
	if err := c.ask(ctx, most, "ran longer than the limit of %s", nil, &reply, heard); err != nil {
		return nil, err
	}
	if reply.Done == nil {
		return nil, fmt.Errorf("%w: not done", runner.ErrFrame)
	}
	return reply.Done, nil
}

// first lets one child at a time load a module that no child has loaded yet,
// so that the others find it in the cache. The caller calls free when its
// child has it.
func (e *WASM) first(ctx context.Context, h cluster.Hash) (free func(loaded bool), err error) {
	if e.opts.CacheDir == "" {
		return func(bool) {}, nil
	}
	e.mu.Lock()
	if e.warm[h] {
		e.mu.Unlock()
		return func(bool) {}, nil
	}
	token, ok := e.loading[h]
	if !ok {
		token = make(chan struct{}, 1)
		e.loading[h] = token
	}
	e.mu.Unlock()
	select {
	case token <- struct{}{}:
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: %w", errStopped, ctx.Err())
	}
	return func(loaded bool) {
		e.mu.Lock()
		if loaded {
			e.warm[h] = true
			delete(e.loading, h)
		}
		e.mu.Unlock()
		<-token
	}, nil
}
