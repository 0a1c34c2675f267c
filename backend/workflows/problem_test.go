package workflows

import (
	"errors"
	"fmt"
	"testing"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster/flow"
	"github.com/skein-project/skein/scheduler/runs"
)

// TestProblem: what is wrong with a request is the fault of who asked, and says what to do.
func TestProblem(t *testing.T) {
	for _, c := range []struct {
		err    error
		status int
	}{
		{flow.Invalidf("257 steps, at most 256 are allowed"), 422},
		{runs.ErrManySchedules, 422},
		{runs.ErrKeyReused, 409},
		{runs.ErrOver, 409},
		{runs.ErrOpen, 409},
		{runs.ErrOverlap, 409},
		{runs.ErrRounds, 409},
		{runs.ErrUnknown, 404},
		{runs.ErrNoSchedule, 404},
		{runs.ErrNoStep, 404},
		{runs.ErrMany, 429},
	} {
		p, ok := errors.AsType[*api.Problem](problem(fmt.Errorf("asked: %w", c.err)))
		if !ok || p.Status != c.status || p.Hint == "" {
			t.Errorf("%v: %+v, want %d and a hint", c.err, p, c.status)
		}
	}
	other := errors.New("disk is full")
	if err := problem(other); !errors.Is(err, other) {
		t.Error(err)
	}
}
