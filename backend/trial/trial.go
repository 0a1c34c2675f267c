package trial

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/worker/runner"
)

const (
	// compileTime is what a submit waits; it leaves the rest of the request's time to
	// the submit itself.
	compileTime = 10 * time.Second
	// lateTime is for how long nobody waits again for a module that took longer.
	lateTime = time.Minute
)

// Compiler compiles a module. An error of runner.ErrModule is the module's fault.
type Compiler interface {
	Compile(ctx context.Context, module cluster.Hash, memoryBytes uint64) error
}

// Trial checks modules. Its methods may be called from any goroutine.
type Trial struct {
	compiler Compiler
	log      zerolog.Logger
	late     atomic.Pointer[late] // the last module that was given up
}

// late is a module that was given up, and when.
type late struct {
	module cluster.Hash
	at     time.Time
}

// New returns a Trial.
func New(c Compiler, log zerolog.Logger) *Trial { return &Trial{compiler: c, log: log} }

// Check refuses a job whose module does not compile, by an *api.Problem. What takes this host
// too long the workers decide; who submits a hundred jobs of such a module waits for it once.
func (t *Trial) Check(ctx context.Context, spec job.Spec) error {
	if spec.Executor != job.ExecutorWASM {
		return nil // only the workers know which programs they allow
	}
	if l := t.late.Load(); l != nil && l.module == spec.Artefact && time.Since(l.at) < lateTime {
		return nil
	}
	compiling, cancel := context.WithTimeout(ctx, compileTime)
	defer cancel()
	err := t.compiler.Compile(compiling, spec.Artefact, spec.MemoryBytes)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, runner.ErrModule):
		return api.Errorf(api.CodeInvalidJob, "artefact %s: %v", spec.Artefact, err)
	case compiling.Err() != nil && ctx.Err() == nil:
		t.late.Store(&late{spec.Artefact, time.Now()})
	}
	t.log.Warn().Err(err).Msg("module not compiled at submit")
	return nil
}
