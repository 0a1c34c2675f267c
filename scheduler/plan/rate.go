package plan

import (
	"slices"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/scheduler/plan/step"
)

// Bounds of what is remembered of rates, and of exclusions.
const (
	maxKinds     = 1024 // kinds of work
	maxPaces     = 32   // kinds of work per worker
	badInARow    = 3    // failures after which a worker is left out
	firstExclude = 10 * time.Second
	lastExclude  = 10 * time.Minute
	// unknownTime is what a chunk of a kind is taken to need until one was
	// measured.
	unknownTime = 10 * time.Second
)

// kindKey names work that is measured together: iterations of other modules or
// with another configuration tell nothing.
type kindKey struct {
	needs            string
	artefact, config cluster.Hash
}

// kind is what is known of one kind of work.
type kind struct {
	key      kindKey
	jobs     int
	rate     float64 // iterations per second of one slot of an average worker; 0: not measured
	good     int     // results so far
	used     uint64  // order of use
	excluded []*worker
}

// pace is what is known of one worker at one kind of work.
type pace struct {
	kind     *kind
	rate     float64 // iterations per second of one slot; 0: not measured
	bad      int     // failures since the last success
	excludes int     // times that it was left out since
	until    time.Duration
}

func (p *Plan) kindOf(spec job.Spec) *kind {
	key := kindKey{needs: spec.Needs(), artefact: spec.Artefact, config: spec.Config}
	k := p.kinds[key]
	if k == nil {
		if len(p.kinds) >= maxKinds {
			p.forgetKind()
		}
		k = &kind{key: key}
		p.kinds[key] = k
	}
	p.armed++
	k.used = p.armed
	return k
}

// forgetKind drops the kind that no job has and that was used longest ago.
func (p *Plan) forgetKind() {
	var old *kind
	for _, k := range p.kinds { // the choice does not depend on the order
		if k.jobs == 0 && (old == nil || k.used < old.used) {
			old = k
		}
	}
	if old == nil {
		return
	}
	delete(p.kinds, old.key)
	for _, w := range p.workers {
		if w != nil {
			w.kinds = slices.DeleteFunc(w.kinds, func(o pace) bool { return o.kind == old })
		}
	}
}

// pace returns what is known of w at k, the latest used first.
func (w *worker) pace(k *kind) *pace {
	for i := range w.kinds {
		if w.kinds[i].kind == k {
			return &w.kinds[i]
		}
	}
	if len(w.kinds) >= maxPaces {
		last := w.kinds[len(w.kinds)-1]
		last.kind.excluded = slices.DeleteFunc(last.kind.excluded, func(o *worker) bool { return o == w })
		w.kinds = w.kinds[:len(w.kinds)-1]
	}
	w.kinds = slices.Insert(w.kinds, 0, pace{kind: k})
	return &w.kinds[0]
}

// estimate is the time that one slot of w needs for n iterations of j: by its
// own rate, else by that of others at its speed.
func (w *worker) estimate(j *openJob, n uint64) time.Duration {
	for i := range w.kinds {
		if w.kinds[i].kind == j.kind && w.kinds[i].rate > 0 {
			return secondsOf(float64(n) / w.kinds[i].rate)
		}
	}
	d := j.typical(n)
	if w.speed > 0 {
		return secondsOf(d.Seconds() / w.speed)
	}
	return d
}

// typical is the time that n iterations of j take in one slot of an average
// worker.
func (j *openJob) typical(n uint64) time.Duration {
	if j.kind.rate > 0 {
		return secondsOf(float64(n) / j.kind.rate)
	}
	return secondsOf(unknownTime.Seconds() * float64(n) / float64(j.spec.Chunk))
}

// secondsOf bounds a time so that sums of many stay in range.
func secondsOf(s float64) time.Duration {
	return time.Duration(min(max(s, minSeconds), maxSeconds) * 1e9)
}

// measure takes in that w did n iterations of j in that time.
func (w *worker) measure(j *openJob, n uint64, seconds float64) {
	rate := float64(n) / seconds
	k, own := j.kind, w.pace(j.kind)
	if k.rate > 0 {
		blend(&w.speed, min(max(rate/k.rate, 1e-3), 1e3))
	}
	blend(&own.rate, rate)
	blend(&k.rate, rate)
	k.good++
	if own.bad > 0 || own.excludes > 0 {
		own.bad, own.excludes, own.until = 0, 0, 0
		k.excluded = slices.DeleteFunc(k.excluded, func(o *worker) bool { return o == w })
	}
}

func blend(old *float64, v float64) {
	if *old == 0 {
		*old = v
		return
	}
	*old += smooth * (v - *old)
}

// failed takes in that w failed at j. A worker at which several attempts in a
// row failed is left out for a time that doubles, as long as others are there.
func (p *Plan) failed(w *worker, j *openJob, reason string, now time.Duration) {
	own := w.pace(j.kind)
	own.bad++
	bad := own.bad
	p.place(w, now) // its window may have changed
	if bad < badInARow {
		return
	}
	d := min(lastExclude, firstExclude<<min(own.excludes, 10))
	own.bad, own.excludes, own.until = badInARow-1, own.excludes+1, now+d
	if !slices.Contains(j.kind.excluded, w) {
		j.kind.excluded = append(j.kind.excluded, w)
	}
	p.emit(step.Notice{What: step.NoticeExcluded, Worker: w.node, Job: j.id, Reason: "left out for " + d.String() + ", several attempts failed, the last: " + reason})
}

// excluded reports that w is left out of k, and forgets who no longer is.
func (w *worker) excluded(k *kind, now time.Duration) bool {
	if len(k.excluded) == 0 {
		return false
	}
	for i := range w.kinds {
		if w.kinds[i].kind == k {
			return now < w.kinds[i].until
		}
	}
	return false
}

// chunksPerSlot spreads a job: the last chunks of all slots end together.
const chunksPerSlot = 4

// ChunkSize chooses the iterations of a chunk for a job that leaves that to the
// cluster, by the measured rate: as long as the job wants, or a third of that
// where else there were fewer than four chunks for each slot. It returns 0 when
// nothing was measured at that kind of work.
func (p *Plan) ChunkSize(spec job.Spec) uint64 {
	k := p.kinds[kindKey{needs: spec.Needs(), artefact: spec.Artefact, config: spec.Config}]
	if k == nil || k.rate <= 0 {
		return 0
	}
	slots := 0
	for _, w := range p.workers {
		if w != nil && w.serves() && slices.Contains(w.executors, spec.Needs()) {
			slots += w.slots
		}
	}
	most := spec.ChunkTime().Seconds()
	share := float64(spec.Iterations) / k.rate / float64(chunksPerSlot*max(1, slots))
	size := max(1, min(max(share, most/3), most)*k.rate)
	least := (spec.Iterations-1)/job.MaxChunks + 1
	return min(max(uint64(min(size, float64(job.MaxIterations))), least), spec.Iterations)
}
