package jobs

import (
	"slices"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/eventlog/state/canon"
)

// tally counts what happened to the attempts of a job, over all chunks and
// terms. It outlives the chunks.
type tally struct {
	attempts int // assignments made
	failures int
	reclaims int
	recent   []Failure // the latest, oldest first
	firstTry cluster.HLC
	lastDone cluster.HLC // last accept
}

func (t *tally) clone() tally {
	c := *t
	c.recent = slices.Clone(t.recent)
	return c
}

func (t *tally) assigned(at cluster.HLC) {
	t.attempts++
	if t.firstTry == 0 || at < t.firstTry {
		t.firstTry = at
	}
}

func (t *tally) accepted(at cluster.HLC) { t.lastDone = max(t.lastDone, at) }

// failed keeps the latest failures.
func (t *tally) failed(f Failure) {
	t.failures++
	i, _ := slices.BinarySearchFunc(t.recent, f, func(a, b Failure) int {
		if a.key.Less(b.key) {
			return -1
		}
		return 1
	})
	t.recent = slices.Insert(t.recent, i, f)
	if len(t.recent) > MaxFailures {
		t.recent = slices.Delete(t.recent, 0, 1)
	}
}

func (t *tally) write(w *canon.Writer) {
	for _, n := range [...]int{t.attempts, t.failures, t.reclaims} {
		w.Count(n)
	}
	w.Clock(t.firstTry)
	w.Clock(t.lastDone)
	w.Count(len(t.recent))
	for _, f := range t.recent {
		w.Key(f.key)
		w.Count(f.Chunk)
		w.Count(f.Attempt)
		w.Node(f.Worker)
		w.Text(f.Reason)
		w.Flag(f.Final)
	}
}

func (t *tally) read(r *canon.Reader) {
	t.attempts, t.failures, t.reclaims = r.Int(), r.Int(), r.Int()
	t.firstTry, t.lastDone = r.Clock(), r.Clock()
	n := r.Count()
	r.Check(n <= MaxFailures, "number of failures")
	for i := 0; i < n && r.OK(); i++ {
		at := r.Key()
		t.recent = append(t.recent, Failure{
			Chunk: r.Int(), Attempt: r.Int(), Worker: r.Node(false), Reason: r.Text(cluster.MaxReason), Final: r.Flag(),
			At: at.HLC, key: at,
		})
		r.Check(i == 0 || t.recent[i-1].key.Less(at), "order of failures")
	}
}
