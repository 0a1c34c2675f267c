package jobs

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/eventlog/state/canon"
)

// tomb stands where a job was: events of that name before it mean nothing.
type tomb = canon.Key

// tombTime is how long a tomb stands. An event of before that is still to come
// after such a time is of a term that ended long ago, and void.
const tombTime = 30 * 24 * time.Hour

// forget folds that ended jobs are to be forgotten. It reports true when events
// that came after a job's tomb were folded into the job that lies there.
func (f *Fold) forget(e *event.Event, b event.JobsForgotten) (rebuild bool, refused []string) {
	at := canon.KeyOf(e)
	for _, id := range b.Jobs {
		if id == "" || len(id) > maxJobIDLen {
			f.malformed++
			continue
		}
		if old, ok := f.tombs[id]; ok && !old.Less(at) {
			continue
		}
		j, known := f.jobs[id]
		beyond := known && !j.top.Less(at)
		if beyond && f.inBase(id) {
			refused = append(refused, "job "+string(id)+" was submitted anew below the base")
			continue
		}
		f.tombs[id] = at
		delete(f.winners, id) // it may be buried; if not, it is found again
		if beyond {
			rebuild = true
		} else {
			f.bury(id, at)
		}
	}
	return rebuild, refused
}

// bury takes away what is known of a job before its tomb.
func (f *Fold) bury(id job.ID, at tomb) {
	if j, ok := f.jobs[id]; ok {
		f.malformed -= j.bad
		delete(f.jobs, id)
	}
	if w, ok := f.waiting[id]; ok {
		w.events = slices.DeleteFunc(w.events, func(p event.Event) bool { return canon.KeyOf(&p).Less(at) })
		if len(w.events) == 0 {
			delete(f.waiting, id)
		}
	}
}

// buryAll begins a rebuild from a base: what lies before a tomb that is known by
// now goes.
func (f *Fold) buryAll() {
	for id, at := range f.tombs {
		if j, ok := f.jobs[id]; !ok || j.top.Less(at) {
			f.bury(id, at)
		}
	}
}

// buried reports whether an event of a job lies before the job's tomb.
func (f *Fold) buried(id job.ID, at canon.Key) bool {
	t, ok := f.tombs[id]
	return ok && at.Less(t)
}

// inBase reports whether the job of that name is the one that the base knows.
func (f *Fold) inBase(id job.ID) bool {
	return f.base != nil && f.base.jobs[id] && f.tombs[id] == f.base.tombs[id]
}

// unbury forgets the tombs that were learned beyond the base: the events that
// set them may be void now.
func (f *Fold) unbury() {
	f.tombs = make(map[job.ID]tomb)
	if f.base != nil {
		maps.Copy(f.tombs, f.base.tombs)
	}
}

// standing are the tombs that are still needed.
func standing(tombs map[job.ID]tomb) map[job.ID]tomb {
	var newest cluster.HLC
	for _, t := range tombs {
		newest = max(newest, t.HLC)
	}
	out := make(map[job.ID]tomb)
	for id, t := range tombs {
		if newest.Time().Sub(t.HLC.Time()) <= tombTime {
			out[id] = t
		}
	}
	return out
}

// Expired returns at most limit jobs that ended before and are to be forgotten
// by now, sorted.
func (f *Fold) Expired(now cluster.HLC, limit int) []job.ID {
	var out []job.ID
	for id, j := range f.jobs {
		if j.ended() && j.done.At.HLC.Time().Add(j.spec.Keep()).Before(now.Time()) {
			out = append(out, id)
		}
	}
	slices.Sort(out)
	return out[:min(len(out), limit)]
}

func (f *Fold) writeTombs(w *canon.Writer) {
	tombs := standing(f.tombs)
	w.Count(len(tombs))
	for _, id := range slices.SortedFunc(maps.Keys(tombs), func(a, b job.ID) int { return strings.Compare(string(a), string(b)) }) {
		w.Text(string(id))
		w.Key(tombs[id])
	}
}

func (f *Fold) readTombs(r *canon.Reader) {
	for n := r.Count(); n > 0 && r.OK(); n-- {
		id := job.ID(r.Text(maxJobIDLen))
		t := r.Key()
		r.Check(id != "", "forgotten job")
		if j, ok := f.jobs[id]; ok {
			r.Check(!j.top.Less(t), "forgotten job")
		}
		f.tombs[id] = t
	}
}
