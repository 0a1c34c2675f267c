package trace

import (
	"slices"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/cluster/job"
)

// Outcome is how a span ended.
type Outcome string

// Outcomes. A span that is open lasts until the host was asked.
const (
	Done       Outcome = "done"
	Failed     Outcome = "failed"
	Reclaimed  Outcome = "reclaimed"
	Superseded Outcome = "superseded" // another attempt's result counts
	Ended      Outcome = "ended"      // with the job
	Open       Outcome = "open"
)

// Attempt is one try at a chunk.
type Attempt struct {
	Chunk, Number int
	Worker        cluster.NodeID
	Term          cluster.Term // of the assignment
	Start, End    time.Time
	Outcome       Outcome
	Reason        string
	lane          int // beside others of its worker
}

// Moment is a change of state of the job itself, or of chunks that an operator released.
type Moment struct {
	At            time.Time
	Name          string // the kind of its event
	State         string
	Actor, Reason string
	Node          cluster.NodeID
	Term          cluster.Term
}

// Trace is a job as it went.
type Trace struct {
	Job         job.ID
	Name, Owner string
	State       job.State
	Reason      string
	Chunks      int
	Start, End  time.Time
	// Waited is when the wait for a worker ended, zero if the log no longer says when.
	Waited   time.Time
	Attempts []Attempt // by start, then chunk and number
	Moments  []Moment
	// Omitted counts earlier changes that are not here, Compacted says that the log
	// keeps no earlier events.
	Omitted   int
	Compacted bool
}

// Of makes the trace of j from every change of its state and of its chunks.
func Of(j api.Job, h api.JobHistory) Trace {
	t := Trace{
		Job: j.ID, Name: j.Name, Owner: j.Owner, State: j.State, Reason: j.Reason, Chunks: j.Chunks.Total,
		Start: j.SubmittedAt, End: h.ObservedAt, Omitted: h.Omitted, Compacted: h.Compacted,
	}
	if j.FinishedAt != nil {
		t.End = *j.FinishedAt
	}
	var first time.Time // assignment
	open := map[[2]int]Attempt{}
	end := func(key [2]int, c api.Transition, how Outcome) {
		a, ok := open[key]
		if !ok {
			return // its beginning is not kept
		}
		delete(open, key)
		a.End, a.Outcome, a.Reason = c.At, how, c.Reason
		t.Attempts = append(t.Attempts, a)
	}
	for _, c := range h.Transitions {
		if c.Chunk == nil || c.Kind == event.KindChunksReleased {
			t.Moments = append(t.Moments, Moment{At: c.At, Name: string(c.Kind), State: c.To, Actor: c.Actor, Reason: c.Reason, Node: c.Node, Term: c.Term})
			continue
		}
		key := [2]int{*c.Chunk, c.Attempt}
		switch c.Kind {
		case event.KindChunksAssigned:
			open[key] = Attempt{Chunk: *c.Chunk, Number: c.Attempt, Worker: c.Worker, Term: c.Term, Start: c.At}
			if first.IsZero() {
				first = c.At
			}
		case event.KindChunkFailed:
			end(key, c, Failed)
		case event.KindChunkReclaimed:
			end(key, c, Reclaimed)
		case event.KindChunkAccepted, event.KindChunksAccepted:
			end(key, c, Done)
			c.Reason = ""
			for other := range open {
				if other[0] == key[0] {
					end(other, c, Superseded)
				}
			}
		}
	}
	for key := range open {
		how := Open
		if j.FinishedAt != nil {
			how = Ended
		}
		end(key, api.Transition{At: t.End}, how)
	}
	if slices.ContainsFunc(t.Moments, func(m Moment) bool { return m.Name == string(event.KindJobSubmitted) }) {
		if t.Waited = first; first.IsZero() {
			t.Waited = t.End
		}
	}
	t.tidy()
	return t
}

// tidy sorts the attempts, has nothing end before it begins, and gives those of one
// worker that overlap lanes of their own.
func (t *Trace) tidy() {
	last := t.Start
	for i := range t.Attempts {
		a := &t.Attempts[i]
		a.End = later(a.End, a.Start) // the clock of another holder
		last = later(last, a.End)
	}
	for _, m := range t.Moments {
		last = later(last, m.At)
	}
	t.End = later(t.End, last)
	slices.SortFunc(t.Attempts, func(x, y Attempt) int {
		if c := x.Start.Compare(y.Start); c != 0 {
			return c
		}
		if c := x.Chunk - y.Chunk; c != 0 {
			return c
		}
		return x.Number - y.Number
	})
	lanes := map[cluster.NodeID][]time.Time{} // until when each is taken
	for i := range t.Attempts {
		a := &t.Attempts[i]
		taken := lanes[a.Worker]
		a.lane = slices.IndexFunc(taken, func(until time.Time) bool { return !until.After(a.Start) })
		if a.lane < 0 {
			a.lane, taken = len(taken), append(taken, a.End)
		}
		taken[a.lane] = a.End
		lanes[a.Worker] = taken
	}
}

func later(x, y time.Time) time.Time {
	if x.Before(y) {
		return y
	}
	return x
}

// title names the job for people.
func (t *Trace) title() string {
	if t.Name == "" {
		return "job " + string(t.Job)
	}
	return "job " + t.Name
}

// workers lists those with attempts, sorted.
func (t *Trace) workers() []cluster.NodeID {
	var out []cluster.NodeID
	for _, a := range t.Attempts {
		out = append(out, a.Worker)
	}
	slices.Sort(out)
	return slices.Compact(out)
}
