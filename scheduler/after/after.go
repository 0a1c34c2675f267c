package after

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/scheduler/plan/step"
)

// MaxHeld is how many jobs wait for others at once, MaxOwnerHeld how many of one owner.
const (
	MaxHeld      = 10_000
	MaxOwnerHeld = 1000
)

// StateOf tells how a job is; false: it is not known, or was forgotten.
type StateOf func(job.ID) (job.State, bool)

// Verdict is what is known of the jobs that one waits for.
type Verdict struct {
	Ready bool   // all have ended as it wants
	Never string // why that cannot be any more; "": it can
	Waits string // for what it waits, if it is neither
}

// Judge says how the jobs in list, of a valid spec, stand.
func Judge(list []string, of StateOf) (v Verdict) {
	open := 0
	for _, text := range list {
		a, err := job.ParseAfter(text)
		if err != nil {
			return Verdict{Never: err.Error()}
		}
		switch s, known := of(a.Job); {
		case !known && a.How == job.AfterDone:
		case !known:
			return Verdict{Never: fmt.Sprintf("job %s, which it waits for, is forgotten", a.Job)}
		case !s.Final():
			if open++; v.Waits == "" {
				v.Waits = fmt.Sprintf("waits for job %s, which is %s", a.Job, s)
			}
		case !a.Met(s):
			return Verdict{Never: fmt.Sprintf("job %s, which it waits for, is %s", a.Job, s)}
		}
	}
	if open > 1 {
		v.Waits += fmt.Sprintf(", and %d more", open-1)
	}
	v.Ready = open == 0
	return v
}

// Host is the scheduler in one term, as far as jobs that wait need it.
type Host interface {
	// State is how a job is by the log, or as it was submitted just now.
	State(id job.ID) (job.State, bool)
	Now() time.Duration
	// Add gives a job to the plan, Hold logs that it waits, End that it has ended.
	Add(a step.JobAdded)
	Hold(id job.ID, why string)
	End(id job.ID, s job.State, why string)
}

// Check refuses a job that waits for one that there is not.
func Check(list []string, of StateOf) error {
	for _, text := range list {
		a, err := job.ParseAfter(text)
		if err == nil {
			if _, known := of(a.Job); !known {
				err = fmt.Errorf("after: no job %s", a.Job)
			}
		}
		if err != nil {
			return fmt.Errorf("%w: %w", job.ErrSpec, err)
		}
	}
	return nil
}

// Begin gives a job to the plan, or holds it while it waits for others.
func (js *Jobs) Begin(h Host, a step.JobAdded) {
	s, _ := h.State(a.Job)
	if len(a.Spec.After) == 0 || s != job.Pending && s != job.Queued {
		h.Add(a)
		return
	}
	switch v := Judge(a.Spec.After, h.State); {
	case v.Never != "":
		h.End(a.Job, job.Skipped, v.Never)
	case v.Ready:
		h.Add(a)
	default:
		js.Add(a, h.Now())
		if a.Restore == nil {
			h.Hold(a.Job, v.Waits)
		}
	}
}

// Ended takes in that a job ends.
func (js *Jobs) Ended(id job.ID) {
	if len(js.by[id]) > 0 {
		js.ended = append(js.ended, id)
	}
}

// Follow begins or skips the jobs that waited for those that have ended by the log, and
// reports whether any had.
func (js *Jobs) Follow(h Host) bool {
	ended := js.ended
	js.ended = nil
	for _, d := range ended {
		for _, id := range js.Behind(d) {
			one := js.held[id]
			if v := Judge(one.Spec.After, h.State); v.Ready || v.Never != "" {
				js.Take(id)
				one.Age = h.Now() - one.Since
				js.Begin(h, one.JobAdded)
			}
		}
	}
	return len(ended) > 0
}

// Held is a job that waits.
type Held struct {
	step.JobAdded
	Since time.Duration // when it was submitted
}

// Jobs are those that wait. The zero value is none.
type Jobs struct {
	held  map[job.ID]Held
	by    map[job.ID][]job.ID // who waits for a job
	owner map[string]int
	ended []job.ID      // that others wait for, and which are to be looked at
	soon  time.Duration // when the first deadline comes; 0: none does
}

// Full reports that owner can have no more jobs that wait.
func (js *Jobs) Full(owner string) bool {
	return len(js.held) >= MaxHeld || js.owner[owner] >= MaxOwnerHeld
}

// Add takes in a job that waits; now is when it is taken in.
func (js *Jobs) Add(a step.JobAdded, now time.Duration) {
	if js.held == nil {
		js.held, js.by, js.owner = make(map[job.ID]Held), make(map[job.ID][]job.ID), make(map[string]int)
	}
	if _, known := js.held[a.Job]; known {
		return
	}
	h := Held{JobAdded: a, Since: now - a.Age}
	js.held[a.Job] = h
	js.owner[a.Owner]++
	for _, text := range a.Spec.After {
		if d, err := job.ParseAfter(text); err == nil {
			js.by[d.Job] = append(js.by[d.Job], a.Job)
		}
	}
	if due := h.due(); due > 0 && (js.soon == 0 || due < js.soon) {
		js.soon = due
	}
}

// due is when the job's deadline comes; 0: it has none.
func (h Held) due() time.Duration {
	if d := h.Spec.Deadline(); d > 0 {
		return max(1, h.Since+d)
	}
	return 0
}

// Take removes a job that waits, and returns it.
func (js *Jobs) Take(id job.ID) (Held, bool) {
	h, ok := js.held[id]
	if !ok {
		return h, false
	}
	delete(js.held, id)
	if js.owner[h.Owner]--; js.owner[h.Owner] == 0 {
		delete(js.owner, h.Owner)
	}
	for _, text := range h.Spec.After {
		if d, err := job.ParseAfter(text); err == nil {
			js.by[d.Job] = slices.DeleteFunc(js.by[d.Job], func(who job.ID) bool { return who == id })
			if len(js.by[d.Job]) == 0 {
				delete(js.by, d.Job)
			}
		}
	}
	return h, true
}

// Get returns a job that waits.
func (js *Jobs) Get(id job.ID) (Held, bool) {
	h, ok := js.held[id]
	return h, ok
}

// Len is how many wait.
func (js *Jobs) Len() int { return len(js.held) }

// All are those that wait, in the order of their submission.
func (js *Jobs) All() []Held {
	out := make([]Held, 0, len(js.held))
	for _, h := range js.held {
		out = append(out, h)
	}
	slices.SortFunc(out, func(a, b Held) int { return cmp.Or(cmp.Compare(a.Since, b.Since), cmp.Compare(a.Job, b.Job)) })
	return out
}

// Behind are the jobs that wait for one.
func (js *Jobs) Behind(id job.ID) []job.ID { return slices.Clone(js.by[id]) }

// Late are the jobs whose deadline is over.
func (js *Jobs) Late(now time.Duration) (out []job.ID) {
	if js.soon == 0 || now < js.soon {
		return nil
	}
	js.soon = 0
	for _, h := range js.All() {
		switch due := h.due(); {
		case due == 0:
		case due <= now:
			out = append(out, h.Job)
		case js.soon == 0 || due < js.soon:
			js.soon = due
		}
	}
	return out
}
