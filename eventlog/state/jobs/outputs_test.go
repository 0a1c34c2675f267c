package jobs

import (
	"crypto/sha256"
	"strings"
	"testing"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/cluster/job"
)

// TestWhatChunksLeft: the files of the result that counts are those of the chunk, in
// whatever order events come, until the job is forgotten; results with other files differ.
func TestWhatChunksLeft(t *testing.T) {
	w := &writer{}
	spec := job.Spec{Key: "k", Artefact: cluster.Hash{1}, Iterations: 30, Chunk: 10}
	spec.Result, spec.Outputs, spec.Files = job.ResultNone, []string{"a", "b"}, map[string]cluster.Hash{"in": {77}}
	spec = spec.WithDefaults()
	files := func(n byte) job.Files {
		return job.Files{"a": {Hash: cluster.Hash{n}, Size: 1}, "b": {Hash: cluster.Hash{n, 1}, Size: int64(n)}}
	}
	accept := func(at cluster.HLC, chunk, attempt int, f job.Files) *event.Event {
		return w.event(at, event.KindChunkAccepted, event.ChunkAccepted{
			Job: "j", Chunk: chunk, Attempt: attempt, Worker: "w", Result: job.ChunkResult{Iterations: 10, Metrics: map[string]job.Metric{}, Outputs: f},
		})
	}
	events := []*event.Event{
		w.event(1, event.KindJobSubmitted, event.JobSubmitted{Job: "j", Spec: spec, Owner: "uid:1", Chunks: 3}),
		accept(10, 0, 1, files(10)),
		accept(11, 1, 1, files(11)),
		accept(12, 1, 2, files(12)), // another result
		accept(13, 0, 2, files(10)), // the same again
		accept(14, 2, 1, nil),       // without its files it is none
	}
	forth, back := New(), New()
	for i := range events {
		forth.Apply(events[i])
		back.Apply(events[len(events)-1-i])
	}
	manifest := strings.Join([]string{
		"0 a " + cluster.Hash{10}.String() + " 1\n", "0 b " + cluster.Hash{10, 1}.String() + " 10\n",
		"1 a " + cluster.Hash{11}.String() + " 1\n", "1 b " + cluster.Hash{11, 1}.String() + " 11\n",
	}, "")
	for name, f := range map[string]*Fold{"in order": forth, "backwards": back} {
		j, _ := f.Job("j")
		if j.Counts.Accepted != 2 || j.Disputed != 1 || f.Malformed() != 1 {
			t.Errorf("%s: %+v, %d disputed, %d malformed", name, j.Counts, j.Disputed, f.Malformed())
		}
		if want := (job.OutputSum{Manifest: sha256.Sum256([]byte(manifest)), Files: 4, Bytes: 23}); j.Outputs == nil || *j.Outputs != want {
			t.Errorf("%s: %+v, want %+v", name, j.Outputs, want)
		}
		if list := OutputsOf(f, "j"); len(list) != 4 || list[2].Chunk != 1 || list[2].Name != "a" || list[2].Hash != (cluster.Hash{11}) || list[2].Worker != "w" {
			t.Errorf("%s: %+v", name, list)
		}
		if file, ok := Output(f, "j", 1, "b"); !ok || file.Size != 11 || OutputBytes(f, "j") != 23 {
			t.Errorf("%s: %+v, %t", name, file, ok)
		}
		for _, none := range []struct {
			chunk int
			name  string
		}{{1, "c"}, {2, "a"}, {-1, "a"}} {
			if _, ok := Output(f, "j", none.chunk, none.name); ok {
				t.Errorf("%s: %+v is there", name, none)
			}
		}
		kept := f.Kept()
		if len(kept) != 5 || !kept[cluster.Hash{77}] || !kept[cluster.Hash{10, 1}] || kept[cluster.Hash{12}] {
			t.Errorf("%s: kept %v", name, kept)
		}
		own := Left(f, "uid:1", map[cluster.Hash]bool{{10}: true, {12}: true})
		if others := Left(f, "uid:2", map[cluster.Hash]bool{{10}: true}); !own[cluster.Hash{10}] || len(own) != 1 || others[cluster.Hash{10}] || len(others) != 1 {
			t.Errorf("%s: of the owner %v, of another %v", name, own, others)
		}
	}
	result, _ := forth.Result("j")
	if result.Outputs == nil || result.Validate(spec) != nil {
		t.Errorf("result %+v: %v", result.Outputs, result.Validate(spec))
	}
	forth.Apply(w.event(20, event.KindJobDone, event.JobDone{Job: "j", State: job.Partial, Result: &result}))
	if j, _ := forth.Job("j"); j.Outputs == nil || *j.Outputs != *result.Outputs || len(OutputsOf(forth, "j")) != 4 {
		t.Error("the files went with the end of the job")
	}
	if kept := forth.Kept(); len(kept) != 4 || kept[cluster.Hash{77}] {
		t.Errorf("kept behind the end: %v", kept)
	}
	forth.Apply(w.event(30, event.KindJobsForgotten, event.JobsForgotten{Jobs: []job.ID{"j"}}))
	if len(forth.Kept()) != 0 || HaveFiles(forth) {
		t.Error("files of a forgotten job are kept")
	}
}
