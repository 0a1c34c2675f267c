package snapshots

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/eventlog/disk"
	"github.com/skein-project/skein/eventlog/segment"
	"github.com/skein-project/skein/eventlog/snapshot"
	"github.com/skein-project/skein/eventlog/store"
)

// maxDropped bounds how many segments are dropped at once.
const maxDropped = 16

// old is a segment that a snapshot makes superfluous.
type old struct {
	d     snapshot.Dropped
	path  string
	until time.Time // its last event is no younger
}

// compactor drops the segments that snapshots make superfluous.
type compactor struct {
	o       *Options
	m       *metrics
	log     zerolog.Logger
	catalog *catalog
	ledger  *ledger

	// files is held for writing while files of the log are being dropped, and
	// for reading by those who walk them.
	files       sync.RWMutex
	reclaimable atomic.Int64
}

// superfluous lists the full segments that lie below the older kept snapshot,
// those of each chain in order. The last segment of a chain always stays.
func (c *compactor) superfluous() []old {
	kept := c.catalog.all()
	if len(kept) < keepSnapshots {
		return nil // the one could be damaged
	}
	t := kept[0]
	var out []old
	for _, h := range c.o.Store.Ends() {
		limit := snapshot.HeadOf(t, h.Source).Seq
		segs := c.o.Store.Segments(h.Source)
		for i, seg := range segs {
			if i == len(segs)-1 || seg.Last > limit || !seg.Sealed {
				break
			}
			out = append(out, old{path: seg.Path, d: snapshot.Dropped{
				Source: seg.Source, First: seg.First, Last: seg.Last, Prev: seg.Prev, Hash: seg.Hash, Size: seg.Size, Snapshot: t.ID,
			}})
		}
	}
	return out
}

// run drops the oldest superfluous segments as long as the log is larger than it
// need be, or its disk is short of room. In this order, each durable before the
// next: the copy in the archive, the manifest, the removal. After a crash Open
// finishes what the manifest says.
func (c *compactor) run(ctx context.Context) error {
	segs := c.superfluous()
	var bytes int64
	for _, o := range segs {
		bytes += o.d.Size
	}
	c.m.reclaimable.Set(float64(bytes))
	c.reclaimable.Store(bytes)
	excess := c.o.Store.Size() - c.o.RetainBytes
	if c.o.Room.Report().State != disk.OK {
		excess = max(excess, 1) // one at a time, until there is room
	}
	if c.o.RetainBytes < 0 || excess <= 0 || len(segs) == 0 {
		return nil
	}
	if !c.files.TryLock() {
		return nil // somebody reads all files; the next time
	}
	defer c.files.Unlock()
	drop, err := c.choose(segs, excess)
	if err != nil || len(drop) == 0 {
		return err
	}
	if err := c.drop(ctx, drop); err != nil {
		return err
	}
	if len(drop) == maxDropped {
		c.catalog.poke() // there may be more
	}
	return nil
}

// choose returns what to drop of segs: the oldest, of each chain in order, none
// that is younger than it need be.
func (c *compactor) choose(segs []old, excess int64) ([]old, error) {
	for i := range segs {
		var err error
		if segs[i].until, err = c.lastTime(segs[i].d); err != nil {
			return nil, err
		}
	}
	slices.SortStableFunc(segs, func(a, b old) int { return a.until.Compare(b.until) })
	limit := c.o.Wall().Add(-c.o.RetainAge)
	var out []old
	for _, o := range segs {
		if excess <= 0 || len(out) == maxDropped || o.until.After(limit) {
			break
		}
		out = append(out, o)
		excess -= o.d.Size
	}
	return out, nil
}

// lastTime returns a time that no event of a segment is younger than: that of
// the event after it.
func (c *compactor) lastTime(d snapshot.Dropped) (time.Time, error) {
	for e, err := range c.o.Store.Read(d.Source, d.Last+1) {
		return e.HLC.Time(), err
	}
	return time.Time{}, nil // the next segment has no events yet
}

func (c *compactor) drop(ctx context.Context, segs []old) error {
	bases := map[event.SourceID]event.Mark{}
	var dropped []snapshot.Dropped
	p := pacer{ctx: ctx, began: time.Now()}
	for _, o := range segs {
		d := o.d
		var err error
		if d.Sum, err = disk.Sum(ctx, c.o.FS, o.path, d.Size, p.rest); err != nil {
			return err
		}
		if dir := c.o.ArchiveDir; dir != "" {
			if d.Archived, err = c.archive(dir, o, d.Sum); err != nil {
				return err
			}
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		dropped = append(dropped, d)
		if d.Last > bases[d.Source].Seq {
			bases[d.Source] = event.Mark{Seq: d.Last, Hash: d.Hash}
		}
	}
	if err := c.ledger.record(bases, dropped); err != nil {
		return err
	}
	err := c.o.Log.Exclusive(ctx, func(w *store.Writer) (refused, failed error) {
		w.Trim(bases)
		return nil, nil
	})
	if err != nil {
		return err
	}
	dirs := map[string]bool{}
	for _, o := range segs {
		if err := c.o.FS.Remove(o.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("drop %s: %w", o.path, err)
		}
		dirs[filepath.Dir(o.path)] = true
		c.m.dropped.WithLabelValues("segments").Inc()
		c.m.dropped.WithLabelValues("bytes").Add(float64(o.d.Size))
	}
	for dir := range dirs {
		if err := c.o.FS.SyncDir(dir); err != nil {
			return err
		}
	}
	c.m.done.WithLabelValues("compact", "ok").Inc()
	c.log.Info().Int("segments", len(segs)).Msg("segments below a snapshot dropped")
	return nil
}

// archive copies a segment to dir, durably, under the name of its source, and
// reads it back. It returns the path of the copy.
func (c *compactor) archive(dir string, o old, sum cluster.Hash) (string, error) {
	to := filepath.Join(dir, segment.SourceDir(o.d.Source))
	if err := c.o.FS.MkdirAll(to, 0o700); err != nil {
		return "", fmt.Errorf("archive: %w", err)
	}
	if err := c.o.FS.SyncDir(dir); err != nil {
		return "", fmt.Errorf("archive: %w", err)
	}
	path := filepath.Join(to, filepath.Base(o.path))
	if have, err := disk.Sum(context.Background(), c.o.FS, path, o.d.Size, nil); err == nil && have == sum {
		return path, nil // from an attempt that a crash ended
	}
	b, err := disk.ReadFile(c.o.FS, o.path, 1<<31)
	if err != nil {
		return "", fmt.Errorf("archive: %w", err)
	}
	if err := disk.WriteFile(c.o.FS, path, b); err != nil {
		return "", fmt.Errorf("archive: %w", err)
	}
	have, err := disk.Sum(context.Background(), c.o.FS, path, o.d.Size, nil)
	if err == nil && have != sum {
		err = fmt.Errorf("SHA-256 %s, want %s", have, sum)
	}
	if err != nil {
		return "", fmt.Errorf("archive: read back %s: %w", path, err)
	}
	return path, nil
}
