package eventlog

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/eventlog/segment"
	"github.com/skein-project/skein/eventlog/snapshots"
)

// TestRecoverFromSnapshot opens a long log with and without a snapshot and
// compares the states. It prints the times.
func TestRecoverFromSnapshot(t *testing.T) {
	events := 5_000
	if os.Getenv("SKEIN_PROVE") != "" {
		events = 1_000_000
	}
	o := alone(t.TempDir())
	o.SegmentSize, o.Prealloc, o.RetainBytes = int64(events)*16, 0, -1 // about twelve segments
	l, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	var took time.Duration
	err = live(l, func(ctx context.Context) {
		check(t, begins(ctx, l))
		spec := job.Spec{Key: "k", Artefact: cluster.Hash{1}, Iterations: uint64(events), Chunk: 1}.WithDefaults()
		id := job.NewID("o", "k")
		mustAppend(t, l, event.Draft{Term: 1, Kind: event.KindJobSubmitted, Body: event.JobSubmitted{
			Job: id, Spec: spec, Owner: "o", Chunks: spec.Chunks(),
		}})
		for i := 0; i < events; i += 500 {
			var drafts []event.Draft
			for j := range 500 {
				drafts = append(drafts, event.Draft{Term: 1, Kind: event.KindChunksAssigned, Body: event.ChunksAssigned{
					Job: id, Assignments: []job.Attempt{{Chunk: i + j, Number: 1, Worker: "b"}},
				}})
			}
			mustAppend(t, l, drafts...)
		}
		started := time.Now()
		info := mustSnapshotWithin(t, l, 5*time.Minute)
		took = time.Since(started)
		if info.Events < uint64(events) {
			t.Errorf("%+v", info)
		}
		mustAppend(t, l, note(1))
	})
	check(t, err)
	want := stateHash(l)
	opens := func() time.Duration {
		started := time.Now()
		l, err := Open(o)
		check(t, err)
		defer l.Close()
		d := time.Since(started)
		if stateHash(l) != want {
			t.Fatal("another state")
		}
		return d
	}
	with := opens()
	size := l.Snapshots().Kept[0].Bytes
	check(t, os.RemoveAll(filepath.Join(o.Dir, segment.SnapshotDir)))
	without := opens()
	t.Logf("%d events: snapshot of %d bytes in %s; open with it %s, without it %s",
		events, size, took.Round(time.Millisecond), with.Round(time.Millisecond), without.Round(time.Millisecond))
}

func mustSnapshotWithin(t testing.TB, l *Log, d time.Duration) snapshots.Info {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	const actor = "uid:0@n1"
	info, err := l.TakeSnapshot(ctx, actor)
	if err != nil {
		t.Fatal(err)
	}
	if kept, _ := newestOf(t, l); kept.ID != info.ID || kept.Actor != actor {
		t.Errorf("the snapshot %s in the log does not say that %s asked for it", info.ID, actor)
	}
	return info
}
