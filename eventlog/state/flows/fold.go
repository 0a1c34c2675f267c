package flows

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/cluster/flow"
	"github.com/skein-project/skein/eventlog/state/canon"
)

const (
	maxOwner = 128 // bytes
	maxGroup = 128 // bytes
	// maxEntries bounds what one event tells, maxRounds how often a run is retried.
	maxEntries = 512
	maxForget  = 256
	maxRounds  = 1000
	// graveLife is how long it is known that a run was forgotten. An earlier event that
	// arrives after that is of a term that ended long ago, and void.
	graveLife = 30 * 24 * time.Hour
)

// kinds are those that a run is made of; their places are part of the canonical bytes.
var kinds = [...]event.Kind{
	event.KindFlowSubmitted, event.KindStepsStarted, event.KindStepsEnded, event.KindFlowStopped, event.KindFlowRetried, event.KindFlowDone,
}

// Fold is what the events applied so far mean for workflows. The zero value is not
// usable, see New.
type Fold struct {
	runs   map[flow.RunID]*run
	graves map[flow.RunID]canon.Key // of runs that were forgotten
}

// entry is one event about a run. It is never changed.
type entry struct {
	at   canon.Key
	kind byte // place in kinds
	body []byte
}

// run is one run: its events by their keys, and what follows from some of them.
type run struct {
	log     []entry
	sub     canon.Register[event.WorkflowSubmitted]
	retries map[int]canon.Register[event.WorkflowRetried]
	stops   map[int]canon.Register[event.WorkflowStopped] // by round: the first
	nows    map[int]canon.Register[event.WorkflowStopped] // by round: the first that ends its teardown
	dones   map[int]canon.Register[event.WorkflowDone]
}

// New returns the Fold of an empty log.
func New() *Fold {
	return &Fold{runs: make(map[flow.RunID]*run), graves: make(map[flow.RunID]canon.Key)}
}

func newRun() *run {
	return &run{
		retries: make(map[int]canon.Register[event.WorkflowRetried]), stops: make(map[int]canon.Register[event.WorkflowStopped]),
		nows: make(map[int]canon.Register[event.WorkflowStopped]), dones: make(map[int]canon.Register[event.WorkflowDone]),
	}
}

// Clone returns an independent copy.
func (f *Fold) Clone() *Fold {
	c := &Fold{runs: make(map[flow.RunID]*run, len(f.runs)), graves: maps.Clone(f.graves)}
	for id, r := range f.runs {
		c.runs[id] = &run{
			log: slices.Clone(r.log), sub: r.sub, retries: maps.Clone(r.retries), stops: maps.Clone(r.stops),
			nows: maps.Clone(r.nows), dones: maps.Clone(r.dones),
		}
	}
	return c
}

// Empty reports whether nothing was ever said of a workflow.
func (f *Fold) Empty() bool { return len(f.runs)+len(f.graves) == 0 }

// Apply folds an event, if it is about workflows. ok is false if it cannot be what it
// says.
func (f *Fold) Apply(e *event.Event) (about, ok bool) {
	if e.Kind == event.KindFlowsForgotten {
		return true, f.forget(e)
	}
	kind := slices.Index(kinds[:], e.Kind)
	if kind < 0 {
		return false, true
	}
	body, id := read(kind, e.Body)
	if body == nil {
		return true, false
	}
	at := canon.KeyOf(e)
	if grave, ok := f.graves[id]; ok && at.Less(grave) {
		return true, true
	}
	r := f.runs[id]
	if r == nil {
		r = newRun()
		f.runs[id] = r
	}
	r.insert(entry{at: at, kind: byte(kind), body: e.Body}, body)
	return true, true
}

func (r *run) insert(e entry, body any) {
	i, known := slices.BinarySearchFunc(r.log, e.at, func(e entry, at canon.Key) int { return e.at.Compare(at) })
	if known {
		return
	}
	r.log = slices.Insert(r.log, i, e)
	r.note(e.at, body)
}

// note takes in what a run is asked quickly.
func (r *run) note(at canon.Key, body any) {
	switch b := body.(type) {
	case event.WorkflowSubmitted:
		r.sub.First(at, b)
	case event.WorkflowRetried:
		first(r.retries, b.Round, at, b)
	case event.WorkflowStopped:
		first(r.stops, b.Round, at, b)
		if b.Now {
			first(r.nows, b.Round, at, b)
		}
	case event.WorkflowDone:
		first(r.dones, b.Round, at, b)
	}
}

func first[T any](m map[int]canon.Register[T], round int, at canon.Key, v T) {
	reg := m[round]
	reg.First(at, v)
	m[round] = reg
}

func (f *Fold) forget(e *event.Event) bool {
	var b event.WorkflowsForgotten
	if json.Unmarshal(e.Body, &b) != nil || len(b.Runs) > maxForget {
		return false
	}
	at, whole := canon.KeyOf(e), true
	for _, id := range b.Runs {
		if _, err := flow.ParseRunID(string(id)); err != nil {
			whole = false
			continue
		}
		if old, ok := f.graves[id]; ok && !old.Less(at) {
			continue
		}
		f.graves[id] = at
		r := f.runs[id]
		if r == nil {
			continue
		}
		left := newRun()
		for _, e := range r.log {
			if !e.at.Less(at) {
				body, _ := read(int(e.kind), e.body)
				left.insert(e, body)
			}
		}
		f.runs[id] = left
		if len(left.log) == 0 {
			delete(f.runs, id)
		}
	}
	return whole
}

// Settle drops what is needed no more, when what is folded becomes a base.
func (f *Fold) Settle() { f.graves = stillNeeded(f.graves) }

func stillNeeded(graves map[flow.RunID]canon.Key) map[flow.RunID]canon.Key {
	var newest cluster.HLC
	for _, at := range graves {
		newest = max(newest, at.HLC)
	}
	out := make(map[flow.RunID]canon.Key)
	for id, at := range graves {
		if newest.Time().Sub(at.HLC.Time()) <= graveLife {
			out[id] = at
		}
	}
	return out
}

// read reads the body of an event; nil: it cannot be what it says.
func read(kind int, text []byte) (body any, id flow.RunID) {
	ok := false
	switch kinds[kind] {
	case event.KindFlowSubmitted:
		var b event.WorkflowSubmitted
		ok = json.Unmarshal(text, &b) == nil && b.Owner != "" && len(b.Owner) <= maxOwner && len(b.Name) <= flow.MaxName &&
			len(b.Def) > 0 && len(b.Def) <= flow.MaxDefBytes && len(b.Params) > 0 && len(b.Params) <= flow.MaxParamBytes &&
			len(b.Group) <= maxGroup && b.Limit >= 0 && b.Limit <= flow.MaxGroupLimit && b.At >= 0 && b.KeepSeconds >= 0 && b.KeepSeconds <= flow.MaxSeconds && len(b.Schedule) <= flow.MaxName
		body, id = b, b.Run
	case event.KindStepsStarted:
		var b event.StepsStarted
		ok = json.Unmarshal(text, &b) == nil && len(b.Starts) <= maxEntries
		for _, s := range b.Starts {
			ok = ok && valid(s.Step, s.Index, s.Round, s.Try) && s.Job != "" && len(s.Job) <= maxOwner
		}
		body, id = b, b.Run
	case event.KindStepsEnded:
		var b event.StepsEnded
		ok = json.Unmarshal(text, &b) == nil && len(b.Ends) <= maxEntries
		for _, s := range b.Ends {
			ok = ok && valid(s.Step, s.Index, s.Round, s.Try) && s.State.Ended() && len(s.Reason) <= cluster.MaxReason && size(s.Outputs) <= flow.MaxGivenBytes
		}
		body, id = b, b.Run
	case event.KindFlowStopped:
		var b event.WorkflowStopped
		ok = json.Unmarshal(text, &b) == nil && round(b.Round) && b.Cause.Known() && len(b.Actor) <= maxOwner && len(b.Reason) <= cluster.MaxReason
		body, id = b, b.Run
	case event.KindFlowRetried:
		var b event.WorkflowRetried
		ok = json.Unmarshal(text, &b) == nil && round(b.Round) && b.Round > 0 && len(b.From) <= flow.MaxName && len(b.Actor) <= maxOwner
		body, id = b, b.Run
	case event.KindFlowDone:
		var b event.WorkflowDone
		ok = json.Unmarshal(text, &b) == nil && round(b.Round) && b.State.Ended() && len(b.Reason) <= cluster.MaxReason
		body, id = b, b.Run
	}
	if _, err := flow.ParseRunID(string(id)); err != nil || !ok {
		return nil, ""
	}
	return body, id
}

func valid(step string, index, in, try int) bool {
	return step != "" && len(step) <= flow.MaxName && index >= 0 && index < flow.MaxInstances && round(in) && try >= 1 && try <= maxRounds*(flow.MaxRetries+1)
}

func round(n int) bool { return n >= 0 && n <= maxRounds }

func size(outputs map[string]json.RawMessage) (n int) {
	for name, v := range outputs {
		n += len(name) + len(v)
	}
	return n
}

// ids are those of all runs that there is anything of, sorted.
func (f *Fold) ids() []flow.RunID {
	return slices.SortedFunc(maps.Keys(f.runs), func(a, b flow.RunID) int { return strings.Compare(string(a), string(b)) })
}
