package scheduler

import (
	"context"
	"errors"
	"testing"

	"github.com/rs/zerolog"

	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/eventlog/state"
)

// appends is a log that takes so many appends.
type appends struct {
	left  int
	kinds [][]event.Kind
}

func (l *appends) Append(_ context.Context, drafts []event.Draft) ([]event.Event, error) {
	if l.left--; l.left < 0 {
		return nil, errors.New("full")
	}
	var kinds []event.Kind
	for _, d := range drafts {
		kinds = append(kinds, d.Kind)
	}
	l.kinds = append(l.kinds, kinds)
	return make([]event.Event, len(drafts)), nil
}

func (l *appends) TakesWork() bool                                 { return true }
func (l *appends) WaitStable(context.Context, uint64) (int, error) { return 1, nil }
func (l *appends) View(f func(*state.State))                       { f(state.New()) }

// The end of a job tells its result, so all before it is folded first.
func TestTheEndOfAJobBeginsAnAppend(t *testing.T) {
	m, err := newMetrics(nil)
	if err != nil {
		t.Fatal(err)
	}
	drafts := []event.Draft{
		{Kind: event.KindChunksAccepted, Body: event.ChunksAccepted{Job: "a"}},
		{Kind: event.KindJobDone, Body: event.JobDone{Job: "a"}},
		{Kind: event.KindJobDone, Body: event.JobDone{Job: "b"}},
		{Kind: event.KindJobStopped, Body: event.JobStopped{Job: "c"}},
	}
	log := &appends{left: 2}
	a := &appender{to: log, m: m, log: zerolog.Nop()}
	if err := a.write(t.Context(), drafts); err != nil {
		t.Fatal(err)
	}
	if len(log.kinds) != 2 || len(log.kinds[0]) != 1 || len(log.kinds[1]) != 3 {
		t.Errorf("appended %v", log.kinds)
	}
	if err := a.write(t.Context(), drafts); err == nil {
		t.Error("an append that failed is hidden")
	}
}
