package jobs

import (
	"maps"
	"slices"
	"strings"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/eventlog/state/canon"
)

// maxJobIDLen bounds the names under which events wait.
const maxJobIDLen = 64

// Fold is what the events applied so far mean for jobs. See New.
type Fold struct {
	// What a rebuild keeps: it decides what counts, not what is.
	winners    map[job.ID]canon.Key // submission that defines the job, once disputed
	tombstones map[job.ID]tombstone // of forgotten jobs
	base       *base                // what no event can change any more; nil: nothing

	// What a rebuild begins anew.
	jobs      map[job.ID]*foldedJob // whose submission was applied
	waiting   map[job.ID]*waiting   // of the others
	malformed uint64

	scratch *event.Scratch // of reading bodies; nil: to be made
}

// waiting is what was learned of a job whose submission is still missing.
type waiting struct {
	events []event.Event
	top    canon.Key // the latest submission that does not count
}

// base is what a Fold that began with a snapshot must not change any more.
type base struct {
	jobs       map[job.ID]canon.Key // with the latest event of each
	tombstones map[job.ID]tombstone // never changed
}

// New returns the Fold of an empty log.
func New() *Fold {
	return &Fold{
		winners: make(map[job.ID]canon.Key), tombstones: make(map[job.ID]tombstone),
		jobs: make(map[job.ID]*foldedJob), waiting: make(map[job.ID]*waiting),
	}
}

// Clone returns an independent copy.
func (f *Fold) Clone() *Fold {
	c := *f
	c.scratch = nil
	c.winners, c.tombstones = maps.Clone(f.winners), maps.Clone(f.tombstones)
	c.jobs = make(map[job.ID]*foldedJob, len(f.jobs))
	for id, j := range f.jobs {
		c.jobs[id] = j.clone()
	}
	c.waiting = make(map[job.ID]*waiting, len(f.waiting))
	for id, w := range f.waiting {
		c.waiting[id] = &waiting{events: slices.Clone(w.events), top: w.top}
	}
	return &c
}

// Malformed returns how many events about jobs could not be what they say.
func (f *Fold) Malformed() uint64 { return f.malformed }

// Reconsider forgets what follows from events that may be void now. The caller
// rebuilds the Fold next.
func (f *Fold) Reconsider() {
	clear(f.winners)
	f.resetTombstones()
}

// SetBase makes what is folded so far the base.
func (f *Fold) SetBase() {
	b := &base{jobs: make(map[job.ID]canon.Key, len(f.jobs))}
	for id, j := range f.jobs {
		b.jobs[id] = j.top
	}
	f.base = b
	f.tombstones = stillNeeded(f.tombstones)
	b.tombstones = maps.Clone(f.tombstones)
}

// Rebase begins a rebuild: from the first event, or on a base, which has been
// made one by SetBase.
func (f *Fold) Rebase(on *Fold) {
	switch {
	case on != nil:
		f.winners, f.tombstones = make(map[job.ID]canon.Key), maps.Clone(on.tombstones)
	case f.base != nil:
		f.winners, f.tombstones, f.base = make(map[job.ID]canon.Key), make(map[job.ID]tombstone), nil
	}
}

// Inherit takes over what decides which events count from a pass of a rebuild
// for the next one, which begins empty or with a copy of the base.
func (f *Fold) Inherit(from *Fold) {
	f.winners, f.tombstones, f.scratch = from.winners, from.tombstones, from.scratch
	f.eraseAll()
}

// Rebuilt ends a rebuild.
func (f *Fold) Rebuilt() { clear(f.winners) } // the jobs tell the same by now

// Apply folds a live event of a job, or keeps it until the job is submitted; those
// that are about something else are ignored. It reports true when a rebuild is
// needed, and why it refused to change what the base holds.
func (f *Fold) Apply(e *event.Event) (rebuild bool, refused []string) {
	switch e.Kind {
	case event.KindJobsForgotten:
		if b, ok := read[event.JobsForgotten](f, e); ok {
			return f.forget(e, b)
		}
	case event.KindJobSubmitted:
		if b, ok := read[event.JobSubmitted](f, e); ok {
			return f.submitted(e, b)
		}
	case event.KindJobQueued:
		if b, ok := read[event.JobWaiting](f, e); ok {
			if j := f.ready(b.Job, e); j != nil {
				j.queued.First(canon.KeyOf(e), canon.Clip(b.Reason, cluster.MaxReason))
			}
		}
	case event.KindJobZones:
		if b, ok := read[event.JobZones](f, e); ok {
			if j := f.ready(b.Job, e); j != nil {
				f.note(j, j.move(canon.KeyOf(e), b))
			}
		}
	case event.KindJobStopped:
		if b, ok := read[event.JobStopped](f, e); ok {
			if j := f.ready(b.Job, e); j != nil {
				f.note(j, j.toStop(canon.KeyOf(e), b))
			}
		}
	case event.KindJobDone:
		if b, ok := read[event.JobDone](f, e); ok {
			if j := f.ready(b.Job, e); j != nil {
				f.note(j, j.finish(canon.KeyOf(e), b))
			}
		}
	case event.KindChunksAssigned:
		if b, ok := read[event.ChunksAssigned](f, e); ok {
			if j := f.ready(b.Job, e); j != nil {
				f.note(j, j.assign(e, b))
			}
		}
	case event.KindChunkFailed:
		if b, ok := read[event.ChunkFailed](f, e); ok {
			if j := f.ready(b.Job, e); j != nil {
				f.note(j, j.fail(canon.KeyOf(e), b))
			}
		}
	case event.KindChunkReclaimed:
		if b, ok := read[event.ChunkReclaimed](f, e); ok {
			if j := f.ready(b.Job, e); j != nil {
				f.note(j, j.reclaim(b))
			}
		}
	case event.KindChunkSaved:
		if b, ok := read[event.ChunkCheckpointed](f, e); ok {
			if j := f.ready(b.Job, e); j != nil {
				f.note(j, j.save(canon.KeyOf(e), b))
			}
		}
	case event.KindChunksReleased:
		if b, ok := read[event.ChunksReleased](f, e); ok {
			if j := f.ready(b.Job, e); j != nil {
				f.note(j, j.release(b))
			}
		}
	case event.KindChunkAccepted:
		if b, ok := read[event.ChunkAccepted](f, e); ok {
			if j := f.ready(b.Job, e); j != nil {
				f.note(j, j.take(canon.KeyOf(e), b))
			}
		}
	case event.KindChunksAccepted:
		if b, ok := read[event.ChunksAccepted](f, e); ok {
			if j := f.ready(b.Job, e); j != nil {
				f.note(j, j.takeAll(canon.KeyOf(e), b))
			}
		}
	}
	return false, nil
}

// submitted folds a submission; the first one defines the job.
func (f *Fold) submitted(e *event.Event, b event.JobSubmitted) (rebuild bool, refused []string) {
	if b.Job == "" || len(b.Job) > maxJobIDLen || b.Spec.Validate() != nil || b.Chunks != b.Spec.Chunks() {
		f.malformed++
		return false, nil
	}
	at := canon.KeyOf(e)
	if f.erased(b.Job, at) {
		return false, nil
	}
	j, known := f.jobs[b.Job]
	if known {
		j.top = j.top.Later(at)
	}
	if w, ok := f.winners[b.Job]; ok && w != at {
		if !known {
			lost := f.wait(b.Job)
			lost.top = lost.top.Later(at)
		}
		if at.Less(w) {
			f.winners[b.Job] = at
			return true, nil
		}
		return false, nil
	}
	switch {
	case !known:
		f.define(at, b)
	case !at.Less(j.submittedAt):
	case j.spec.Equal(b.Spec) && j.owner == b.Owner:
		j.submittedAt = at
	case f.inBase(b.Job):
		return false, []string{"another submission of job " + string(b.Job) + " counts below the base"}
	default:
		// Everything that was folded was folded into another job.
		f.winners[b.Job] = at
		return true, nil
	}
	return false, nil
}

// define makes a job of its submission and of what waited for it.
func (f *Fold) define(at canon.Key, b event.JobSubmitted) {
	j := &foldedJob{id: b.Job, spec: b.Spec, owner: b.Owner, submittedAt: at, top: at, total: b.Chunks, work: newWork(b.Chunks)}
	f.jobs[b.Job] = j
	w, ok := f.waiting[b.Job]
	if !ok {
		return
	}
	delete(f.waiting, b.Job)
	j.top = j.top.Later(w.top)
	for i := range w.events {
		f.Apply(&w.events[i])
	}
}

// read reads the body of e and counts what cannot be read.
func read[T any](f *Fold, e *event.Event) (body T, ok bool) {
	if f.scratch == nil {
		f.scratch = event.NewScratch()
	}
	if ok = event.ReadBody(&body, e, f.scratch) == nil; !ok {
		f.malformed++
	}
	return body, ok
}

// ready returns a job whose submission is known; otherwise e waits for it.
func (f *Fold) ready(id job.ID, e *event.Event) *foldedJob {
	if id == "" || len(id) > maxJobIDLen {
		f.malformed++
		return nil
	}
	at := canon.KeyOf(e)
	if f.erased(id, at) {
		return nil
	}
	if j, known := f.jobs[id]; known {
		j.top = j.top.Later(at)
		return j
	}
	p := *e
	p.Prev, p.Hash = cluster.Hash{}, cluster.Hash{}
	w := f.wait(id)
	w.events = append(w.events, p)
	return nil
}

// wait returns what is known of a job that was not submitted.
func (f *Fold) wait(id job.ID) *waiting {
	w, ok := f.waiting[id]
	if !ok {
		w = &waiting{}
		f.waiting[id] = w
	}
	return w
}

func (f *Fold) note(j *foldedJob, ok bool) {
	if !ok {
		f.malformed++
		j.bad++
	}
}

// byID are the jobs by their ids.
func (f *Fold) byID() []*foldedJob {
	return slices.SortedFunc(maps.Values(f.jobs), func(a, b *foldedJob) int { return strings.Compare(string(a.id), string(b.id)) })
}
