package jobs

import (
	"slices"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/eventlog/state/canon"
)

// tally counts what happened to the attempts of a job, over all chunks and
// terms. It outlives the chunks.
type tally struct {
	attempts int // assignments made
	failures int
	reclaims int
	recent   []Failure // the latest, oldest first
	logs     []Logged  // of the first failures that have one, oldest first
	firstTry cluster.HLC
	lastDone cluster.HLC // last accept
}

func (t *tally) clone() tally {
	c := *t
	c.recent, c.logs = slices.Clone(t.recent), slices.Clone(t.logs)
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

// logged keeps the first logs of failures.
func (t *tally) logged(l Logged) {
	i, _ := slices.BinarySearchFunc(t.logs, l, func(a, b Logged) int { return a.key.Compare(b.key) })
	t.logs = slices.Insert(t.logs, i, l)
	if len(t.logs) > job.MaxLogs {
		t.logs = t.logs[:job.MaxLogs]
	}
}

func (t *tally) writeLogs(w *canon.Writer) {
	w.Count(len(t.logs))
	for _, l := range t.logs {
		w.Key(l.key)
		w.Count(l.Chunk)
		w.Count(l.Number)
		w.Node(l.Worker)
		w.Raw(l.Log[:])
	}
}

func (t *tally) readLogs(r *canon.Reader, j *foldedJob) {
	n := r.Count()
	r.Check(n > 0 && n <= job.MaxLogs, "number of logs")
	for i := 0; i < n && r.OK(); i++ {
		l := Logged{key: r.Key()}
		l.Job, l.Chunk, l.Number, l.Worker, l.Log = j.id, r.Int(), r.Int(), r.Node(false), r.Hash()
		r.Check(j.has(l.Chunk, l.Number) && !l.Log.IsZero() && (i == 0 || t.logs[i-1].key.Less(l.key)), "log of a failure")
		t.logs = append(t.logs, l)
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
