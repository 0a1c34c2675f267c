package runner

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/experimental"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"
	"github.com/tetratelabs/wazero/sys"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/job"
)

// maxModules is how many compiled modules a runner keeps.
const maxModules = 4

// PageBytes is the unit of linear memory.
const PageBytes = 64 << 10

// GuestEpoch is the wall time at which every guest starts: 2000-01-01.
const GuestEpoch = 946684800

// Main is the child of the wasm executor: it reads tasks from stdin
// until that ends, runs each guest, writes what came of it to stdout and
// returns the exit code of the process. The caller exits with it at once: at
// the end of stdin a guest may still be running.
//
// It does not run strangers' code with any access: see the package doc.
func Main(stdin io.Reader, stdout, stderr io.Writer) int {
	var setup Setup
	if err := ReadFrame(stdin, &setup); err != nil {
		fmt.Fprintf(stderr, "runner: %v\n", err)
		return 2
	}
	if setup.Program != nil {
		return supervise(*setup.Program, stdin, stdout)
	}
	confine()
	tasks := make(chan Task)      // capacity 0: the parent sends a task after the last ended
	failed := make(chan error, 2) // one from each goroutine
	go func() {
		for {
			var t Task
			if err := ReadFrame(stdin, &t); err != nil {
				failed <- err
				return
			}
			tasks <- t
		}
	}()
	go func() {
		r := &runner{setup: setup}
		for t := range tasks {
			done := r.do(t, func(reply Reply) error { return WriteFrame(stdout, reply) })
			if err := WriteFrame(stdout, Reply{Done: done}); err != nil {
				failed <- err
				return
			}
		}
	}()
	if err := <-failed; !errors.Is(err, io.EOF) {
		fmt.Fprintf(stderr, "runner: %v\n", err)
		return 1
	}
	return 0
}

// runner executes tasks, one at a time.
type runner struct {
	setup  Setup
	loaded []*loadedModule // most recently used last
}

// loadedModule is a module compiled under a memory limit.
type loadedModule struct {
	hash     cluster.Hash
	pages    uint32
	cache    wazero.CompilationCache // nil: none
	runtime  wazero.Runtime
	compiled wazero.CompiledModule
}

// do runs one task. It tells when the guest starts and how far it is.
func (r *runner) do(t Task, tell func(Reply) error) *Done {
	ctx := context.Background() // a guest ends by itself or with the process
	began := time.Now()
	m, fresh, bad := r.load(ctx, t)
	if bad != nil {
		return bad
	}
	var config []byte
	if !t.Config.IsZero() {
		var err error
		if config, err = readVerified(t.ConfigPath, t.Config, job.MaxConfigBytes); err != nil {
			return fileTrouble(t.Config, err)
		}
	}
	in, free, bad := openFiles(t.Files)
	defer free()
	if bad != nil {
		return bad
	}
	l := Loaded{}
	if fresh {
		l.Seconds = time.Since(began).Seconds()
	}
	if err := tell(Reply{Loaded: &l}); err != nil {
		return &Done{Verdict: VerdictFailed, Detail: err.Error()}
	}
	if t.Compile {
		return &Done{Verdict: VerdictOK}
	}
	return m.run(ctx, t, config, in, tell)
}

func fileTrouble(h cluster.Hash, err error) *Done {
	if errors.Is(err, errCorrupt) {
		return &Done{Verdict: VerdictCorrupt, Detail: h.String()}
	}
	return &Done{Verdict: VerdictFailed, Detail: err.Error()}
}

func readVerified(name string, h cluster.Hash, limit int64) ([]byte, error) {
	f, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errCorrupt // somebody removed it: as good as damaged
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(b)) > limit {
		return nil, fmt.Errorf("artefact too large: more than %d bytes", limit)
	}
	if sha256.Sum256(b) != h {
		return nil, errCorrupt
	}
	return b, nil
}

// load returns the module of t, compiled now or before.
func (r *runner) load(ctx context.Context, t Task) (m *loadedModule, fresh bool, bad *Done) {
	for i, m := range r.loaded {
		if m.hash == t.Module && m.pages == t.MemoryPages {
			r.loaded = append(slices.Delete(r.loaded, i, i+1), m)
			return m, false, nil
		}
	}
	code, err := readVerified(t.ModulePath, t.Module, job.MaxModuleBytes)
	if err != nil {
		return nil, false, fileTrouble(t.Module, err)
	}
	if err := checkModule(code); err != nil {
		return nil, false, &Done{Verdict: VerdictModule, Detail: err.Error()}
	}
	cached := r.cacheOf(t.Module)
	m, err = compile(ctx, t, code, cached)
	if _, ok := errors.AsType[*fs.PathError](err); cached.dir != "" && (ok || err != nil && strings.Contains(err.Error(), "compilationcache")) {
		// A cache that fails must not damn a good module.
		cached.drop()
		m, err = compile(ctx, t, code, moduleCache{})
	}
	if err != nil {
		return nil, false, &Done{Verdict: VerdictModule, Detail: job.Clip(job.OneLine(err.Error()), cluster.MaxReason/2)}
	}
	if len(r.loaded) == maxModules {
		r.loaded[0].close(ctx)
		r.loaded = slices.Delete(r.loaded, 0, 1)
	}
	r.loaded = append(r.loaded, m)
	return m, true, nil
}

// compile compiles a module, or reads it from the cache.
func compile(ctx context.Context, t Task, code []byte, cached moduleCache) (_ *loadedModule, err error) {
	m := &loadedModule{hash: t.Module, pages: t.MemoryPages}
	defer func() {
		if err != nil {
			m.close(ctx)
		}
	}()
	config := wazero.NewRuntimeConfig().WithMemoryLimitPages(t.MemoryPages).WithDebugInfoEnabled(false)
	if cached.dir != "" {
		if m.cache, err = cached.open(); err != nil {
			return nil, err
		}
		config = config.WithCompilationCache(m.cache)
	}
	m.runtime = wazero.NewRuntimeWithConfig(ctx, config)
	if _, err = wasi_snapshot_preview1.Instantiate(ctx, m.runtime); err != nil {
		return nil, err
	}
	if m.compiled, err = m.runtime.CompileModule(experimental.WithCompilationWorkers(ctx, 2), code); err != nil {
		return nil, err
	}
	there := m.runtime.Module(wasiModule).ExportedFunctionDefinitions()
	for _, f := range m.compiled.ImportedFunctions() {
		if module, name, _ := f.Import(); there[name] == nil {
			return nil, fmt.Errorf("imports %s.%s, which is not there", module, name)
		}
	}
	if cached.dir != "" {
		cached.seal()
	}
	return m, nil
}

// close frees the memory of a module.
func (m *loadedModule) close(ctx context.Context) {
	if m.runtime != nil {
		_ = m.runtime.Close(ctx)
	}
	if m.cache != nil {
		_ = m.cache.Close(ctx)
	}
}

// errCorrupt says that a file does not have the digest that names it.
var errCorrupt = errors.New("file does not match its digest")

// errOutput stops a guest that wrote too much.
var errOutput = errors.New("too much output")

// limited collects standard output. Beyond the limit it panics, which the
// runtime turns into the end of the guest.
type limited struct{ b []byte }

func (l *limited) Write(p []byte) (int, error) {
	if len(l.b)+len(p) > job.MaxResultBytes {
		panic(errOutput)
	}
	l.b = append(l.b, p...)
	return len(p), nil
}

// run starts a fresh instance and waits for its end.
func (m *loadedModule) run(ctx context.Context, t Task, config []byte, in map[string][]byte, tell func(Reply) error) *Done {
	// The collector cannot stop a guest: keep it from trying until the guest
	// is over, unless memory gets short.
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(512 << 20))
	defer limitMemory(uint64(t.MemoryPages) * PageBytes)()

	var out limited
	said := guestWords{tell: tell, wanted: t.Words}
	written := io.Writer(&out)
	if t.NoResult {
		written = &said
	}
	guest, left := guestFiles(t, in, guestConfig(t, config, written, &said))
	said.save = saver(left, t)
	mod, err := m.runtime.InstantiateModule(withGuestMemory(ctx), m.compiled, guest)
	said.end()
	if mod != nil {
		_ = mod.Close(ctx) // frees memory only
	}
	done := &Done{Verdict: VerdictOK, Stdout: out.b, Stderr: said.b}
	var exit *sys.ExitError
	switch {
	case err == nil:
	case errors.Is(err, errOutput):
		done.Verdict, done.Stdout = VerdictOutput, nil
	case errors.As(err, &exit):
		if exit.ExitCode() != 0 {
			done.Verdict, done.Exit = VerdictExit, exit.ExitCode()
		}
	default:
		first, _, _ := strings.Cut(err.Error(), "\n")
		first = strings.TrimPrefix(first, "module[] function[_start] failed: ")
		first = strings.TrimPrefix(first, "wasm error: ")
		done.Verdict, done.Detail = VerdictTrap, job.Clip(job.OneLine(first), cluster.MaxReason/2)
	}
	if left != nil && left.Over() != "" {
		done.Verdict, done.Detail = VerdictFiles, left.Over()
	}
	if done.Verdict == VerdictOK && left != nil {
		if err := writeFiles(left, t.OutDir); err != nil {
			done.Verdict, done.Detail = VerdictFailed, err.Error()
		}
	}
	if done.Verdict != VerdictOK {
		done.Stdout = nil
	}
	return done
}

// guestConfig is all that a guest can see, beside what guestFiles adds. No
// listener, no arguments but a name, four variables, random bytes and clocks
// that depend on the task only.
func guestConfig(t Task, config []byte, out, said io.Writer) wazero.ModuleConfig {
	clock := &guestClock{}
	return wazero.NewModuleConfig().
		WithName(""). // anonymous: instances of one module never collide
		WithArgs("job").
		WithEnv("SKEIN_ITERATIONS", strconv.FormatUint(t.Iterations, 10)).
		WithEnv("SKEIN_SEED_OFFSET", strconv.FormatUint(t.Offset, 10)).
		WithEnv("SKEIN_CHUNK_ID", strconv.Itoa(t.Chunk)).
		WithEnv("SKEIN_SEED", strconv.FormatUint(t.Seed, 10)).
		WithStdin(strings.NewReader(string(config))).
		WithStdout(out).
		WithStderr(said).
		WithRandSource(guestRandom(t.Seed, t.Offset)).
		WithWalltime(func() (int64, int32) {
			ns := clock.read()
			return GuestEpoch + ns/int64(time.Second), int32(ns % int64(time.Second))
		}, sys.ClockResolution(time.Microsecond)).
		WithNanotime(clock.read, sys.ClockResolution(time.Microsecond)).
		WithNanosleep(clock.sleep)
}

// guestClock is a guest's time: it advances by being read and by sleeping, so
// that a guest cannot tell one run from another.
type guestClock struct{ ns int64 }

func (c *guestClock) read() int64 {
	c.ns += int64(time.Microsecond)
	return c.ns
}

func (c *guestClock) sleep(ns int64) {
	if ns > 0 {
		c.ns += min(ns, int64(time.Hour))
	}
}

// guestRandom yields the bytes of random_get, a function of seed and offset.
func guestRandom(seed, offset uint64) io.Reader {
	key := []byte("skein-guest-random/1")
	key = binary.BigEndian.AppendUint64(key, seed)
	key = binary.BigEndian.AppendUint64(key, offset)
	return rand.NewChaCha8(sha256.Sum256(key))
}
