package store

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"

	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/eventlog/disk"
	"github.com/skein-project/skein/eventlog/record"
	"github.com/skein-project/skein/eventlog/segment"
	"github.com/skein-project/skein/eventlog/wire"
	"github.com/skein-project/skein/internal/durable"
)

// Open locks the directory and reads the proofs in it. The chains are not there
// before Recover.
func Open(o Options) (*Store, *Writer, error) {
	m, err := newMetrics(o.Registerer)
	if err != nil {
		return nil, nil, err
	}
	if err := o.FS.MkdirAll(o.Dir, 0o700); err != nil {
		return nil, nil, fmt.Errorf("create event log: %w", err)
	}
	lock, err := durable.Lock(o.Dir)
	if err != nil {
		return nil, nil, fmt.Errorf("open event log: %w", err)
	}
	s := &Store{
		o: o, m: m, log: o.Logger.With().Str("component", "eventlog").Logger(), lock: lock,
		chains: map[event.SourceID]*chain{}, forks: map[event.SourceID]wire.Fork{},
		changes: changes{ch: make(chan struct{})},
	}
	forks, err := LoadForks(o.Dir, o.Cluster, s.KeyOf)
	if err != nil {
		s.log.Error().Err(err).Msg("proof of equivocation unreadable; the other hosts have it")
	}
	for _, f := range forks {
		s.forks[f.Source] = f
	}
	return s, &Writer{s: s, fresh: map[event.SourceID]*chain{}}, nil
}

// Recovery says how to recover the chains.
type Recovery struct {
	Sources []event.SourceID // the chains to recover
	Base    Base
	// Load takes the events of one group. They are valid longer than the slice.
	Load func([]event.Event)
	// Damaged are chains whose ends were lost to a repair.
	Damaged []Damaged
	// Check, if not nil, says whether the log can go on from the chains as they were
	// read.
	Check func() error
}

// Damaged is an own chain that a repair has cut off after Kept, and why if it was
// not damaged.
type Damaged struct {
	Source event.SourceID
	Kept   uint64
	Reason string
}

// Recover reads all chains and gives the events to r.Load; then it repairs the
// ends of interrupted writes. A *segment.CorruptError means that the disk lost something that
// was durable, or that r.Check refuses what is left; then nothing was changed. It
// returns how many events there are.
func (w *Writer) Recover(r Recovery) (events uint64, err error) {
	s := w.s
	s.base = r.Base
	if err := w.marks.load(s.o.FS, s.o.Dir); err != nil {
		return 0, err
	}
	own := event.SourceID{Node: s.o.Self, Inc: s.o.Incarnation}
	rec := &recovering{w: w, load: r.Load}
	for _, src := range w.marks.with(r.Sources) {
		c, err := rec.recoverChain(src)
		if err != nil {
			return 0, err
		}
		if c.head.Seq > 0 {
			s.chains[src] = c
		} else if len(c.segs) > 0 {
			w.fresh[src] = c // a header and nothing else
		}
		events += c.head.Seq - c.floor.Seq
		for _, seg := range c.segs {
			s.m.size.Add(float64(seg.size))
		}
		w.Advance(c.hlc)
		if src.Node == s.o.Self && src.Inc > own.Inc {
			own = src
		}
	}
	if c, h := s.chains[own], s.base.Head(own); h.Seq > 0 && (c == nil || c.head.Seq < h.Seq) {
		kept := uint64(0)
		if c != nil {
			kept = c.head.Seq
		}
		r.Damaged = append(r.Damaged, Damaged{Source: own, Kept: kept}) // a snapshot tells of more
	}
	reason := "opened as a new incarnation"
	for _, d := range r.Damaged {
		if d.Source.Inc >= own.Inc { // nobody knows what the lost part said
			own.Inc = d.Source.Inc + 1
			reason = cmp.Or(d.Reason, fmt.Sprintf("%s was damaged after seq %d", d.Source, d.Kept))
		}
	}
	switch {
	case s.chains[own] != nil:
		s.own = s.chains[own]
	case w.fresh[own] != nil:
		s.own = w.fresh[own]
		delete(w.fresh, own)
	default:
		s.own = w.newChain(own)
		w.link = w.linkTo(own, r.Damaged, reason)
	}
	s.m.records.Add(float64(events))
	s.m.sources.Set(float64(len(s.chains)))
	if r.Check != nil {
		if err := r.Check(); err != nil {
			return 0, err
		}
	}
	if err := rec.finish(); err != nil {
		return events, err
	}
	return events, w.marks.begin(s)
}

// linkTo returns how a new own chain begins if this host had one before.
func (w *Writer) linkTo(own event.SourceID, damaged []Damaged, reason string) *event.Incarnation {
	var link *event.Incarnation
	for _, c := range w.s.chains {
		if c.src.Node == own.Node && c.src.Inc < own.Inc && (link == nil || link.Previous.Source.Inc < c.src.Inc) {
			link = &event.Incarnation{
				Previous: event.SourceMark{Source: c.src, Mark: event.Mark{Seq: c.head.Seq, Hash: c.head.Hash}},
				Reason:   reason,
			}
		}
	}
	for _, d := range damaged {
		if link == nil {
			link = &event.Incarnation{Previous: event.SourceMark{Source: d.Source}, Reason: reason}
		}
	}
	return link
}

// recovering reads chains from the disk and makes their ends sound.
type recovering struct {
	w    *Writer
	load func([]event.Event) // takes the events of one group
	// later are the changes to the disk. They wait until everything was read, so
	// that a log which is refused stays as it was.
	later []func() error
}

// finish makes the changes that reading found to be due.
func (r *recovering) finish() error {
	for _, change := range r.later {
		if err := change(); err != nil {
			return err
		}
	}
	r.later = nil
	return nil
}

// recoverChain reads one chain and gives its events to load.
func (r *recovering) recoverChain(src event.SourceID) (*chain, error) {
	s := r.w.s
	c := r.w.newChain(src)
	c.floor = s.base.Floor(src)
	c.tail, c.head = c.floor, event.Head{Source: src, Seq: c.floor.Seq, Hash: c.floor.Hash}
	firsts, err := r.keptSegments(c)
	if err != nil {
		return nil, err
	}
	for i, first := range firsts {
		if i < len(firsts)-1 && s.base.Head(src).Seq >= firsts[i+1]-1 {
			if ok, err := r.recoverSealed(c, first, firsts[i+1]); err != nil {
				return nil, err
			} else if ok {
				continue
			}
		}
		if err := r.recoverSegment(c, first, i == len(firsts)-1); err != nil {
			return nil, err
		}
	}
	r.join(c)
	if known := r.knownSeq(src); c.tail.Seq < known {
		return nil, &segment.CorruptError{
			Segment: filepath.Join(c.dir, segment.Name(c.tail.Seq+1)), Source: src, Seq: c.tail.Seq + 1, Own: src.Node == s.o.Self,
			Reason: fmt.Sprintf("missing: the chain was durable up to seq %d", known),
		}
	}
	return c, r.checkEnd(c)
}

// join completes a recovered chain by what the snapshot says of it. A chain that
// ends below the cut stays as it is: the state holds what is missing, and the
// other hosts are asked for it.
func (r *recovering) join(c *chain) {
	switch h := r.w.s.base.Head(c.src); {
	case h.Seq == 0:
	case c.tail.Seq < h.Seq:
		r.w.s.log.Warn().Str("source", c.src.String()).Uint64("seq", c.tail.Seq).Uint64("snapshot_seq", h.Seq).
			Msg("chain ends below the snapshot; what is missing is fetched")
	case c.tail.Seq == h.Seq && len(c.head.Sig) == 0: // no group of its own is here
		c.head = h
	}
}

// knownSeq is a seq up to which the chain of src was durable and was not dropped,
// 0 if none is known.
func (r *recovering) knownSeq(src event.SourceID) uint64 {
	if seq := r.w.marks.seq(src); seq > r.w.s.base.Floor(src).Seq {
		return seq
	}
	return 0
}

// checkEnd verifies the head at the end of a recovered chain. Of a chain of which
// only its beginning is known, or that forks, nobody signed it.
func (r *recovering) checkEnd(c *chain) error {
	key := r.w.s.KeyOf(c.src.Node)
	if key == nil || len(c.head.Sig) == 0 {
		return nil
	}
	err := record.VerifyHead(r.w.s.o.Cluster, c.head, key)
	if err == nil {
		return nil
	}
	var seg file // none: the head is the snapshot's
	if last := c.last(); last != nil {
		seg = *last
	}
	return &segment.CorruptError{
		Segment: seg.path, Offset: seg.size, Source: c.src, Seq: c.head.Seq, Own: c.src.Node == r.w.s.o.Self,
		Reason: "last " + err.Error() + " with the identity key of " + string(c.src.Node),
	}
}

// keptSegments lists the segments of a chain beyond its floor. Those below are
// left over from dropping them: that is finished later.
func (r *recovering) keptSegments(c *chain) ([]uint64, error) {
	s := r.w.s
	firsts, err := segment.Files(s.o.FS, c.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // only the watermark or a snapshot knows the chain
	}
	if err != nil {
		return nil, err
	}
	n := 0
	for n < len(firsts) && firsts[n] <= c.floor.Seq {
		n++
	}
	if n > 0 {
		r.later = append(r.later, func() error { return s.dropSegments(c, firsts[:n]) })
	}
	return firsts[n:], nil
}

// dropSegments removes segments that the manifest says are dropped.
func (s *Store) dropSegments(c *chain, firsts []uint64) error {
	for _, first := range firsts {
		path := filepath.Join(c.dir, segment.Name(first))
		if err := s.o.FS.Remove(path); err != nil {
			return fmt.Errorf("drop %s: %w", path, err)
		}
	}
	s.log.Info().Str("source", c.src.String()).Int("segments", len(firsts)).Msg("dropping of segments finished")
	return s.o.FS.SyncDir(c.dir)
}

// recoverSealed takes in a segment whose events a snapshot holds, by its header
// and its seal alone: what stands between them is read when somebody asks for
// it, and by Verify. ok is false if there is something to find out about it.
func (r *recovering) recoverSealed(c *chain, first, next uint64) (ok bool, err error) {
	path := filepath.Join(c.dir, segment.Name(first))
	f, err := r.w.s.o.FS.OpenFile(path, os.O_RDONLY, 0)
	if err != nil {
		return false, fmt.Errorf("open segment: %w", err)
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return false, err
	}
	begin, h, err := segment.ReadHeader(f, size)
	if err != nil || h != (record.Header{Cluster: r.w.s.o.Cluster, Source: c.src, First: first, Prev: c.tail.Hash}) || first != c.tail.Seq+1 {
		return false, nil //nolint:nilerr // the whole scan names the fault
	}
	seal, err := segment.ReadSeal(f, size)
	if err != nil || seal.Last != next-1 {
		return false, nil //nolint:nilerr // the whole scan names the fault
	}
	if h := r.w.s.base.Head(c.src); h.Seq == seal.Last && h.Hash != seal.Hash {
		return false, nil
	}
	c.segs = append(c.segs, &file{
		path: path, first: first, prev: c.tail.Hash, size: size, sealed: true,
		index: segment.Index{{Seq: first, Off: begin}},
	})
	c.tail = event.Mark{Seq: seal.Last, Hash: seal.Hash}
	return true, nil
}

func (r *recovering) recoverSegment(c *chain, first uint64, last bool) error {
	path := filepath.Join(c.dir, segment.Name(first))
	own := c.src.Node == r.w.s.o.Self
	if first != c.tail.Seq+1 {
		return &segment.CorruptError{
			Segment: path, Source: c.src, Seq: c.tail.Seq + 1, Own: own,
			Reason: fmt.Sprintf("segment starts at seq %d: the one before it is missing", first),
		}
	}
	f, err := r.w.s.o.FS.OpenFile(path, os.O_RDONLY, 0)
	if err != nil {
		return fmt.Errorf("open segment: %w", err)
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return err
	}
	s := &segment.Scan{
		ScanOptions: segment.ScanOptions{
			Path: path, Cluster: r.w.s.o.Cluster, Source: c.src, Own: own, First: first, Last: last, Known: r.knownSeq(c.src),
			Commit: func(g segment.Group) error {
				c.head = g.Head
				r.load(g.Events)
				return r.agrees(path, c.src, g.Events)
			},
		},
		Tail: c.tail, Clock: c.hlc,
	}
	prev := c.tail.Hash
	if err := s.Run(f, size); err != nil {
		return err
	}
	c.tail, c.hlc = s.Tail, s.Clock
	if s.NoHeader {
		r.later = append(r.later, func() error { return r.dropSegment(c, s) })
		return nil
	}
	if last {
		r.later = append(r.later, func() error { return r.repairTail(s, size) })
	}
	c.segs = append(c.segs, &file{path: path, first: first, prev: prev, size: s.End, sealed: s.Sealed, index: s.Index})
	return nil
}

// agrees reports events that contradict the snapshot.
func (r *recovering) agrees(path string, src event.SourceID, events []event.Event) error {
	h := r.w.s.base.Head(src)
	if len(events) == 0 || h.Seq < events[0].Seq || h.Seq > events[len(events)-1].Seq {
		return nil
	}
	if e := events[h.Seq-events[0].Seq]; e.Hash != h.Hash {
		return &segment.CorruptError{
			Segment: path, Source: src, Seq: e.Seq, Own: src.Node == r.w.s.o.Self,
			Reason: fmt.Sprintf("the snapshot names hash %s for this event, whose hash is %s", h.Hash, e.Hash),
		}
	}
	return nil
}

// repairTail cuts off what an interrupted write left, and makes durable what
// the last process may have written without syncing it. The last group is
// written once more: after a sync that failed the kernel may hold it and
// believe that it is on the disk.
func (r *recovering) repairTail(s *segment.Scan, size int64) error {
	f, err := r.w.s.o.FS.OpenFile(s.Path, os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("open segment: %w", err)
	}
	defer f.Close()
	if s.Torn > 0 || s.Sealed && size > s.End {
		if err := f.Truncate(s.End); err != nil {
			return fmt.Errorf("truncate torn tail of %s: %w", s.Path, err)
		}
	}
	last, err := disk.ReadRange(f, s.LastGroup, s.End)
	if err != nil {
		return disk.ReadError(s.Path, err)
	}
	if err := disk.WriteAt(f, last, s.LastGroup, s.Path); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return fmt.Errorf("sync %s: %w", s.Path, err)
	}
	if s.Torn > 0 {
		r.w.s.m.truncated.Inc()
		r.w.s.log.Warn().Str("segment", s.Path).Int64("offset", s.End).Int64("bytes", s.Torn).
			Uint64("seq", s.Tail.Seq).Msg("torn tail truncated")
	}
	return nil
}

// dropSegment removes a last segment whose creation was interrupted.
func (r *recovering) dropSegment(c *chain, s *segment.Scan) error {
	if err := r.w.s.o.FS.Remove(s.Path); err != nil {
		return fmt.Errorf("remove torn segment: %w", err)
	}
	if err := r.w.s.o.FS.SyncDir(c.dir); err != nil {
		return err
	}
	r.w.s.m.truncated.Inc()
	r.w.s.log.Warn().Str("segment", s.Path).Int64("bytes", s.Torn).Msg("torn new segment removed")
	return nil
}

// Rescan reads again, after an I/O error, the chains of which something was
// being written, and makes their ends durable. It returns the events that turn
// out to have survived; replace shows them to readers. load gets all events that
// were read. A *segment.CorruptError says that the disk lost what was durable.
func (w *Writer) Rescan(load func([]event.Event)) (found []event.Event, replace func(), err error) {
	_ = w.closeFiles() // the errors that they could still report are known
	var again []*chain
	for c := range w.interrupted() {
		n, events, err := w.rescan(c, load)
		if err != nil {
			return nil, nil, fmt.Errorf("recover %s after an i/o error: %w", c.src, err)
		}
		again, found = append(again, n), append(found, events...)
	}
	return found, func() {
		for _, n := range again {
			w.replace(n)
		}
		w.s.mu.Lock()
		w.s.digest = nil
		w.s.m.durable.Set(float64(w.s.own.head.Seq))
		w.s.mu.Unlock()
	}, nil
}

// all yields every chain, the own one too if it is new.
func (w *Writer) all() iter.Seq[*chain] {
	return func(yield func(*chain) bool) {
		seen := false
		for _, m := range []map[event.SourceID]*chain{w.s.chains, w.fresh} {
			for _, c := range m {
				seen = seen || c == w.s.own
				if !yield(c) {
					return
				}
			}
		}
		if w.s.own != nil && !seen {
			yield(w.s.own)
		}
	}
}

// interrupted yields the chains that have a group staged or in flight, which
// was being written when the error came.
func (w *Writer) interrupted() iter.Seq[*chain] {
	return func(yield func(*chain) bool) {
		for c := range w.all() {
			if len(c.buf)+len(c.flight.buf) > 0 && !yield(c) {
				return
			}
		}
	}
}

// rescan reads a chain's last segments again and returns the chain as it is on
// the disk, with the events that readers have not seen.
func (w *Writer) rescan(old *chain, load func([]event.Event)) (n *chain, found []event.Event, err error) {
	n = w.newChain(old.src)
	n.floor, n.tail, n.head = old.floor, old.floor, old.head
	if last := len(old.segs) - 1; last >= 0 {
		n.segs = slices.Clone(old.segs[:last])
		n.tail = event.Mark{Seq: old.segs[last].first - 1, Hash: old.segs[last].prev}
	}
	from := n.tail.Seq + 1
	same := old.head.Seq == n.tail.Seq
	rec := &recovering{w: w, load: func(events []event.Event) {
		for _, e := range events {
			same = same || e.Seq == old.head.Seq && e.Hash == old.head.Hash
			if e.Seq > old.head.Seq {
				found = append(found, e)
			}
		}
		load(events)
	}}
	firsts, err := segment.Files(w.s.o.FS, n.dir)
	if errors.Is(err, fs.ErrNotExist) && len(old.segs) == 0 {
		return n, nil, nil // not even the directory was made
	}
	if err != nil {
		return nil, nil, err
	}
	for i, first := range firsts {
		if first >= from {
			if err := rec.recoverSegment(n, first, i == len(firsts)-1); err != nil {
				return nil, nil, err
			}
		}
	}
	if !same {
		return nil, nil, &segment.CorruptError{
			Segment: filepath.Join(n.dir, segment.Name(from)), Source: n.src, Seq: old.head.Seq, Own: n.src.Node == w.s.o.Self,
			Reason: fmt.Sprintf("the event is no longer there; the chain was durable up to it and ends at seq %d", n.tail.Seq),
		}
	}
	if err := rec.finish(); err != nil {
		return nil, nil, err
	}
	n.hlc = max(n.hlc, old.undo.hlc)
	return n, found, rec.checkEnd(n)
}

// replace puts a chain that was read again in the place of the old one.
func (w *Writer) replace(n *chain) {
	s := w.s
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(w.fresh, n.src)
	switch {
	case n.head.Seq > 0:
		s.chains[n.src] = n
	case n.src != s.own.src && len(n.segs) > 0:
		w.fresh[n.src] = n
	}
	if n.src == s.own.src {
		s.own = n
	}
}
