package pace

import (
	"math"
	"slices"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/job"
)

// Bounds of what is remembered of rates, and of exclusions.
const (
	// BadInARow is after how many failures a worker is left out.
	BadInARow = 3
	// MinSeconds and MaxSeconds bound what a worker says of its run times.
	MinSeconds = 1e-6
	MaxSeconds = 1e6

	maxKinds     = 1024 // kinds of work
	maxRates     = 32   // kinds of work per worker
	firstExclude = 10 * time.Second
	lastExclude  = 10 * time.Minute
	// unknownTime is what a chunk of a kind is taken to need until one was
	// measured.
	unknownTime = 10 * time.Second
	// smooth is the weight of the latest measure in a rate.
	smooth = 0.2
)

// key names work that is measured together: iterations of other modules or
// with another configuration tell nothing.
type key struct {
	needs            string
	artefact, config cluster.Hash
}

func keyOf(spec job.Spec) key {
	return key{needs: spec.Needs(), artefact: spec.Artefact, config: spec.Config}
}

// Kind is what is known of one kind of work.
type Kind struct {
	key      key
	jobs     int     // open ones
	rate     float64 // iterations per second of one slot of an average worker; 0: not measured
	used     uint64  // order of use
	excluded []*Worker
}

// Measured reports that a chunk of it was measured.
func (k *Kind) Measured() bool { return k.rate > 0 }

// Typical is the time that n iterations take in one slot of an average worker,
// where a chunk has that many.
func (k *Kind) Typical(n, chunk uint64) time.Duration {
	if k.rate > 0 {
		return secondsOf(float64(n) / k.rate)
	}
	return secondsOf(unknownTime.Seconds() * float64(n) / float64(chunk))
}

// LeftOut are the workers that were left out of this kind of work and had no
// success since; Worker.LeftOut tells which still are. The caller must not
// change the slice.
func (k *Kind) LeftOut() []*Worker { return k.excluded }

func (k *Kind) readmit(w *Worker) {
	k.excluded = slices.DeleteFunc(k.excluded, func(o *Worker) bool { return o == w })
}

// secondsOf bounds a time so that sums of many stay in range.
func secondsOf(s float64) time.Duration {
	return time.Duration(min(max(s, MinSeconds), MaxSeconds) * 1e9)
}

// Kinds is all kinds of work that are remembered. NewKinds makes it.
type Kinds struct {
	known map[key]*Kind
	uses  uint64
}

// NewKinds returns no kinds.
func NewKinds() *Kinds { return &Kinds{known: make(map[key]*Kind)} }

// Open returns the kind of a job that begins. Of too many, one that no job has
// and that was used longest ago is forgotten: the caller has every worker
// Forget it.
func (t *Kinds) Open(spec job.Spec) (k, forgotten *Kind) {
	key := keyOf(spec)
	k = t.known[key]
	if k == nil {
		if len(t.known) >= maxKinds {
			forgotten = t.oldest()
		}
		if forgotten != nil {
			delete(t.known, forgotten.key)
		}
		k = &Kind{key: key}
		t.known[key] = k
	}
	t.uses++
	k.used = t.uses
	k.jobs++
	return k, forgotten
}

// Close takes in that a job of the kind ended.
func (t *Kinds) Close(k *Kind) { k.jobs-- }

// oldest is the kind that no job has and that was used longest ago, or nil.
func (t *Kinds) oldest() *Kind {
	var old *Kind
	for _, k := range t.known { // the choice does not depend on the order
		if k.jobs == 0 && (old == nil || k.used < old.used) {
			old = k
		}
	}
	return old
}

// Drop forgets a worker that is gone for good.
func (t *Kinds) Drop(w *Worker) {
	for _, k := range t.known {
		k.readmit(w)
	}
}

// Of a job that leaves the size of its chunks to the cluster.
const (
	chunksPerSlot = 4   // the last chunks of all slots end together
	chunksToStop  = 256 // if it may end early
	// leastShare of the time that a chunk should take is the least that it takes:
	// less would be lost in beginning and ending it.
	leastShare = 60
	// timeoutShare of a job's timeout is the most: chunks differ.
	timeoutShare = 4
)

// ChunkSize chooses the iterations of a chunk for a job that leaves that to the
// cluster, by the measured rate, else by the one that a trial gave, if that is not 0:
// four chunks for each of the slots, each within a sixtieth of the time that the job
// wants and all of it. It returns 0 when nothing was measured at that kind of work.
func (t *Kinds) ChunkSize(spec job.Spec, slots int, trial float64) uint64 {
	rate := trial
	if k := t.known[keyOf(spec)]; k != nil && k.rate > 0 {
		rate = k.rate
	}
	if !(rate > 0) {
		return 0
	}
	chunks := chunksPerSlot * max(1, slots)
	if spec.EarlyStop.On() {
		chunks = max(chunks, chunksToStop)
	}
	most := min(spec.ChunkTime(), spec.Timeout()/timeoutShare).Seconds()
	share := float64(spec.Iterations) / rate / float64(chunks)
	size := max(1, min(max(share, most/leastShare), most)*rate)
	least := (spec.Iterations-1)/job.MaxChunks + 1
	return min(max(uint64(min(math.Ceil(size), float64(job.MaxIterations))), least), spec.Iterations)
}
