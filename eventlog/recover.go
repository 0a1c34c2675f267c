package eventlog

import (
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/eventlog/record"
)

// proofDir holds the evidence of equivocations.
const proofDir = "equivocation"

// sourceDirs lists the chains under dir.
func sourceDirs(fsys FS, dir string) ([]cluster.SourceID, error) {
	entries, err := fsys.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("list event log: %w", err)
	}
	var out []cluster.SourceID
	for _, e := range entries {
		if !e.IsDir() || e.Name() == proofDir || e.Name() == snapshotDir {
			continue
		}
		s, ok := parseSourceDir(e.Name())
		if !ok {
			return nil, fmt.Errorf("%s is not a source directory; the directory belongs to the event log", filepath.Join(dir, e.Name()))
		}
		out = append(out, s)
	}
	return out, nil
}

// recover reads all chains, repairs the tails of interrupted writes and folds
// the events.
func (l *Log) recover() error {
	started := time.Now()
	l.loadForks()
	sources, err := sourceDirs(l.fs, l.o.Dir)
	if err != nil {
		return err
	}
	if sources, err = l.snap.open(sources); err != nil {
		return err
	}
	if err := l.watermark.load(l.fs, l.o.Dir); err != nil {
		return err
	}
	l.disk.adopt()
	if l.repairs, err = loadRepairs(l.o.Dir); err != nil {
		return err
	}
	own := cluster.SourceID{Node: l.o.Self, Inc: l.o.Incarnation}
	var events uint64
	for _, src := range sources {
		c, err := l.recoverChain(src, l.fold.load)
		if err != nil {
			return err
		}
		if c.head.Seq > 0 {
			l.chains[src] = c
		} else if len(c.segs) > 0 {
			l.fresh[src] = c // a header and nothing else
		}
		events += c.head.Seq - c.floor.Seq
		for _, seg := range c.segs {
			l.m.size.Add(float64(seg.size))
		}
		l.hlc = max(l.hlc, c.hlc)
		if src.Node == l.o.Self && src.Inc > own.Inc {
			own = src
		}
	}
	if err := l.snap.settle(); err != nil {
		return err
	}
	l.measure()
	if err := l.refoldLocked(); err != nil { // nobody else knows the log yet
		return err
	}
	reason := "opened as a new incarnation"
	for _, r := range l.repairs {
		if r.Own && r.Source.Inc >= own.Inc { // nobody knows what the lost part said
			own.Inc = r.Source.Inc + 1
			reason = fmt.Sprintf("%s was damaged after seq %d", r.Source, r.Kept)
		}
	}
	switch {
	case l.chains[own] != nil:
		l.own = l.chains[own]
	case l.fresh[own] != nil:
		l.own = l.fresh[own]
		delete(l.fresh, own)
	default:
		l.own = l.newChain(own)
		l.own.link = l.linkTo(own, reason)
	}
	l.resetVoters(l.own.src, l.own.head.Seq)
	l.m.records.Add(float64(events))
	l.m.recovery.Set(time.Since(started).Seconds())
	l.m.sources.Set(float64(len(l.chains)))
	l.log.Info().Int("sources", len(sources)).Uint64("events", events).
		Float64("dur_seconds", time.Since(started).Seconds()).Msg("event log opened")
	return nil
}

func (l *Log) newChain(src cluster.SourceID) *chain {
	return &chain{src: src, dir: filepath.Join(l.o.Dir, sourceDir(src)), mu: &l.mu}
}

// linkTo returns how a chain that is new begins if this host had one before.
func (l *Log) linkTo(own cluster.SourceID, reason string) *cluster.Incarnation {
	var link *cluster.Incarnation
	for _, c := range l.chains {
		if c.src.Node == own.Node && c.src.Inc < own.Inc && (link == nil || link.Previous.Source.Inc < c.src.Inc) {
			link = &cluster.Incarnation{
				Previous: cluster.SourceMark{Source: c.src, Mark: cluster.Mark{Seq: c.head.Seq, Hash: c.head.Hash}},
				Reason:   reason,
			}
		}
	}
	for _, r := range l.repairs {
		if r.Own && link == nil {
			link = &cluster.Incarnation{Previous: cluster.SourceMark{Source: r.Source}, Reason: reason}
		}
	}
	return link
}

// recoverChain reads one chain and gives its events to load.
func (l *Log) recoverChain(src cluster.SourceID, load func(cluster.Event)) (*chain, error) {
	c := l.newChain(src)
	c.floor = l.snap.manifest.Base(src)
	c.tail, c.head = c.floor, cluster.Head{Source: src, Seq: c.floor.Seq, Hash: c.floor.Hash}
	firsts, err := l.keptSegments(c)
	if err != nil {
		return nil, err
	}
	for i, first := range firsts {
		if i < len(firsts)-1 && l.snap.within(src, firsts[i+1]-1) {
			if ok, err := l.recoverSealed(c, first, firsts[i+1]); err != nil {
				return nil, err
			} else if ok {
				continue
			}
		}
		if err := l.recoverSegment(c, first, i == len(firsts)-1, load); err != nil {
			return nil, err
		}
	}
	if err := l.snap.join(c); err != nil {
		return nil, err
	}
	if known := l.knownSeq(src); c.tail.Seq < known {
		return nil, &CorruptError{
			Segment: filepath.Join(c.dir, segmentName(c.tail.Seq+1)), Source: src, Seq: c.tail.Seq + 1, Own: src.Node == l.o.Self,
			Reason: fmt.Sprintf("missing: the chain was durable up to seq %d", known),
		}
	}
	return c, l.checkEnd(c)
}

// knownSeq is a seq up to which the chain of src was durable and no snapshot
// stands for it, 0 if none is known.
func (l *Log) knownSeq(src cluster.SourceID) uint64 {
	if seq := l.watermark.seq(src); !l.snap.within(src, seq) {
		return seq
	}
	return 0
}

// checkEnd verifies the head at the end of a recovered chain.
func (l *Log) checkEnd(c *chain) error {
	key := l.o.keyOf(c.src.Node)
	if key == nil || c.head.Seq == 0 {
		return nil
	}
	err := record.VerifyHead(l.o.Cluster, c.head, key)
	if err == nil {
		return nil
	}
	var seg segment // none: the head is the snapshot's
	if last := c.last(); last != nil {
		seg = *last
	}
	return &CorruptError{
		Segment: seg.path, Offset: seg.size, Source: c.src, Seq: c.head.Seq, Own: c.src.Node == l.o.Self,
		Reason: "last " + err.Error() + " with the identity key of " + string(c.src.Node),
	}
}

func (l *Log) recoverSegment(c *chain, first uint64, last bool, load func(cluster.Event)) error {
	path := filepath.Join(c.dir, segmentName(first))
	own := c.src.Node == l.o.Self
	if first != c.tail.Seq+1 {
		return &CorruptError{
			Segment: path, Source: c.src, Seq: c.tail.Seq + 1, Own: own,
			Reason: fmt.Sprintf("segment starts at seq %d: the one before it is missing", first),
		}
	}
	f, err := l.fs.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("open segment: %w", err)
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return err
	}
	s := &segmentScan{
		path: path, cluster: l.o.Cluster, src: c.src, own: own, first: first, last: last, tail: c.tail, hlc: c.hlc,
		known: l.knownSeq(c.src),
		commit: func(g group) error {
			c.head = g.head
			for _, e := range g.events {
				load(e)
			}
			l.snap.note(g.events)
			return l.snap.agrees(path, c.src, g.events)
		},
	}
	prev := c.tail.Hash
	if err := s.run(f, size); err != nil {
		return err
	}
	c.tail, c.hlc = s.tail, s.hlc
	if s.noHeader {
		return l.dropSegment(c, s)
	}
	if last {
		if err := l.repairTail(f, s, size); err != nil {
			return err
		}
	}
	for n := len(s.index); n > 0 && s.index[n-1].off >= s.end; n-- {
		s.index = s.index[:n-1]
	}
	c.segs = append(c.segs, &segment{path: path, first: first, prev: prev, size: s.end, sealed: s.sealed, index: s.index})
	return nil
}

// repairTail cuts off what an interrupted write left, and makes durable what
// the last process may have written without syncing it. The last group is
// written once more: after a sync that failed the kernel may hold it and
// believe that it is on the disk.
func (l *Log) repairTail(f File, s *segmentScan, size int64) error {
	if s.torn > 0 || s.sealed && size > s.end {
		if err := f.Truncate(s.end); err != nil {
			return fmt.Errorf("truncate torn tail of %s: %w", s.path, err)
		}
	}
	last, err := readAll(f, s.lastGroup, s.end)
	if err != nil {
		return fmt.Errorf("read %s: %w", s.path, err)
	}
	if err := writeAt(f, last, s.lastGroup, s.path); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return fmt.Errorf("sync %s: %w", s.path, err)
	}
	if s.torn > 0 {
		l.m.truncated.Inc()
		l.log.Warn().Str("segment", s.path).Int64("offset", s.end).Int64("bytes", s.torn).
			Uint64("seq", s.tail.Seq).Msg("torn tail truncated")
	}
	return nil
}

// dropSegment removes a last segment whose creation was interrupted.
func (l *Log) dropSegment(c *chain, s *segmentScan) error {
	if err := l.fs.Remove(s.path); err != nil {
		return fmt.Errorf("remove torn segment: %w", err)
	}
	if err := l.fs.SyncDir(c.dir); err != nil {
		return err
	}
	l.m.truncated.Inc()
	l.log.Warn().Str("segment", s.path).Int64("bytes", s.torn).Msg("torn new segment removed")
	return nil
}

// reopen recovers the running log after an I/O error: it reads again the chains
// of which something was being written, makes their ends durable and folds what
// turns out to have survived. A *CorruptError says that the disk lost what was
// durable.
func (l *Log) reopen() error {
	started := time.Now()
	_ = l.closeFiles() // what they could still tell is known
	var again []*chain
	var found []cluster.Event
	for c := range l.interrupted() {
		n, events, err := l.rescan(c)
		if err != nil {
			return fmt.Errorf("recover %s after an i/o error: %w", c.src, err)
		}
		again, found = append(again, n), append(found, events...)
	}
	l.lockFold()
	for _, n := range again {
		l.replace(n)
	}
	for _, e := range found {
		if e.Source == l.own.src {
			l.unstable = append(l.unstable, ownTerm{seq: e.Seq, term: e.Term})
		}
	}
	if l.foldErr() != nil { // half folded
		l.fold.stale = true
	}
	err := l.foldLocked(found)
	l.setFoldErr(err)
	l.fold.mu.Unlock()
	if err != nil {
		return err
	}
	l.in.open() // before Err says that all is well
	l.mu.Lock()
	l.poisoned, l.digest = nil, nil
	l.m.durable.Set(float64(l.own.head.Seq))
	l.mu.Unlock()
	l.measure()
	l.m.poisoned.Set(0)
	l.m.reopened.Inc()
	l.log.Warn().Int("events", len(found)).Float64("dur_seconds", time.Since(started).Seconds()).
		Msg("event log recovered after an i/o error")
	l.ownAck()
	l.notify()
	l.advanceStable()
	return nil
}

// interrupted yields the chains that have a group staged or in flight, which
// was being written when the error came.
func (l *Log) interrupted() iter.Seq[*chain] {
	return func(yield func(*chain) bool) {
		seen := map[*chain]bool{}
		for _, m := range []map[cluster.SourceID]*chain{l.chains, l.fresh, {l.own.src: l.own}} {
			for _, c := range m {
				if len(c.buf)+len(c.flight.buf) > 0 && !seen[c] {
					seen[c] = true
					if !yield(c) {
						return
					}
				}
			}
		}
	}
}

// rescan reads a chain's last segments again and returns the chain as it is on
// the disk, with the events that readers have not seen.
func (l *Log) rescan(old *chain) (n *chain, found []cluster.Event, err error) {
	n = l.newChain(old.src)
	n.link, n.floor, n.tail, n.head = old.link, old.floor, old.floor, old.head
	if last := len(old.segs) - 1; last >= 0 {
		n.segs = slices.Clone(old.segs[:last])
		n.tail = cluster.Mark{Seq: old.segs[last].first - 1, Hash: old.segs[last].prev}
	}
	from := n.tail.Seq + 1
	same := old.head.Seq == n.tail.Seq
	load := func(e cluster.Event) {
		same = same || e.Seq == old.head.Seq && e.Hash == old.head.Hash
		if e.Seq > old.head.Seq {
			found = append(found, e)
		}
	}
	firsts, err := segmentFiles(l.fs, n.dir)
	if errors.Is(err, fs.ErrNotExist) && len(old.segs) == 0 {
		return n, nil, nil // not even the directory was made
	}
	if err != nil {
		return nil, nil, err
	}
	for i, first := range firsts {
		if first >= from {
			if err := l.recoverSegment(n, first, i == len(firsts)-1, load); err != nil {
				return nil, nil, err
			}
		}
	}
	if !same {
		return nil, nil, &CorruptError{
			Segment: filepath.Join(n.dir, segmentName(from)), Source: n.src, Seq: old.head.Seq, Own: n.src.Node == l.o.Self,
			Reason: fmt.Sprintf("the event is not there any more; the chain was durable up to it and ends at seq %d", n.tail.Seq),
		}
	}
	n.hlc = max(n.hlc, old.undo.hlc)
	return n, found, l.checkEnd(n)
}

// replace puts a chain that was read again into the place of the old one. The
// lock of the fold is held.
func (l *Log) replace(n *chain) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.fresh, n.src)
	switch {
	case n.head.Seq > 0:
		l.chains[n.src] = n
	case n.src != l.own.src && len(n.segs) > 0:
		l.fresh[n.src] = n
	}
	if n.src == l.own.src {
		l.own = n
	}
}
