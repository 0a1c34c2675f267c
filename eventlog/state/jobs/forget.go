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

// tombstone marks a forgotten job: events of that name before it mean nothing.
type tombstone = canon.Key

// tombstoneLife is how long a tombstone is kept. An earlier event that arrives
// after that is of a term that ended long ago, and void.
const tombstoneLife = 30 * 24 * time.Hour

// forget folds that ended jobs are to be forgotten. It reports true when events
// that came after a job's tombstone were folded into the forgotten job, or a
// submission after it gave way to one that is forgotten.
func (f *Fold) forget(e *event.Event, b event.JobsForgotten) (rebuild bool, refused []string) {
	at := canon.KeyOf(e)
	for _, id := range b.Jobs {
		if id == "" || len(id) > maxJobIDLen {
			f.malformed++
			continue
		}
		if old, ok := f.tombstones[id]; ok && !old.Less(at) {
			continue
		}
		j, known := f.jobs[id]
		beyond := known && !j.top.Less(at)
		// What was folded beyond the base can be folded again.
		if beyond && f.inBase(id) && !f.base.jobs[id].Less(at) {
			refused = append(refused, "job "+string(id)+" was submitted anew below the base")
			continue
		}
		gaveWay := f.gaveWay(id, at)
		f.tombstones[id] = at
		delete(f.winners, id) // it may be erased; if not, it is found again
		if beyond || gaveWay {
			rebuild = true
		} else {
			f.erase(id, at)
		}
	}
	return rebuild, refused
}

// gaveWay reports whether a submission after a tombstone does not count, because
// one did that the tombstone ends.
func (f *Fold) gaveWay(id job.ID, at tombstone) bool {
	winner, ok := f.winners[id]
	lost := f.waiting[id]
	return ok && winner.Less(at) && lost != nil && !lost.top.Less(at)
}

// erase drops what is known of a job before its tombstone.
func (f *Fold) erase(id job.ID, at tombstone) {
	if j, ok := f.jobs[id]; ok {
		f.malformed -= j.bad
		delete(f.jobs, id)
	}
	if w, ok := f.waiting[id]; ok {
		w.events = slices.DeleteFunc(w.events, func(p event.Event) bool { return canon.KeyOf(&p).Less(at) })
		if w.top.Less(at) {
			w.top = canon.Key{}
		}
		if len(w.events) == 0 && w.top == (canon.Key{}) {
			delete(f.waiting, id)
		}
	}
}

// eraseAll begins a rebuild from a base: it drops what lies before the tombstones
// that are known by now.
func (f *Fold) eraseAll() {
	for id, at := range f.tombstones {
		if j, ok := f.jobs[id]; !ok || j.top.Less(at) {
			f.erase(id, at)
		}
	}
}

// erased reports whether an event of a job lies before the job's tombstone.
func (f *Fold) erased(id job.ID, at canon.Key) bool {
	t, ok := f.tombstones[id]
	return ok && at.Less(t)
}

// inBase reports whether the job of that name is the one that the base knows.
func (f *Fold) inBase(id job.ID) bool {
	if f.base == nil || f.tombstones[id] != f.base.tombstones[id] {
		return false
	}
	_, ok := f.base.jobs[id]
	return ok
}

// resetTombstones drops the tombstones that were learned beyond the base: the
// events that set them may be void now.
func (f *Fold) resetTombstones() {
	f.tombstones = make(map[job.ID]tombstone)
	if f.base != nil {
		maps.Copy(f.tombstones, f.base.tombstones)
	}
}

// stillNeeded are the tombstones that must be kept.
func stillNeeded(tombstones map[job.ID]tombstone) map[job.ID]tombstone {
	var newest cluster.HLC
	for _, t := range tombstones {
		newest = max(newest, t.HLC)
	}
	out := make(map[job.ID]tombstone)
	for id, t := range tombstones {
		if newest.Time().Sub(t.HLC.Time()) <= tombstoneLife {
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

func (f *Fold) writeTombstones(w *canon.Writer) {
	tombstones := stillNeeded(f.tombstones)
	w.Count(len(tombstones))
	for _, id := range slices.SortedFunc(maps.Keys(tombstones), func(a, b job.ID) int { return strings.Compare(string(a), string(b)) }) {
		w.Text(string(id))
		w.Key(tombstones[id])
	}
}

func (f *Fold) readTombstones(r *canon.Reader) {
	for n := r.Count(); n > 0 && r.OK(); n-- {
		id := job.ID(r.Text(maxJobIDLen))
		t := r.Key()
		r.Check(id != "", "forgotten job")
		if j, ok := f.jobs[id]; ok {
			r.Check(!j.top.Less(t), "forgotten job")
		}
		f.tombstones[id] = t
	}
}
