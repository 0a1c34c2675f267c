package left

import (
	"strings"
	"testing"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/scheduler/stream"
)

// empty is a log in which nothing is.
func empty() Log {
	return Log{
		Logged: func(job.ID) int { return 0 }, Bytes: func(job.ID) int64 { return 0 },
		Unaware: func(event.Kind) []cluster.NodeID { return nil },
	}
}

// TestLogsThatEventsName: the event of a failure names what its own attempt said, of the
// first failures of a job, and nothing while a member lives that would not fold it.
func TestLogsThatEventsName(t *testing.T) {
	old, log := false, empty()
	log.Unaware = func(kind event.Kind) []cluster.NodeID {
		if old && kind == event.LogOfFailure() {
			return []cluster.NodeID{"n9"}
		}
		return nil
	}
	r := New(log)
	name := func(heard, failed job.Attempt) cluster.Hash {
		r.Hear(heard, cluster.Hash{7})
		d := event.Draft{Body: event.ChunkFailed{Job: failed.Job, Chunk: failed.Chunk, Attempt: failed.Number, Worker: failed.Worker}}
		r.Note(&d)
		return d.Body.(event.ChunkFailed).Log
	}
	at := func(chunk int) job.Attempt { return job.Attempt{Job: "j", Chunk: chunk, Number: 1, Worker: "n1"} }
	old = true
	if !name(at(0), at(0)).IsZero() {
		t.Error("named although n9 does not know what that is")
	}
	old = false
	if !name(at(0), at(1)).IsZero() {
		t.Error("what another attempt said is named")
	}
	for i := range job.MaxLogs + 3 {
		if got := name(at(i), at(i)); got.IsZero() != (i >= job.MaxLogs) {
			t.Errorf("failure %d names %s", i, got)
		}
	}
}

// TestFilesOfAllChunksAreBounded: what the log has counts, and what this term accepted.
func TestFilesOfAllChunksAreBounded(t *testing.T) {
	log := empty()
	log.Bytes = func(job.ID) int64 { return 40 }
	r := New(log)
	spec := job.Spec{Policy: job.Policy{Outputs: []string{"f"}, OutputBytes: 100}}
	leaves := func(size int64) stream.Result {
		return stream.Result{Attempt: job.Attempt{Job: "j"}, Result: &job.ChunkResult{Outputs: job.Files{"f": {Size: size}}}}
	}
	accept := func(size int64) {
		r.Note(&event.Draft{Body: event.ChunksAccepted{Job: "j", Accepts: []event.Accept{{Result: *leaves(size).Result}}}})
	}
	if got := r.Bound(spec, leaves(60)); got.Result == nil {
		t.Errorf("what fits is refused: %s", got.Error)
	}
	accept(30)
	if got := r.Bound(spec, leaves(30)); got.Result == nil {
		t.Errorf("what fits is refused: %s", got.Error)
	}
	if got := r.Bound(spec, leaves(31)); got.Result != nil || !strings.Contains(got.Error, "31 bytes, and other chunks left 70") {
		t.Errorf("what does not fit: %+v", got)
	}
	r.Ended("j")
	if got := r.Bound(spec, leaves(60)); got.Result == nil {
		t.Errorf("the log was not asked again: %s", got.Error)
	}
}
