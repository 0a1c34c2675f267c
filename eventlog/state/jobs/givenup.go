package jobs

import (
	"slices"

	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/eventlog/state/canon"
)

// HaveGivenUp reports whether ends of jobs say on which workers chunks were given up, which
// older versions of the bytes have no place for.
func HaveGivenUp(f *Fold) bool {
	for _, j := range f.jobs {
		if j.saysGivenUp() {
			return true
		}
	}
	return false
}

func (j *foldedJob) saysGivenUp() bool { return j.sealed.V != nil && len(j.sealed.V.GivenUp) > 0 }

// WriteGivenUp writes what ends of jobs say of that.
func WriteGivenUp(f *Fold, w *canon.Writer) {
	list := slices.DeleteFunc(f.byID(), func(j *foldedJob) bool { return !j.saysGivenUp() })
	w.Count(len(list))
	for _, j := range list {
		w.Text(string(j.id))
		w.Count(len(j.sealed.V.GivenUp))
		for _, sh := range j.sealed.V.GivenUp {
			w.Node(sh.Worker)
			w.Count(sh.Chunks)
		}
	}
}

// ReadGivenUp reads what WriteGivenUp wrote, of jobs that Read has read.
func ReadGivenUp(f *Fold, r *canon.Reader) {
	for n := r.Count(); n > 0 && r.OK(); n-- {
		j, ok := f.jobs[job.ID(r.Text(maxJobIDLen))]
		r.Check(ok && j.sealed.V != nil && !j.saysGivenUp(), "job with chunks given up")
		if !r.OK() {
			return
		}
		for k := r.Count(); k > 0 && r.OK(); k-- {
			j.sealed.V.GivenUp = append(j.sealed.V.GivenUp, job.FailShare{Worker: r.Node(false), Chunks: r.Int()})
		}
		r.Check(j.saysGivenUp() && j.sealed.V.Validate(j.spec) == nil, "chunks given up")
	}
}
