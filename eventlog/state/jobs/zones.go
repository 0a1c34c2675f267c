package jobs

import (
	"slices"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/eventlog/state/canon"
)

// move folds in which zones what has not begun of a job runs from then on.
func (j *foldedJob) move(at canon.Key, b event.JobZones) bool {
	if b.Check() != nil {
		return false
	}
	j.zones.Set(at, b.Zones)
	return true
}

// Placed reports whether zones of jobs were chosen, or are others by now, which older
// versions of the bytes have no place for.
func Placed(f *Fold) bool {
	for _, j := range f.jobs {
		if j.spec.ZoneChoice != nil || !j.zones.At.IsZero() {
			return true
		}
	}
	return false
}

// WriteZones writes which jobs are in other zones by now.
func WriteZones(f *Fold, w *canon.Writer) {
	list := slices.DeleteFunc(f.byID(), func(j *foldedJob) bool { return j.zones.At.IsZero() })
	w.Count(len(list))
	for _, j := range list {
		w.Text(string(j.id))
		w.Key(j.zones.At)
		w.Count(len(j.zones.V))
		for _, z := range j.zones.V {
			w.Text(z)
		}
	}
}

// ReadZones reads what WriteZones wrote, of jobs that Read has read.
func ReadZones(f *Fold, r *canon.Reader) {
	for n := r.Count(); n > 0 && r.OK(); n-- {
		j, ok := f.jobs[job.ID(r.Text(maxJobIDLen))]
		b := event.JobZones{Job: "j"}
		at := r.Key()
		for k := r.Count(); k > 0 && r.OK(); k-- {
			b.Zones = append(b.Zones, r.Text(cluster.MaxZoneName))
		}
		r.Check(ok && j.zones.At.IsZero() && !at.IsZero() && b.Check() == nil, "zones of a job")
		if r.OK() {
			j.zones.Set(at, b.Zones)
		}
	}
}
