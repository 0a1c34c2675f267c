package trial

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/worker/runner"
)

// slowCompiler takes longer than anybody waits, but for what is no module.
type slowCompiler struct{ asked int }

func (c *slowCompiler) Compile(ctx context.Context, h cluster.Hash, _ uint64) error {
	c.asked++
	if h == (cluster.Hash{9}) {
		return runner.ErrModule
	}
	<-ctx.Done()
	return ctx.Err()
}

// TestLateModule: who submits many jobs of a module that compiles too slowly here waits for
// it once a minute.
func TestLateModule(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &slowCompiler{}
		b := New(c, zerolog.Nop())
		try := func(h byte, asked int, took time.Duration) {
			t.Helper()
			began := time.Now()
			err := b.Check(t.Context(), job.Spec{Executor: job.ExecutorWASM, Artefact: cluster.Hash{h}})
			if (h == 9) != api.IsCode(err, api.CodeInvalidJob) || c.asked != asked || time.Since(began) != took {
				t.Errorf("module %d: %v, %d times, after %s; want %d times, after %s", h, err, c.asked, time.Since(began), asked, took)
			}
		}
		try(1, 1, compileTime)
		try(1, 1, 0)
		try(9, 2, 0)
		try(9, 3, 0)
		time.Sleep(lateTime)
		try(1, 4, compileTime)
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		b.late.Store(nil)
		_ = b.Check(gone, job.Spec{Executor: job.ExecutorWASM, Artefact: cluster.Hash{1}}) // who asked has gone: the module may be fast
		try(1, 6, compileTime)
	})
}
