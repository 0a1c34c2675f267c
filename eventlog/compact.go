package eventlog

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/eventlog/snapshot"
)

// maxDropped bounds how many segments are dropped at once.
const maxDropped = 16

// old is a segment that a snapshot makes superfluous.
type old struct {
	d     snapshot.Dropped
	path  string
	until time.Time // its last event is no younger
}

// superfluous lists the full segments that lie below the older kept snapshot,
// those of each chain in order. The last segment of a chain always stays.
func (s *snapshots) superfluous() []old {
	s.mu.Lock()
	kept := slices.Clone(s.kept)
	s.mu.Unlock()
	if len(kept) < keepSnapshots {
		return nil // the one could be damaged
	}
	t := kept[0]
	s.l.mu.RLock()
	defer s.l.mu.RUnlock()
	var out []old
	for src, c := range s.l.chains {
		limit := snapshot.HeadOf(t, src).Seq
		for i := range len(c.segs) - 1 {
			seg, next := c.segs[i], c.segs[i+1]
			if next.first-1 > limit || !seg.sealed {
				break
			}
			out = append(out, old{path: seg.path, d: snapshot.Dropped{
				Source: src, First: seg.first, Last: next.first - 1, Prev: seg.prev, Hash: next.prev, Size: seg.size, Snapshot: t.ID,
			}})
		}
	}
	return out
}

// compact drops the oldest superfluous segments as long as the log is larger
// than it need be, or its disk is short of room. In this order, each durable before the next: the copy in the
// archive, the manifest, the removal. After a crash Open finishes what the
// manifest says.
func (s *snapshots) compact(ctx context.Context) error {
	segs := s.superfluous()
	var bytes int64
	for _, o := range segs {
		bytes += o.d.Size
	}
	s.m.reclaimable.Set(float64(bytes))
	s.reclaimable.Store(bytes)
	excess := s.l.Size() - s.l.o.RetainBytes
	if s.l.Disk().State != DiskOK {
		excess = max(excess, 1) // one at a time, until there is room
	}
	if s.l.o.RetainBytes < 0 || excess <= 0 || len(segs) == 0 {
		return nil
	}
	if !s.files.TryLock() {
		return nil // somebody reads all files; the next time
	}
	defer s.files.Unlock()
	drop, err := s.choose(segs, excess)
	if err != nil || len(drop) == 0 {
		return err
	}
	if err := s.drop(ctx, drop); err != nil {
		return err
	}
	if len(drop) == maxDropped {
		s.poke() // there may be more
	}
	return nil
}

// choose returns what to drop of segs: the oldest, of each chain in order, none
// that is younger than it need be.
func (s *snapshots) choose(segs []old, excess int64) ([]old, error) {
	for i := range segs {
		var err error
		if segs[i].until, err = s.lastTime(segs[i].d); err != nil {
			return nil, err
		}
	}
	slices.SortStableFunc(segs, func(a, b old) int { return a.until.Compare(b.until) })
	limit := s.l.o.Wall().Add(-s.l.o.RetainAge)
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
func (s *snapshots) lastTime(d snapshot.Dropped) (time.Time, error) {
	for e, err := range s.l.Read(d.Source, d.Last+1) {
		return e.HLC.Time(), err
	}
	return time.Time{}, nil // the next segment has no events yet
}

func (s *snapshots) drop(ctx context.Context, segs []old) error {
	bases := map[cluster.SourceID]cluster.Mark{}
	var dropped []snapshot.Dropped
	p := pacer{ctx: ctx, began: time.Now()}
	for _, o := range segs {
		d := o.d
		var err error
		if d.Sum, err = sumFile(s.l.fs, o.path, d.Size, &p); err != nil {
			return err
		}
		if dir := s.l.o.ArchiveDir; dir != "" {
			if d.Archived, err = s.archive(dir, o, d.Sum); err != nil {
				return err
			}
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		dropped = append(dropped, d)
		if d.Last > bases[d.Source].Seq {
			bases[d.Source] = cluster.Mark{Seq: d.Last, Hash: d.Hash}
		}
	}
	if err := s.record(bases, dropped); err != nil {
		return err
	}
	r := &request{trim: bases, done: make(chan struct{}, 1)}
	if err := s.l.submit(ctx, r); err != nil {
		return err
	}
	dirs := map[string]bool{}
	for _, o := range segs {
		if err := s.l.fs.Remove(o.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("drop %s: %w", o.path, err)
		}
		dirs[filepath.Dir(o.path)] = true
		s.m.dropped.WithLabelValues("segments").Inc()
		s.m.dropped.WithLabelValues("bytes").Add(float64(o.d.Size))
	}
	for dir := range dirs {
		if err := s.l.fs.SyncDir(dir); err != nil {
			return err
		}
	}
	s.m.done.WithLabelValues("compact", "ok").Inc()
	s.l.log.Info().Int("segments", len(segs)).Msg("segments below a snapshot dropped")
	return nil
}

// archive copies a segment to dir, durably, under the name of its source, and
// reads it back. It returns the path of the copy.
func (s *snapshots) archive(dir string, o old, sum cluster.Hash) (string, error) {
	to := filepath.Join(dir, sourceDir(o.d.Source))
	if err := s.l.fs.MkdirAll(to, 0o700); err != nil {
		return "", fmt.Errorf("archive: %w", err)
	}
	if err := s.l.fs.SyncDir(dir); err != nil {
		return "", fmt.Errorf("archive: %w", err)
	}
	path := filepath.Join(to, filepath.Base(o.path))
	if have, err := sumFile(s.l.fs, path, o.d.Size, nil); err == nil && have == sum {
		return path, nil // from an attempt that a crash ended
	}
	b, err := readFile(s.l.fs, o.path, 1<<31)
	if err != nil {
		return "", fmt.Errorf("archive: %w", err)
	}
	if err := writeDurably(s.l.fs, path, b); err != nil {
		return "", fmt.Errorf("archive: %w", err)
	}
	have, err := sumFile(s.l.fs, path, o.d.Size, nil)
	if err == nil && have != sum {
		err = fmt.Errorf("SHA-256 %s, want %s", have, sum)
	}
	if err != nil {
		return "", fmt.Errorf("archive: read back %s: %w", path, err)
	}
	return path, nil
}

// sumFile returns the SHA-256 of a file, whose size must be as given.
func sumFile(fsys FS, path string, size int64, p *pacer) (sum cluster.Hash, err error) {
	f, err := fsys.OpenFile(path, os.O_RDONLY, 0)
	if err != nil {
		return sum, err
	}
	defer f.Close()
	have, err := f.Size()
	if err != nil {
		return sum, err
	}
	if have < size {
		return sum, fmt.Errorf("%s has %d bytes, want %d", path, have, size)
	}
	h := sha256.New()
	r := io.NewSectionReader(f, 0, size)
	buf := make([]byte, 256<<10)
	for {
		n, err := r.Read(buf)
		h.Write(buf[:n])
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return sum, fmt.Errorf("read %s: %w", path, err)
		}
		if p != nil {
			p.steps = paceSteps - 1
			if !p.pause() {
				return sum, context.Cause(p.ctx)
			}
		}
	}
	h.Sum(sum[:0])
	return sum, nil
}
