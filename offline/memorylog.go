package offline

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/eventlog/state"
)

// memoryLog is an event log in memory, of one process.
type memoryLog struct {
	mu    sync.Mutex
	state *state.State
	seq   uint64
	last  cluster.HLC
}

func newMemoryLog() *memoryLog {
	l := &memoryLog{state: state.New()}
	if _, err := l.Append(context.Background(), []event.Draft{{
		Term: localTerm, Kind: event.KindTermStart, Body: event.TermStart{Term: localTerm, Profile: cluster.ProfileLAN},
	}}); err != nil {
		panic("offline: " + err.Error()) // the first event is the same each time
	}
	return l
}

// Append implements scheduler.Log.
func (l *memoryLog) Append(_ context.Context, drafts []event.Draft) ([]event.Event, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	events := make([]event.Event, len(drafts))
	for i, d := range drafts {
		body, err := json.Marshal(d.Body)
		if err != nil {
			return nil, err
		}
		l.last = max(l.last+1, cluster.NewHLC(time.Now(), 0))
		events[i] = event.Event{
			Source: event.SourceID{Node: localNode, Inc: 1}, Seq: l.seq + uint64(i) + 1, HLC: l.last, Term: d.Term, Kind: d.Kind, Body: body,
		}
	}
	for _, e := range events {
		l.state.Apply(e)
	}
	l.seq += uint64(len(events))
	return events, nil
}

// TakesWork implements scheduler.Log.
func (*memoryLog) TakesWork() bool { return true }

// WaitStable implements scheduler.Log: what is in memory cannot become more stable.
func (*memoryLog) WaitStable(context.Context, uint64) (int, error) { return 1, nil }

// View implements scheduler.Log.
func (l *memoryLog) View(f func(*state.State)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f(l.state)
}
