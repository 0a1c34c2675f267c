package eventlog

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/eventlog/record"
	"github.com/skein-project/skein/eventlog/snapshot"
	"github.com/skein-project/skein/eventlog/state"
)

// open reads the manifest and the newest sound snapshot, from which the log
// goes on. It returns the chains to recover: those of the directory, and those
// of which nothing is left but a position.
func (s *snapshots) open(dirs []cluster.SourceID) ([]cluster.SourceID, error) {
	var err error
	if s.manifest, err = s.store.manifest(); err != nil {
		return nil, err
	}
	names, unfinished, err := s.store.names()
	if err != nil {
		return nil, err
	}
	if err := s.store.remove(unfinished...); err != nil {
		return nil, err
	}
	var damaged, unread error
	for i, name := range names {
		t, st, err := s.store.load(name)
		if err != nil {
			s.m.damaged.Inc()
			s.l.log.Error().Err(err).Str("snapshot", name).Msg("snapshot damaged, an older one is used")
			damaged = errors.Join(damaged, err)
			if !isDamaged(err) {
				unread = errors.Join(unread, err)
			}
			continue
		}
		s.kept = []*cluster.SnapshotTaken{t}
		s.l.fold.st, s.l.fold.base = st, t
		s.l.fold.stale = s.applyForks(st)
		s.l.hlc = max(s.l.hlc, t.Clock)
		s.keepOlder(names[i+1:])
		break
	}
	if err := s.reaches(damaged); err != nil {
		if unread != nil {
			return nil, fmt.Errorf("open snapshots: %w", unread) // perhaps sound
		}
		return nil, err
	}
	return s.sourcesOf(dirs), nil
}

// isDamaged reports whether a snapshot was read, and is wrong.
func isDamaged(err error) bool {
	return errors.Is(err, snapshot.ErrInvalid) || errors.Is(err, state.ErrEncoding) || errors.Is(err, io.ErrUnexpectedEOF)
}

// keepOlder notes the snapshots before the newest, without their states.
func (s *snapshots) keepOlder(names []string) {
	for _, name := range names {
		if len(s.kept) >= keepSnapshots {
			return
		}
		f, t, _, err := s.store.openFile(name)
		if err != nil {
			s.l.log.Warn().Err(err).Str("snapshot", name).Msg("older snapshot damaged")
			continue
		}
		_ = f.Close() // opened for reading
		if snapshot.Covers(s.kept[0], t) {
			s.kept = append([]*cluster.SnapshotTaken{t}, s.kept...)
		}
	}
}

// reaches reports a log whose oldest events are dropped and in no snapshot.
func (s *snapshots) reaches(damaged error) error {
	t := &cluster.SnapshotTaken{}
	if n := len(s.kept); n > 0 {
		t = s.kept[n-1]
	}
	for _, b := range s.manifest.Bases {
		if h := snapshot.HeadOf(t, b.Source); h.Seq < b.Seq {
			reason := fmt.Sprintf("events up to seq %d were dropped, and no sound snapshot holds them", b.Seq)
			if damaged != nil {
				reason += ": " + damaged.Error()
			}
			return &CorruptError{Segment: s.store.path(""), Source: b.Source, Seq: b.Seq, Reason: reason, Own: b.Source.Node == s.l.o.Self}
		}
	}
	return nil
}

// keptSegments lists the segments of a chain beyond its base. Those below are
// left over from dropping them: that is finished here.
func (l *Log) keptSegments(c *chain) ([]uint64, error) {
	firsts, err := segmentFiles(l.fs, c.dir)
	if errors.Is(err, fs.ErrNotExist) && c.floor.Seq+l.snap.head(c.src).Seq > 0 {
		return nil, nil // all of it is in a snapshot
	}
	if err != nil {
		return nil, err
	}
	n := 0
	for n < len(firsts) && firsts[n] <= c.floor.Seq {
		path := filepath.Join(c.dir, segmentName(firsts[n]))
		if err := l.fs.Remove(path); err != nil {
			return nil, fmt.Errorf("drop %s: %w", path, err)
		}
		n++
	}
	if n > 0 {
		l.log.Info().Str("source", c.src.String()).Int("segments", n).Msg("dropping of segments finished")
		if err := l.fs.SyncDir(c.dir); err != nil {
			return nil, err
		}
	}
	return firsts[n:], nil
}

// head returns where the newest snapshot leaves a chain.
func (s *snapshots) head(src cluster.SourceID) cluster.Head {
	if t := s.newest(); t != nil {
		return snapshot.HeadOf(t, src)
	}
	return cluster.Head{Source: src}
}

// within reports whether the newest snapshot holds the events up to seq.
func (s *snapshots) within(src cluster.SourceID, seq uint64) bool { return seq <= s.head(src).Seq }

// recoverSealed takes in a segment whose events a snapshot holds, by its header
// and its seal alone: what stands between them is read when somebody asks for
// it, and by Verify. ok is false if there is something to find out about it.
func (l *Log) recoverSealed(c *chain, first, next uint64) (ok bool, err error) {
	path := filepath.Join(c.dir, segmentName(first))
	f, err := l.fs.OpenFile(path, os.O_RDONLY, 0)
	if err != nil {
		return false, fmt.Errorf("open segment: %w", err)
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return false, err
	}
	begin, h, err := readHeader(f, size)
	if err != nil || h != (record.Header{Cluster: l.o.Cluster, Source: c.src, First: first, Prev: c.tail.Hash}) || first != c.tail.Seq+1 {
		return false, nil //nolint:nilerr // the whole scan names the fault
	}
	seal, err := readSeal(f, size)
	if err != nil || seal.Last != next-1 {
		return false, nil //nolint:nilerr // the whole scan names the fault
	}
	if h := l.snap.head(c.src); h.Seq == seal.Last && h.Hash != seal.Hash {
		return false, nil
	}
	c.segs = append(c.segs, &segment{
		path: path, first: first, prev: c.tail.Hash, size: size, sealed: true,
		index: []indexEntry{{seq: first, off: begin}},
	})
	c.tail = cluster.Mark{Seq: seal.Last, Hash: seal.Hash}
	return true, nil
}

// readHeader reads a segment's header, and where the first group begins.
func readHeader(f io.ReaderAt, size int64) (begin int64, h record.Header, err error) {
	b, err := readAll(f, 0, min(size, headerRoom))
	if err != nil {
		return 0, h, err
	}
	if len(b) < len(record.Magic) || string(b[:len(record.Magic)]) != record.Magic {
		return 0, h, record.ErrCorrupt
	}
	fr, n, err := record.ParseFrame(b[len(record.Magic):])
	if err != nil {
		return 0, h, err
	}
	h, err = record.DecodeHeader(fr.Payload)
	return int64(len(record.Magic) + n), h, err
}

const (
	// headerRoom is more than any header takes.
	headerRoom = 1024
	// sealLen is the length of a seal's frame.
	sealLen = record.FrameHeaderLen + 1 + 8 + 32
)

// readSeal reads the frame at the very end of a sealed segment.
func readSeal(f io.ReaderAt, size int64) (record.Seal, error) {
	if size < sealLen {
		return record.Seal{}, record.ErrTorn
	}
	b, err := readAll(f, size-sealLen, size)
	if err != nil {
		return record.Seal{}, err
	}
	fr, n, err := record.ParseFrame(b)
	if err != nil {
		return record.Seal{}, err
	}
	if fr.Type != record.TypeSeal || n != sealLen {
		return record.Seal{}, record.ErrCorrupt
	}
	return record.DecodeSeal(fr.Payload)
}

// agrees reports events that contradict the snapshot.
func (s *snapshots) agrees(path string, src cluster.SourceID, events []cluster.Event) error {
	h := s.head(src)
	if len(events) == 0 || h.Seq < events[0].Seq || h.Seq > events[len(events)-1].Seq {
		return nil
	}
	if e := events[h.Seq-events[0].Seq]; e.Hash != h.Hash {
		return &CorruptError{
			Segment: path, Source: src, Seq: e.Seq, Own: src.Node == s.l.o.Self,
			Reason: fmt.Sprintf("the snapshot names hash %s for this event, whose hash is %s", h.Hash, e.Hash),
		}
	}
	return nil
}

// join completes a recovered chain by what the snapshot says of it. A chain
// that ends below goes on from the snapshot's cut: either that was decided
// before a crash, or the disk has lost its end.
func (s *snapshots) join(c *chain) error {
	h := s.head(c.src)
	if h.Seq == 0 {
		return nil
	}
	if c.tail.Seq < h.Seq {
		s.l.log.Warn().Str("source", c.src.String()).Uint64("seq", c.tail.Seq).Uint64("snapshot_seq", h.Seq).
			Msg("chain goes on from the snapshot")
		dropped, err := s.sums(c)
		if err != nil {
			return err
		}
		if err := s.record(map[cluster.SourceID]cluster.Mark{c.src: {Seq: h.Seq, Hash: h.Hash}}, dropped); err != nil {
			return err
		}
		s.l.startAt(c, h)
		return nil
	}
	if c.tail.Seq == h.Seq && len(c.head.Sig) == 0 { // no group of its own is here
		c.head = h
	}
	return nil
}

// applyForks tells st of the forks that are known.
func (s *snapshots) applyForks(st *state.State) (stale bool) {
	for _, f := range s.l.Forks() {
		stale = st.Fork(f.Source, f.Seq) || stale
	}
	return stale
}

// settle checks that what the snapshots are for is there.
func (s *snapshots) settle() error {
	for _, c := range s.l.chains {
		if c.head.Seq > 0 && len(c.head.Sig) == 0 && s.l.fold.st.Forks()[c.src] == 0 {
			return &CorruptError{
				Segment: s.store.path(""), Source: c.src, Seq: c.head.Seq, Own: c.src.Node == s.l.o.Self,
				Reason: "the chain was dropped up to here and no snapshot has its head",
			}
		}
		for _, seg := range c.segs {
			if !s.within(c.src, seg.first) {
				s.grown += seg.size
			}
		}
	}
	s.mu.Lock()
	s.noted = slices.DeleteFunc(s.noted, s.outdatedLocked)
	s.mu.Unlock()
	s.show()
	return nil
}

// record makes the manifest say that chains begin after bases, and keeps what
// identifies the segments dropped for it. It is durable when it returns.
func (s *snapshots) record(bases map[cluster.SourceID]cluster.Mark, dropped []snapshot.Dropped) error {
	m := s.manifest.With(bases, dropped)
	if err := s.store.saveManifest(m); err != nil {
		return err
	}
	s.l.mu.Lock()
	s.manifest = m
	s.l.mu.Unlock()
	return nil
}

// startAt makes a chain begin after h, with nothing before it, as the manifest
// says already. Its segments are removed; those that cannot be are for the next
// Open. Nobody else may be using the chain but readers.
func (l *Log) startAt(c *chain, h cluster.Head) {
	var errs []error
	if c.file != nil {
		errs = append(errs, c.file.Close())
		c.file = nil
	}
	for _, seg := range c.segs {
		errs = append(errs, l.fs.Remove(seg.path))
	}
	if len(c.segs) > 0 {
		errs = append(errs, l.fs.SyncDir(c.dir))
	}
	if err := errors.Join(errs...); err != nil {
		l.log.Warn().Err(err).Str("source", c.src.String()).Msg("dropped segments not removed yet")
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, seg := range c.segs {
		l.m.size.Sub(float64(seg.size))
	}
	c.segs, c.head = nil, h
	c.floor = cluster.Mark{Seq: h.Seq, Hash: h.Hash}
	c.tail, c.alloc = c.floor, 0
	l.chains[c.src] = c
	delete(l.fresh, c.src)
	l.digest = nil
}
