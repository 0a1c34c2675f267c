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
	ctx     context.Context // of all instances
	end     context.CancelFunc
	most    time.Duration // callTime
	closing sync.RWMutex  // read: by calls
}

// module is one, with the instances that nobody uses now.
type module struct {
	compiled wazero.CompiledModule
	mu       sync.Mutex
	idle     []*instance
}

// instance does one call at a time. What a call needs is made once: functions, and the timer
// that ends one which takes too long.
type instance struct {
	wasm.Module
	ctx       context.Context
	cancel    context.CancelFunc
	late      *time.Timer
	alloc     wasm.Function
	functions map[string]wasm.Function
	stack     [2]uint64
}

// Call names a function of a module.
type Call struct{ File, Function string }

// New compiles modules, by the names of their files, and checks that they have what is
// called.
func New(ctx context.Context, files map[string][]byte, calls []Call) (*Set, error) {
	s := &Set{modules: map[string]*module{}, most: callTime, runtime: wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfig().WithMemoryLimitPages(pages).WithCloseOnContextDone(true))}
	s.ctx, s.end = context.WithCancel(ctx)
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

// Close ends all instances, and calls that are under way.
func (s *Set) Close(ctx context.Context) error {
	if s == nil {
		return nil
	}
	s.end()
	s.closing.Lock()
	defer s.closing.Unlock()
	return s.runtime.Close(ctx)
}

// take is an instance for one call.
func (s *Set) take(m *module) (*instance, error) {
	m.mu.Lock()
	if n := len(m.idle); n > 0 {
		one := m.idle[n-1]
		m.idle = m.idle[:n-1]
		m.mu.Unlock()
		return one, nil
	}
	m.mu.Unlock()
	c := wazero.NewModuleConfig().WithName("").WithStartFunctions("_initialize").WithRandSource(rand.Reader).WithSysWalltime().WithSysNanotime()
	one := &instance{functions: map[string]wasm.Function{}}
	one.ctx, one.cancel = context.WithCancel(s.ctx)
	one.late = time.AfterFunc(s.most, one.cancel)
	defer one.late.Stop()
	var err error
	if one.Module, err = s.runtime.InstantiateModule(one.ctx, m.compiled, c); err != nil {
		one.cancel()
		return nil, err
	}
	one.alloc = one.ExportedFunction("alloc")
	return one, nil
}

// Call gives bytes to a function, and returns what it makes of them, behind what out has. An
// instance in which something went wrong is not used again.
func (s *Set) Call(c Call, in, out []byte) (_ []byte, err error) {
	s.closing.RLock()
	defer s.closing.RUnlock()
	if err := s.ctx.Err(); err != nil {
		return nil, err
	}
	m := s.modules[c.File]
	if m == nil {
		return nil, fmt.Errorf("hook %s of %s: there is none", c.Function, c.File)
	}
	one, err := s.take(m)
	if err != nil {
		return nil, fmt.Errorf("begin %s: %w", c.File, err)
	}
	if out, err = one.call(c.Function, in, out, s.most); err != nil {
		one.cancel()
		_ = one.Close(context.WithoutCancel(s.ctx)) // nothing of it is needed
		return nil, fmt.Errorf("hook %s of %s: %w", c.Function, c.File, err)
	}
	m.mu.Lock()
	m.idle = append(m.idle, one)
	m.mu.Unlock()
	return out, nil
}

// call does one. wazero watches the context of an instance by a goroutine for each call of a
// function; nothing else that it needs is made anew.
func (i *instance) call(name string, in, out []byte, most time.Duration) ([]byte, error) {
	i.late.Reset(most)
	defer i.late.Stop()
	f := i.functions[name]
	if f == nil {
		f = i.ExportedFunction(name)
		i.functions[name] = f
	}
	i.stack[0] = uint64(len(in))
	if err := i.alloc.CallWithStack(i.ctx, i.stack[:]); err != nil {
		return nil, fmt.Errorf("alloc: %w", err)
	}
	at := uint32(i.stack[0]) //nolint:gosec // an i32
	memory := i.Memory()
	if !memory.Write(at, in) {
		return nil, fmt.Errorf("alloc returned no room for %d bytes", len(in))
	}
	i.stack = [2]uint64{uint64(at), uint64(len(in))}
	if err := f.CallWithStack(i.ctx, i.stack[:]); err != nil {
		return nil, err
	}
	said := i.stack[0]
	size := uint32(said) //nolint:gosec // its lower half
	if size > MaxOut {
		return nil, fmt.Errorf("returned %d bytes, at most %d are allowed", size, MaxOut)
	}
	text, ok := memory.Read(uint32(said>>32), size) //nolint:gosec // its upper half
	if !ok {
		return nil, errors.New("returned what is not in its memory")
	}
	return append(out, text...), nil
}
