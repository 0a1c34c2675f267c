package runs

import (
	"bytes"
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

// Request is what somebody wants of runs: exactly one of its fields is set.
type Request struct {
	Submit *event.WorkflowSubmitted // was compiled
	Stop   *event.WorkflowStopped   // its Round is found
	Retry  *event.WorkflowRetried   // with the Round that is to begin, it begins once; 0: the next
}

// Kind is that of the event which a request leads to.
func (q Request) Kind() event.Kind {
	switch {
	case q.Submit != nil:
		return event.KindFlowSubmitted
	case q.Stop != nil:
		return event.KindFlowStopped
	}
	return event.KindFlowRetried
}

// Answer says what came of a Request.
type Answer struct {
	Created bool // false: it was submitted before
	Round   int
}

// Ask decides about a request.
func (r *Runs) Ask(q Request) (Answer, error) {
	switch {
	case q.Submit != nil:
		return r.submit(*q.Submit)
	case q.Stop != nil:
		return r.stop(*q.Stop)
	}
	return r.retry(*q.Retry)
}

func (r *Runs) submit(b event.WorkflowSubmitted) (Answer, error) {
	have, known := r.told[b.Run]
	forgotten := false
	var open, own int
	r.t.View(func(st *state.State) {
		if !known {
			var run flows.Run
			if run, known = st.Flows().Run(b.Run); known {
				have = run.WorkflowSubmitted
			}
		}
		forgotten = st.Flows().Forgotten(b.Run)
		for _, run := range st.Flows().Runs() {
			if run.Open() {
				open++
				if run.Owner == b.Owner {
					own++
				}
			}
		}
	})
	for _, told := range r.told {
		open++
		if told.Owner == b.Owner {
			own++
		}
	}
	switch {
	case known && bytes.Equal(have.Def, b.Def) && bytes.Equal(have.Params, b.Params):
		return Answer{}, nil
	case known, forgotten:
		return Answer{}, ErrKeyReused
	case open >= MaxOpen, own >= MaxOwnerOpen:
		return Answer{}, ErrMany
	}
	r.told[b.Run] = b
	r.t.Draft(r.draft(event.KindFlowSubmitted, b))
	r.fresh = append(r.fresh, b.Run)
	r.log.Info().Str("run", string(b.Run)).Str("owner", b.Owner).Msg("workflow submitted")
	return Answer{Created: true}, nil
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
	if !open || m.Over() {
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
	case run.Open() || open || slices.Contains(r.fresh, b.Run):
		return Answer{}, ErrOpen
	case run.Round >= maxRounds:
		return Answer{}, ErrRounds
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
