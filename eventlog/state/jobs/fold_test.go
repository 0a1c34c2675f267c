package jobs

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/eventlog/state/canon"
)

// writer makes the events of one chain.
type writer struct{ seq uint64 }

func (w *writer) event(hlc cluster.HLC, kind event.Kind, body any) *event.Event {
	b, err := json.Marshal(body)
	if err != nil {
		panic(err)
	}
	w.seq++
	return &event.Event{Source: event.SourceID{Node: "a", Inc: 1}, Seq: w.seq, HLC: hlc, Term: 1, Kind: kind, Body: b}
}

func (w *writer) submit(id job.ID, iterations, chunk uint64) *event.Event {
	spec := job.Spec{Key: string(id), Artefact: cluster.Hash{1}, Iterations: iterations, Chunk: chunk}.WithDefaults()
	return w.event(1, event.KindJobSubmitted, event.JobSubmitted{Job: id, Spec: spec, Owner: "uid:1", Chunks: spec.Chunks()})
}

// chunkEvent is something that may happen to a chunk of job j, which has six of
// ten iterations each.
func (w *writer) chunkEvent(rng *rand.Rand) *event.Event {
	chunk, attempt, worker := rng.IntN(6), 1+rng.IntN(3), cluster.NodeID(fmt.Sprintf("w%d", rng.IntN(3)))
	hlc := cluster.HLC(2 + rng.IntN(100))
	switch rng.IntN(6) {
	case 0, 1:
		return w.event(hlc, event.KindChunksAssigned, event.ChunksAssigned{Job: "j", Assignments: []job.Attempt{{Chunk: chunk, Number: attempt, Worker: worker}}})
	case 2:
		final := rng.IntN(2) == 0
		return w.event(hlc, event.KindChunkFailed, event.ChunkFailed{Job: "j", Chunk: chunk, Attempt: attempt, Worker: worker, Final: final, Parked: final && rng.IntN(2) == 0})
	case 3:
		return w.event(hlc, event.KindChunkReclaimed, event.ChunkReclaimed{Job: "j", Chunk: chunk, Attempt: attempt, Worker: worker})
	case 4:
		return w.event(hlc, event.KindChunksReleased, event.ChunksReleased{Job: "j", Attempt: attempt, Chunks: []job.Span{{First: chunk, Last: min(5, chunk+1)}}})
	}
	mean := float64(rng.IntN(2))
	return w.event(hlc, event.KindChunkAccepted, event.ChunkAccepted{
		Job: "j", Chunk: chunk, Attempt: attempt, Worker: worker, Seconds: float64(rng.IntN(9)), Settles: rng.IntN(5) == 0,
		Result: job.ChunkResult{Iterations: 10, Metrics: map[string]job.Metric{"x": {N: 10, Mean: mean, Min: mean - 1, Max: mean + 1, M2: 1}}},
	})
}

// counts recomputes from its chunks what a job keeps incrementally.
func counts(j *foldedJob) error {
	var count [chunkStates]int
	var iterations uint64
	var micros int64
	disputed := 0
	shares := make(map[cluster.NodeID]share)
	for i := range j.work.chunks {
		c := &j.work.chunks[i]
		count[c.state()]++
		if c.disputed {
			disputed++
		}
		if a := c.accept; a != nil {
			_, n := j.spec.ChunkRange(i)
			iterations += n
			micros += a.micros
			shares[a.worker] = share{chunks: shares[a.worker].chunks + 1, iterations: shares[a.worker].iterations + n}
		}
	}
	w := &j.work
	if count != w.count || iterations != w.iterations || micros != w.micros || disputed != w.disputed {
		return fmt.Errorf("job %s counts %v, %d iterations, %d us, %d disputed; its chunks %v, %d, %d, %d",
			j.id, w.count, w.iterations, w.micros, w.disputed, count, iterations, micros, disputed)
	}
	for worker, sh := range w.shares {
		if *sh != shares[worker] {
			return fmt.Errorf("job %s: %s has %+v, its chunks say %+v", j.id, worker, *sh, shares[worker])
		}
	}
	return nil
}

// TestCountsFollowFromTheChunks lives through random events: what is kept
// incrementally is what the chunks say, also when it is read again, and in a
// clone, which later events of the first do not change.
func TestCountsFollowFromTheChunks(t *testing.T) {
	for seed := range uint64(50) {
		rng := rand.New(rand.NewPCG(seed, 21))
		w := &writer{}
		f := New()
		submitted := w.submit("j", 60, 10)
		late := rng.IntN(20)
		for i := range 60 {
			if i == late {
				f.Apply(submitted)
			}
			f.Apply(w.chunkEvent(rng))
		}
		if err := counts(f.jobs["j"]); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if len(f.waiting) != 0 || f.Malformed() != f.jobs["j"].bad {
			t.Fatalf("seed %d: %d jobs wait, %d malformed events, the job has %d", seed, len(f.waiting), f.Malformed(), f.jobs["j"].bad)
		}
		b := written(f)
		again := New()
		r := canon.NewReader(b)
		if again.Read(r); r.Err() != nil || r.Len() != 0 {
			t.Fatalf("seed %d: %v, %d bytes are left", seed, r.Err(), r.Len())
		}
		if err := counts(again.jobs["j"]); err != nil {
			t.Fatalf("seed %d: read again: %v", seed, err)
		}
		clone := f.Clone()
		f.Apply(w.chunkEvent(rng))
		f.Apply(w.event(200, event.KindJobDone, event.JobDone{Job: "j", State: job.Failed, Result: &job.Result{}}))
		if string(written(clone)) != string(b) {
			t.Fatalf("seed %d: a clone has changed", seed)
		}
	}
}

func written(f *Fold) []byte {
	w := canon.NewWriter(nil)
	f.Write(w)
	return w.Written()
}

// What outside workers lose of a chunk uses up nothing of it, whoever goes on.
func TestOutsideLossesDoNotCount(t *testing.T) {
	w := &writer{}
	f := New()
	f.Apply(w.submit("j", 60, 10))
	outside := cluster.OutsideID([]byte("a key"))
	for i, n := range []cluster.NodeID{outside, "n1", outside, cluster.OutsideOthers} {
		try := job.Attempt{Chunk: 2, Number: i + 1, Worker: n}
		f.Apply(w.event(2, event.KindChunksAssigned, event.ChunksAssigned{Job: "j", Assignments: []job.Attempt{try}}))
		f.Apply(w.event(3, event.KindChunkReclaimed, event.ChunkReclaimed{Job: "j", Chunk: 2, Attempt: i + 1, Worker: n}))
	}
	open := f.Unfinished("j")
	if o := open[2]; o.Reclaims != 2 || o.Failed != 0 || o.Attempts != 4 || len(o.FailedOn) != 3 {
		t.Errorf("%+v, want the losses of n1 and of %s", o, cluster.OutsideOthers)
	}
}

// TestGivenUp: a chunk that is given up counts for the worker that was the last to try, until
// it is released or has a result, and behind the end of its job.
func TestGivenUp(t *testing.T) {
	w := &writer{}
	f := New()
	f.Apply(w.submit("j", 60, 10))
	fail := func(chunk, attempt int, n cluster.NodeID, final bool) {
		f.Apply(w.event(2, event.KindChunkFailed, event.ChunkFailed{Job: "j", Chunk: chunk, Attempt: attempt, Worker: n, Reason: "exit 1", Final: final, Parked: chunk == 3}))
	}
	fail(0, 1, "n1", false)
	fail(0, 2, "n2", true)
	fail(1, 1, "n1", true)
	fail(2, 1, "n1", true)
	fail(2, 3, "n2", true) // another holder gave it up as well
	fail(3, 1, "n3", true)
	fail(4, 1, "n1", false)
	fail(5, 1, "n1", true)
	f.Apply(w.event(3, event.KindChunksReleased, event.ChunksReleased{Job: "j", Attempt: 1, Chunks: []job.Span{{First: 5, Last: 5}}}))
	want := []job.FailShare{{Worker: "n1", Chunks: 1}, {Worker: "n2", Chunks: 2}, {Worker: "n3", Chunks: 1}}
	j, _ := f.Job("j")
	if !slices.Equal(j.GivenUp, want) || j.Counts.Failed != 4 {
		t.Errorf("%+v of %d", j.GivenUp, j.Counts.Failed)
	}
	r, _ := f.Result("j")
	if err := r.Validate(j.Spec); err != nil || HaveGivenUp(f) {
		t.Error(err)
	}
	f.Apply(w.event(9, event.KindJobDone, event.JobDone{Job: "j", State: job.Failed, Result: &r}))
	if j, _ = f.Job("j"); !slices.Equal(j.GivenUp, want) || !HaveGivenUp(f) {
		t.Errorf("behind the end: %+v", j.GivenUp)
	}
	for _, bad := range [][]job.FailShare{{{Worker: "n1", Chunks: 5}}, {{Worker: "n1", Chunks: 2}, {Worker: "n2", Chunks: 3}}, {{Worker: "n2", Chunks: 1}, {Worker: "n1", Chunks: 1}}, {{Worker: "n1"}}, {{Chunks: 1}}} {
		if r.GivenUp = bad; r.Validate(j.Spec) == nil {
			t.Errorf("%+v is taken", bad)
		}
	}
}

// TestSealedJobForgetsItsChunks: nothing is kept of the chunks of a job whose
// end tells the result.
func TestSealedJobForgetsItsChunks(t *testing.T) {
	w := &writer{}
	f := New()
	f.Apply(w.submit("j", 60, 10))
	rng := rand.New(rand.NewPCG(1, 22))
	for range 10 {
		f.Apply(w.chunkEvent(rng))
	}
	f.Apply(w.event(200, event.KindJobDone, event.JobDone{Job: "j", State: job.Failed, Result: &job.Result{}}))
	f.Apply(w.chunkEvent(rng))
	if !reflect.DeepEqual(f.jobs["j"].work, work{}) {
		t.Errorf("kept: %+v", f.jobs["j"].work)
	}
}

// TestEveryFieldIsEncoded fails when a type that the encoding writes field by
// field grows: then the encoding needs a new version.
func TestEveryFieldIsEncoded(t *testing.T) {
	for typ, want := range map[reflect.Type]int{
		reflect.TypeFor[job.Spec](): 13, reflect.TypeFor[job.Result](): 11, reflect.TypeFor[job.FailShare](): 2, reflect.TypeFor[job.Anomaly](): 3, reflect.TypeFor[job.Span](): 2,
		reflect.TypeFor[job.WorkShare](): 3, reflect.TypeFor[job.Metric](): 6, reflect.TypeFor[job.Sketch](): 4, reflect.TypeFor[foldedJob](): 15, reflect.TypeFor[left](): 2, reflect.TypeFor[job.File](): 2, reflect.TypeFor[job.OutputSum](): 3,
		reflect.TypeFor[tally](): 7, reflect.TypeFor[Logged](): 3, reflect.TypeFor[work](): 8, reflect.TypeFor[tree](): 3, reflect.TypeFor[tombstone](): 3,
		reflect.TypeFor[stop](): 3, reflect.TypeFor[placing](): 2, reflect.TypeFor[chunk](): 4, reflect.TypeFor[accept](): 5, reflect.TypeFor[try](): 9,
		reflect.TypeFor[Failure](): 7, reflect.TypeFor[waiting](): 2, reflect.TypeFor[Fold](): 7, /* with scratch, which means nothing */
	} {
		if typ.NumField() != want {
			t.Errorf("%s has %d fields, the encoding knows %d", typ, typ.NumField(), want)
		}
	}
}
