package eventlog

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/eventlog/disk"
	"github.com/skein-project/skein/eventlog/snapshots"
	"github.com/skein-project/skein/eventlog/store"
)

// TestRetention drops nothing that is young or that the log has room for, and
// drops, archived and remembered, what is too much; a reader that begins too
// early is told where it can.
func TestRetention(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*Options)
		drops  bool
	}{
		"all of it":    {func(o *Options) { o.RetainBytes = -1 }, false},
		"room":         {func(o *Options) { o.RetainBytes = 1 << 30 }, false},
		"young":        {func(o *Options) { o.RetainAge = time.Hour }, false},
		"too much":     {func(*Options) {}, true},
		"disk is full": {func(o *Options) { o.RetainBytes, o.LowWater = 1<<30, 1<<20 }, true},
	} {
		t.Run(name, func(t *testing.T) {
			o := alone(t.TempDir())
			o.ArchiveDir = t.TempDir()
			o.Free = func(string) (int64, error) { return 1 << 19, nil }
			tc.change(&o)
			l, err := Open(o)
			check(t, err)
			check(t, live(l, func(ctx context.Context) {
				check(t, begins(ctx, l))
				for i := range 3 {
					for j := range 40 {
						mustAppend(t, l, note(i*100+j))
					}
					mustSnapshot(t, l)
				}
				if tc.drops {
					eventually(t, "segments dropped", func() bool { return l.Oldest()[l.Source()] > 0 })
				} else {
					eventually(t, "looked", func() bool { return l.Snapshots().Reclaimable > 0 })
				}
			}))
			if dropped := l.Snapshots().Dropped; (dropped > 0) != tc.drops {
				t.Fatalf("%d events dropped", dropped)
			}
			m, err := snapshots.Files{FS: disk.OSFS(), Dir: o.Dir, Cluster: testCluster}.Manifest()
			check(t, err)
			for _, d := range m.Segments {
				if sum, err := disk.Sum(t.Context(), disk.OSFS(), d.Archived, d.Size, nil); err != nil || sum != d.Sum {
					t.Errorf("archived %s: %s, %v; want %s", d.Archived, sum, err, d.Sum)
				}
			}
			if (len(m.Segments) > 0) != tc.drops {
				t.Fatalf("%d segments in the manifest", len(m.Segments))
			}
			if !tc.drops {
				return
			}
			early := event.Cursor{l.Source(): 1}
			var gone *store.CompactedError
			for _, err := range l.After(t.Context(), early, store.Filter{}) {
				if !errors.As(err, &gone) || gone.Oldest[l.Source()] != l.Oldest()[l.Source()] {
					t.Fatalf("following from the beginning: %v", err)
				}
			}
			if gone == nil {
				t.Fatal("a follower from the beginning was told nothing")
			}
			check(t, os.RemoveAll(o.ArchiveDir)) // nobody needs it
			again, err := Open(o)
			check(t, err)
			defer again.Close()
			if stateHash(again) != stateHash(l) {
				t.Fatal("another state")
			}
		})
	}
}
