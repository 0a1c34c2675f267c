package hook

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/tetratelabs/wazero"
	wasm "github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"
)

// Bounds of a module.
const (
	MaxModule = 16 << 20 // bytes
	MaxOut    = 16 << 20 // bytes of what it returns
	pages     = 1024     // 64 MiB of memory
	// callTime is how long a call may take.
	callTime = time.Second
)

// Set are the modules of a run. Its methods may be called from any goroutine.
type Set struct {
	runtime wazero.Runtime
	modules map[string]*module
}

// module is one, with the instances that nobody uses now.
type module struct {
	compiled wazero.CompiledModule
	mu       sync.Mutex
	idle     []wasm.Module
}

// Call names a function of a module.
type Call struct{ File, Function string }

// New compiles modules, by the names of their files, and checks that they have what is
// called.
func New(ctx context.Context, files map[string][]byte, calls []Call) (*Set, error) {
	s := &Set{modules: map[string]*module{}, runtime: wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfig().WithMemoryLimitPages(pages).WithCloseOnContextDone(true))}
	if _, err := wasi_snapshot_preview1.Instantiate(ctx, s.runtime); err != nil {
		return nil, errors.Join(fmt.Errorf("hooks: %w", err), s.Close(ctx))
	}
	for _, c := range calls {
		if err := s.load(ctx, files, c); err != nil {
			return nil, errors.Join(fmt.Errorf("hook %s of %s: %w", c.Function, c.File, err), s.Close(ctx))
		}
	}
	return s, nil
}

func (s *Set) load(ctx context.Context, files map[string][]byte, c Call) error {
	m := s.modules[c.File]
	if m == nil {
		text, there := files[c.File]
		switch {
		case !there:
			return errors.New("the file is not there")
		case len(text) > MaxModule:
			return fmt.Errorf("%d bytes, at most %d are allowed", len(text), MaxModule)
		}
		compiled, err := s.runtime.CompileModule(ctx, text)
		if err != nil {
			return fmt.Errorf("is no module: %w", err)
		}
		m = &module{compiled: compiled}
		s.modules[c.File] = m
	}
	exported := m.compiled.ExportedFunctions()
	for name, want := range map[string][2][]wasm.ValueType{"alloc": {{wasm.ValueTypeI32}, {wasm.ValueTypeI32}}, c.Function: {{wasm.ValueTypeI32, wasm.ValueTypeI32}, {wasm.ValueTypeI64}}} {
		f, there := exported[name]
		if !there {
			return fmt.Errorf("exports no function %s", name)
		}
		if !slices.Equal(f.ParamTypes(), want[0]) || !slices.Equal(f.ResultTypes(), want[1]) {
			return fmt.Errorf("its function %s takes or returns something else", name)
		}
	}
	if len(m.compiled.ExportedMemories()) == 0 {
		return errors.New("exports no memory")
	}
	return nil
}

// Close ends all instances.
func (s *Set) Close(ctx context.Context) error {
	if s == nil {
		return nil
	}
	return s.runtime.Close(ctx)
}

// take is an instance for one call.
func (s *Set) take(ctx context.Context, m *module) (wasm.Module, error) {
	m.mu.Lock()
	if n := len(m.idle); n > 0 {
		one := m.idle[n-1]
		m.idle = m.idle[:n-1]
		m.mu.Unlock()
		return one, nil
	}
	m.mu.Unlock()
	c := wazero.NewModuleConfig().WithName("").WithStartFunctions("_initialize").WithRandSource(rand.Reader).WithSysWalltime().WithSysNanotime()
	return s.runtime.InstantiateModule(ctx, m.compiled, c)
}

// Call gives bytes to a function, and returns a copy of what it makes of them. An instance
// in which something went wrong is not used again.
func (s *Set) Call(ctx context.Context, c Call, in []byte) (out []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	m := s.modules[c.File]
	if m == nil {
		return nil, fmt.Errorf("hook %s of %s: there is none", c.Function, c.File)
	}
	one, err := s.take(ctx, m)
	if err != nil {
		return nil, fmt.Errorf("begin %s: %w", c.File, err)
	}
	defer func() {
		if err != nil {
			_ = one.Close(context.WithoutCancel(ctx)) // nothing of it is needed
			return
		}
		m.mu.Lock()
		m.idle = append(m.idle, one)
		m.mu.Unlock()
	}()
	at, err := one.ExportedFunction("alloc").Call(ctx, uint64(len(in)))
	if err != nil {
		return nil, fmt.Errorf("hook %s of %s: alloc: %w", c.Function, c.File, err)
	}
	memory := one.Memory()
	if !memory.Write(uint32(at[0]), in) { //nolint:gosec // an i32
		return nil, fmt.Errorf("hook %s of %s: alloc returned no room for %d bytes", c.Function, c.File, len(in))
	}
	said, err := one.ExportedFunction(c.Function).Call(ctx, at[0], uint64(len(in)))
	if err != nil {
		return nil, fmt.Errorf("hook %s of %s: %w", c.Function, c.File, err)
	}
	size := uint32(said[0]) //nolint:gosec // its lower half
	if size > MaxOut {
		return nil, fmt.Errorf("hook %s of %s: returned %d bytes, at most %d are allowed", c.Function, c.File, size, MaxOut)
	}
	text, ok := memory.Read(uint32(said[0]>>32), size) //nolint:gosec // its upper half
	if !ok {
		return nil, fmt.Errorf("hook %s of %s: returned what is not in its memory", c.Function, c.File)
	}
	return slices.Clone(text), nil
}
