package runs

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/cluster/flow"
	"github.com/skein-project/skein/eventlog/state"
	"github.com/skein-project/skein/eventlog/state/flows"
	decide "github.com/skein-project/skein/scheduler/flow"
)

// Limits of how many runs are open.
const (
	MaxOpen      = 1000
	MaxOwnerOpen = 100

	maxRounds = 1000
)

// Request is what somebody wants of runs: exactly one of its pointers is set.
type Request struct {
	Submit *event.WorkflowSubmitted // was compiled
	// Overlap says what becomes of it if it shares places that others have.
	Overlap flow.Overlap
	Stop    *event.WorkflowStopped // its Round is found
	Retry   *event.WorkflowRetried // with the Round that is to begin, it begins once; 0: the next
	// Set makes a schedule, Change has an existing one paused, resumed, removed or run.
	Set    *event.ScheduleSet
	Change *Change
}

// Kind is that of the event which a request leads to, or one that came with what it says.
func (q Request) Kind() event.Kind {
	switch {
	case q.Submit != nil && kindOf(q.Submit.Def) != "":
		return kindOf(q.Submit.Def)
	case q.Set != nil && kindOf(q.Set.Def) != "":
		return kindOf(q.Set.Def)
	case q.Submit != nil && q.Submit.Group == "":
		return event.KindFlowSubmitted
	case q.Stop != nil:
		return event.KindFlowStopped
	case q.Retry != nil:
		return event.KindFlowRetried
	}
	return event.KindScheduleSet
}

// late is what of a definition not every version knows.
type late struct {
	Quorum      int     `json:"quorum"`
	KeepSeconds float64 `json:"keep_seconds"`
}

func lateOf(def json.RawMessage) (l late) {
	_ = json.Unmarshal(def, &l) // one that cannot be read is refused elsewhere
	return l
}

// kindOf names what came with the newest part of a definition; empty: all versions with
// workflows know all of it.
func kindOf(def json.RawMessage) event.Kind {
	switch l := lateOf(def); {
	case l.KeepSeconds > 0:
		return event.KeptRuns()
	case l.Quorum > 0:
		return event.QuorumOfRun()
	}
	return ""
}

// Answer says what came of a Request.
type Answer struct {
	Created bool // false: it was submitted before
	Round   int
	Run     flow.RunID // that a Change began
}

// Ask decides about a request.
func (r *Runs) Ask(q Request) (Answer, error) {
	switch {
	case q.Submit != nil:
		return r.submit(*q.Submit, q.Overlap)
	case q.Stop != nil:
		return r.stop(*q.Stop)
	case q.Retry != nil:
		return r.retry(*q.Retry)
	case q.Set != nil:
		return Answer{}, r.setSchedule(*q.Set)
	}
	return r.changeSchedule(*q.Change)
}

func (r *Runs) submit(b event.WorkflowSubmitted, overlap flow.Overlap) (Answer, error) {
	have, known := r.told[b.Run]
	forgotten := false
	r.t.View(func(st *state.State) {
		if !known {
			var run flows.Run
			if run, known = st.Flows().Run(b.Run); known {
				have = run.WorkflowSubmitted
			}
		}
		forgotten = st.Flows().Forgotten(b.Run)
	})
	open := r.openRuns()
	switch {
	case known && bytes.Equal(have.Def, b.Def) && bytes.Equal(have.Params, b.Params):
		return Answer{}, nil
	case known, forgotten:
		return Answer{}, ErrKeyReused
	case many(open, b.Owner):
		return Answer{}, ErrMany
	}
	if err := r.share(b, overlap, open); err != nil {
		return Answer{}, err
	}
	b.Keeps, b.Holds, b.KeepSeconds = r.t.Keeps(), r.t.Holds(), lateOf(b.Def).KeepSeconds
	r.told[b.Run] = b
	r.t.Draft(r.draft(event.KindFlowSubmitted, b))
	r.fresh = append(r.fresh, b.Run)
	r.log.Info().Str("run", string(b.Run)).Str("owner", b.Owner).Msg("workflow submitted")
	return Answer{Created: true}, nil
}

// share finds a place for a run that shares places with others, or says that it gets
// none.
func (r *Runs) share(b event.WorkflowSubmitted, overlap flow.Overlap, open []flows.Run) error {
	if b.Group == "" || overlap == flow.OverlapAllow {
		return nil
	}
	var others []flows.Run
	for _, run := range open {
		if run.Group == b.Group && run.Owner == b.Owner {
			others = append(others, run)
		}
	}
	over := len(others) - b.Limit // how many others wait, if it is not below 0
	switch {
	case over < 0:
		return nil
	case overlap == flow.OverlapSkip, overlap == flow.OverlapQueueOne && over > 0, over >= flow.MaxQueued:
		return ErrOverlap
	case overlap == flow.OverlapReplace:
		for _, run := range others[:over+1] {
			if run.State == flow.Stopping {
				continue
			}
			if _, err := r.stop(event.WorkflowStopped{Run: run.Run, Actor: holder, Reason: "another run takes its place"}); err != nil && !errors.Is(err, ErrOver) {
				return fmt.Errorf("stop run %s: %w", run.Run, err)
			}
		}
	}
	return nil
}

// openRuns are those that have not ended, with what was submitted or begins again and is
// not in the log yet.
func (r *Runs) openRuns() (open []flows.Run) {
	r.t.View(func(st *state.State) {
		for _, run := range st.Flows().Runs() {
			if run.Open() || slices.Contains(r.fresh, run.Run) {
				open = append(open, run)
			}
		}
	})
	for _, told := range r.told {
		open = append(open, flows.Run{WorkflowSubmitted: told, State: flow.Running})
	}
	return open
}

// many reports whether as many runs are open as may be, of all or of an owner.
func many(open []flows.Run, owner string) bool {
	own := 0
	for _, run := range open {
		if run.Owner == owner {
			own++
		}
	}
	return len(open) >= MaxOpen || own >= MaxOwnerOpen
}

// find returns a run that the log has.
func (r *Runs) find(id flow.RunID) (run flows.Run, err error) {
	known := false
	r.t.View(func(st *state.State) { run, known = st.Flows().Run(id) })
	if !known {
		return run, ErrUnknown
	}
	return run, nil
}

func (r *Runs) stop(b event.WorkflowStopped) (Answer, error) {
	run, err := r.find(b.Run)
	if err != nil {
		return Answer{}, err
	}
	m, open := r.open[b.Run]
	if i := slices.Index(r.queue, b.Run); i >= 0 && run.Open() {
		// Nothing of it has begun.
		r.queue = slices.Delete(r.queue, i, i+1)
		b.Round = run.Round
		r.t.Draft(r.draft(event.KindFlowStopped, b))
		r.fresh, r.queue = append(r.fresh, r.queue...), nil
		r.t.Draft(r.draft(event.KindFlowDone, event.WorkflowDone{Run: b.Run, Round: run.Round, State: flow.Cancelled, Reason: b.Reason}))
		return Answer{Round: run.Round}, nil
	}
	if !open {
		return Answer{}, ErrOver
	}
	if _, over := m.Ends(); over {
		return Answer{}, ErrOver
	}
	if run.Stop != nil && (run.Now != nil || !b.Now) {
		return Answer{Round: run.Round}, nil // as was asked before
	}
	b.Round = run.Round
	r.t.Draft(r.draft(event.KindFlowStopped, b))
	r.step(b.Run, decide.Stopped{Now: b.Now, Reason: b.Reason})
	return Answer{Round: run.Round}, nil
}

func (r *Runs) retry(b event.WorkflowRetried) (Answer, error) {
	run, err := r.find(b.Run)
	switch _, open := r.open[b.Run]; {
	case err != nil:
		return Answer{}, err
	case b.Round > 0 && run.Round >= b.Round:
		return Answer{Round: run.Round}, nil // as was asked before
	case run.Open() || open || slices.Contains(r.queue, b.Run) || slices.Contains(r.fresh, b.Run):
		return Answer{}, ErrOpen
	case run.Round >= maxRounds:
		return Answer{}, ErrRounds
	case many(r.openRuns(), run.Owner):
		return Answer{}, ErrMany
	}
	if b.From != "" {
		g, err := GraphOf(run.WorkflowSubmitted)
		if err != nil {
			return Answer{}, err
		}
		if !g.Has(b.From) {
			return Answer{}, ErrNoStep
		}
	}
	b.Round = run.Round + 1
	r.t.Draft(r.draft(event.KindFlowRetried, b))
	r.fresh = append(r.fresh, b.Run)
	r.log.Info().Str("run", string(b.Run)).Int("round", b.Round).Str("actor", b.Actor).Msg("workflow goes on again")
	return Answer{Round: b.Round}, nil
}
