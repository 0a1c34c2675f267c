package flows

import (
	"bytes"
	"cmp"
	"encoding/json"
	"maps"
	"slices"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/cluster/flow"
	"github.com/skein-project/skein/cluster/job"
)

// Run is what the log says of a run. Nothing in it is to be changed.
type Run struct {
	event.WorkflowSubmitted
	Submitted cluster.HLC
	// Round is the last one; of it are State, Reason and Ended, which say how it ended,
	// and Stop and Now, which say that it is to end, and its teardown too.
	Round  int
	State  flow.State // queued, running or stopping: it has not ended
	Reason string
	Ended  cluster.HLC
	Stop   *event.WorkflowStopped
	Now    *event.WorkflowStopped
	// Place is that of a queued run among those of its group that wait, from 1.
	Place int
	// StoppedAt is when Stop was said, RetriedAt when the last round began.
	StoppedAt, RetriedAt cluster.HLC
	// From says for each retry with which step it began, which may be none.
	From []string
	// Tries are those at instances of steps, by step, index and number. Runs leaves them
	// out.
	Tries []Try
}

// Open reports whether the run has not ended.
func (r Run) Open() bool { return !r.State.Final() }

// Try is one try at an instance of a step.
type Try struct {
	Step              string
	Index, Round, Try int
	Job               job.ID         // empty: its end alone is known
	Provider          job.ID         // empty: it did not begin
	Part              *job.Span      // chunks of the instance's job that this one computes again
	End               *event.StepEnd // nil: it has not ended
	Disputed          bool           // another end was logged as well, which differs, or results of its job do
	Started, Ended    cluster.HLC
}

// Run returns one run; false: there is none.
func (f *Fold) Run(id flow.RunID) (Run, bool) {
	r, ok := f.runs[id]
	if !ok || r.sub.At.IsZero() {
		return Run{}, false
	}
	out := r.summary()
	if out.Group != "" && out.State == flow.Running {
		for _, one := range f.Runs() {
			if one.Run == id {
				out.State, out.Place = one.State, one.Place
			}
		}
	}
	out.Tries = r.tries()
	return out, true
}

// queue marks the runs that wait for others of their group: as many as may go on at once
// were submitted, or begun again, before them.
func queue(all []Run) {
	type group struct{ owner, name string }
	shared := make(map[group][]*Run)
	for i := range all {
		if r := &all[i]; r.Group != "" && r.Open() {
			g := group{r.Owner, r.Group}
			shared[g] = append(shared[g], r)
		}
	}
	for _, runs := range shared {
		slices.SortStableFunc(runs, func(a, b *Run) int { return cmp.Compare(a.turn(), b.turn()) })
		place := 0
		for i, r := range runs {
			if i >= r.Limit && r.State == flow.Running {
				place++
				r.State, r.Place = flow.Queued, place
			}
		}
	}
}

// turn is since when the last round of a run was to begin.
func (r Run) turn() cluster.HLC { return max(r.Submitted, r.RetriedAt) }

// Runs returns all runs in the order of their submission, without their tries.
func (f *Fold) Runs() (out []Run) {
	all := make([]*run, 0, len(f.runs))
	for _, r := range f.runs {
		if !r.sub.At.IsZero() {
			all = append(all, r)
		}
	}
	slices.SortFunc(all, func(a, b *run) int { return a.sub.At.Compare(b.sub.At) })
	for _, r := range all {
		out = append(out, r.summary())
	}
	queue(out)
	return out
}

// Forgotten reports whether a run of that name was forgotten not long ago.
func (f *Fold) Forgotten(id flow.RunID) bool {
	_, ok := f.graves[id]
	return ok
}

// Open returns the runs that have not ended, in the order of their submission.
func (f *Fold) Open() (out []flow.RunID) {
	for _, r := range f.Runs() {
		if r.Open() {
			out = append(out, r.Run)
		}
	}
	return out
}

// Artefacts are those that steps of runs need which have not ended.
func (f *Fold) Artefacts() map[cluster.Hash]bool {
	need := make(map[cluster.Hash]bool)
	for _, r := range f.runs {
		if r.sub.At.IsZero() || !r.summary().Open() {
			continue
		}
		def, err := flow.Decode(r.sub.V.Def)
		if err != nil {
			continue // nobody can run it
		}
		for _, s := range def.Steps {
			for _, spec := range s.Jobs() {
				for _, h := range spec.Hashes() {
					need[h] = true
				}
			}
		}
	}
	return need
}

// AddFiles adds to kept the files that steps of runs are given which have not ended.
func (f *Fold) AddFiles(kept map[cluster.Hash]bool) {
	for _, r := range f.runs {
		if r.sub.At.IsZero() || !flow.MayHaveFiles(r.sub.V.Def) || !r.summary().Open() {
			continue
		}
		flow.AddFiles(kept, r.sub.V.Def)
	}
}

func (r *run) summary() Run {
	out := Run{WorkflowSubmitted: r.sub.V, Submitted: r.sub.At.HLC, State: flow.Running}
	for n := 1; ; n++ {
		retry, ok := r.retries[n]
		if !ok {
			break
		}
		out.Round, out.RetriedAt = n, retry.At.HLC
		out.From = append(out.From, retry.V.From)
	}
	if s, ok := r.stops[out.Round]; ok {
		out.State, out.Stop, out.StoppedAt = flow.Stopping, &s.V, s.At.HLC
	}
	if s, ok := r.nows[out.Round]; ok {
		out.Now = &s.V
	}
	if d, ok := r.dones[out.Round]; ok {
		out.State, out.Reason, out.Ended = d.V.State, d.V.Reason, d.At.HLC
	}
	return out
}

// tries reads the starts and ends of a run; its log has them in their order.
func (r *run) tries() (out []Try) {
	type name struct {
		step       string
		index, try int
	}
	at := make(map[name]int)
	of := func(step string, index, round, try int) *Try {
		n := name{step, index, try}
		i, ok := at[n]
		if !ok {
			i = len(out)
			at[n] = i
			out = append(out, Try{Step: step, Index: index, Round: round, Try: try})
		}
		return &out[i]
	}
	for _, e := range r.log {
		if k := kinds[e.kind]; k != event.KindStepsStarted && k != event.KindStepsEnded {
			continue
		}
		body, _ := read(int(e.kind), e.body)
		switch b := body.(type) {
		case event.StepsStarted:
			for _, s := range b.Starts {
				switch t := of(s.Step, s.Index, s.Round, s.Try); {
				case s.Provider && t.Provider == "":
					t.Provider = s.Job
				case !s.Provider && t.Job == "":
					t.Job, t.Started, t.Part = s.Job, e.at.HLC, s.Part
				}
			}
		case event.StepsEnded:
			for _, s := range b.Ends {
				t := of(s.Step, s.Index, s.Round, s.Try)
				if t.End == nil {
					t.End, t.Ended = &s, e.at.HLC
				}
				t.Disputed = t.Disputed || s.Disputed || t.End.State != s.State || !maps.EqualFunc(t.End.Outputs, s.Outputs, func(a, b json.RawMessage) bool { return bytes.Equal(a, b) })
			}
		}
	}
	slices.SortFunc(out, func(a, b Try) int {
		return cmp.Or(cmp.Compare(a.Step, b.Step), cmp.Compare(a.Index, b.Index), cmp.Compare(a.Try, b.Try))
	})
	return out
}
