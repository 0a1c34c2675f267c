package jobs

import (
	"cmp"
	"maps"
	"slices"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/eventlog/state/canon"
)

// saves are the checkpoints of chunks that are not accepted: of each the one that goes
// furthest, of its latest attempt that saved any.
type saves map[int]Saved

// Saved is a checkpoint, and the attempt that left it.
type Saved struct {
	job.Checkpoint
	Attempt int
	Worker  cluster.NodeID

	key canon.Key
}

// after reports whether s counts and o does not.
func (s Saved) after(o Saved) bool {
	return cmp.Or(cmp.Compare(s.Attempt, o.Attempt), cmp.Compare(s.Done, o.Done), s.key.Compare(o.key)) > 0
}

// save folds a checkpoint; one of a chunk that is accepted means nothing any more.
func (j *foldedJob) save(at canon.Key, b event.ChunkCheckpointed) bool {
	if !j.spec.Checkpoint || !j.has(b.Chunk, b.Attempt) || !canon.IsNode(b.Worker, false) || b.Check() != nil {
		return false
	}
	if j.sealed.V != nil || j.work.chunks[b.Chunk].accept != nil {
		return true
	}
	s := Saved{Checkpoint: b.Checkpoint, Attempt: b.Attempt, Worker: b.Worker, key: at}
	if old, ok := j.saves[b.Chunk]; ok && !s.after(old) {
		return true
	}
	if j.saves == nil {
		j.saves = make(saves)
	}
	j.saves[b.Chunk] = s
	return true
}

// Checkpoint is from where the next attempt at a chunk goes on: none where a later attempt
// failed, which may have been for that very checkpoint.
func Checkpoint(f *Fold, id job.ID, chunk int) (Saved, bool) {
	j, ok := f.jobs[id]
	if !ok || j.ended() {
		return Saved{}, false
	}
	s, ok := j.saves[chunk]
	if !ok || slices.ContainsFunc(j.work.chunks[chunk].tries, func(t try) bool { return t.failed && t.attempt > s.Attempt }) {
		return Saved{}, false
	}
	return s, true
}

// Checkpoints are the files of all checkpoints that may be needed.
func Checkpoints(f *Fold) map[cluster.Hash]bool {
	out := make(map[cluster.Hash]bool)
	for _, j := range f.jobs {
		if !j.ended() {
			for _, s := range j.saves {
				out[s.Hash] = true
			}
		}
	}
	return out
}

// HaveCheckpoints reports whether there are jobs with checkpoints, which older versions of
// the bytes have no place for.
func HaveCheckpoints(f *Fold) bool {
	for _, j := range f.jobs {
		if j.spec.Checkpoint {
			return true
		}
	}
	return false
}

// WriteCheckpoints writes how far the open chunks are.
func WriteCheckpoints(f *Fold, w *canon.Writer) {
	list := slices.DeleteFunc(f.byID(), func(j *foldedJob) bool { return len(j.saves) == 0 })
	w.Count(len(list))
	for _, j := range list {
		w.Text(string(j.id))
		w.Count(len(j.saves))
		for _, chunk := range slices.Sorted(maps.Keys(j.saves)) {
			s := j.saves[chunk]
			w.Count(chunk)
			w.Key(s.key)
			w.Count(s.Attempt)
			w.Node(s.Worker)
			w.Raw(s.Hash[:])
			w.Num(uint64(s.Size))
			w.Num(s.Done)
		}
		w.Flush()
	}
}

// ReadCheckpoints reads what WriteCheckpoints wrote, of jobs that Read has read.
func ReadCheckpoints(f *Fold, r *canon.Reader) {
	for n := r.Count(); n > 0 && r.OK(); n-- {
		j, ok := f.jobs[job.ID(r.Text(maxJobIDLen))]
		r.Check(ok && j.spec.Checkpoint && j.sealed.V == nil && len(j.saves) == 0, "job with checkpoints")
		if !r.OK() {
			return
		}
		j.saves = make(saves)
		for n := r.Count(); n > 0 && r.OK(); n-- {
			chunk := r.Int()
			s := Saved{key: r.Key(), Attempt: r.Int(), Worker: r.Node(false)}
			s.Hash, s.Size, s.Done = r.Hash(), int64(r.Num()), r.Num()
			_, twice := j.saves[chunk]
			r.Check(!twice && j.has(chunk, s.Attempt) && s.Check() == nil && j.work.chunks[chunk].accept == nil, "checkpoint")
			if !r.OK() {
				return
			}
			j.saves[chunk] = s
		}
	}
}
