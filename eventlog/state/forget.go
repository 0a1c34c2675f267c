package state

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/cluster/job"
)

// tomb stands where a job was: events of that name before it mean nothing.
type tomb = key

// tombTime is how long a tomb stands. An event of before that is still to come
// after such a time is of a term that ended long ago, and void.
const tombTime = 30 * 24 * time.Hour

// forget folds that ended jobs are to be forgotten. It reports true when events
// that came after a job's tomb were folded into the job that lies there.
func (s *State) forget(e *event.Event, b event.JobsForgotten) (rebuild bool) {
	at := keyOf(e)
	for _, id := range b.Jobs {
		if id == "" || len(id) > maxJobIDLen {
			s.malformed++
			continue
		}
		if old, ok := s.tombs[id]; ok && !old.less(at) {
			continue
		}
		j, ok := s.jobs[id]
		beyond := ok && j.known && !j.top.less(at)
		if beyond && s.inBase(id) {
			s.refuse(refusal(e, "job "+string(id)+" was submitted anew below the base"))
			continue
		}
		s.tombs[id] = at
		delete(s.winners, id) // it may be buried; if not, it is found again
		if beyond {
			rebuild = true
		} else if ok {
			s.bury(j, at)
		}
	}
	return rebuild
}

// bury takes away what is known of a job before its tomb.
func (s *State) bury(j *foldedJob, at tomb) {
	j.parked = slices.DeleteFunc(j.parked, func(p event.Event) bool { return keyOf(&p).less(at) })
	if j.known {
		s.malformed -= j.bad
	}
	if j.known || len(j.parked) == 0 {
		delete(s.jobs, j.id)
	}
}

// buryAll begins a rebuild from a base: what lies before a tomb that is known by
// now goes.
func (s *State) buryAll() {
	for id, at := range s.tombs {
		if j, ok := s.jobs[id]; ok && (!j.known || j.top.less(at)) {
			s.bury(j, at)
		}
	}
}

// buried reports whether an event of a job lies before the job's tomb.
func (s *State) buried(id job.ID, e *event.Event) bool {
	t, ok := s.tombs[id]
	return ok && keyOf(e).less(t)
}

// inBase reports whether the job of that name is the one that the base knows.
func (s *State) inBase(id job.ID) bool {
	return s.base != nil && s.base.jobs[id] && s.tombs[id] == s.base.tombs[id]
}

// unbury forgets the tombs that were learned beyond the base: the events that
// set them may be void now.
func (s *State) unbury() {
	s.tombs = make(map[job.ID]tomb)
	if s.base != nil {
		maps.Copy(s.tombs, s.base.tombs)
	}
}

// standing are the tombs that are still needed.
func standing(tombs map[job.ID]tomb) map[job.ID]tomb {
	var newest cluster.HLC
	for _, t := range tombs {
		newest = max(newest, t.hlc)
	}
	out := make(map[job.ID]tomb)
	for id, t := range tombs {
		if newest.Time().Sub(t.hlc.Time()) <= tombTime {
			out[id] = t
		}
	}
	return out
}

// Expired returns at most limit jobs that ended before and are to be forgotten
// by now, sorted.
func (s *State) Expired(now cluster.HLC, limit int) []job.ID {
	var out []job.ID
	for id, j := range s.jobs {
		if j.known && !j.doneAt.isZero() && j.doneAt.hlc.Time().Add(j.spec.Keep()).Before(now.Time()) {
			out = append(out, id)
		}
	}
	slices.Sort(out)
	return out[:min(len(out), limit)]
}

func encodeTombs(e *encoder, tombs map[job.ID]tomb) {
	e.count(len(tombs))
	for _, id := range slices.SortedFunc(maps.Keys(tombs), func(a, b job.ID) int { return strings.Compare(string(a), string(b)) }) {
		e.text(string(id))
		e.key(tombs[id])
	}
}

func (d *decoder) tombs(s *State) {
	for n := d.count(); n > 0 && d.err == nil; n-- {
		id := job.ID(d.text(maxJobIDLen))
		t := d.key()
		d.check(id != "", "forgotten job")
		if j, ok := s.jobs[id]; ok {
			d.check(!j.known || !j.top.less(t), "forgotten job")
		}
		s.tombs[id] = t
	}
}
