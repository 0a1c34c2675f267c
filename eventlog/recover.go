package eventlog

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/eventlog/record"
)

// proofDir holds the evidence of equivocations.
const proofDir = "equivocation"

// sourceDirs lists the chains under dir.
func sourceDirs(fs FS, dir string) ([]cluster.SourceID, error) {
	entries, err := fs.ReadDir(dir)
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
	own := cluster.SourceID{Node: l.o.Self, Inc: l.o.Incarnation}
	var events uint64
	for _, src := range sources {
		c, err := l.recoverChain(src)
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
	if err := l.refoldLocked(); err != nil { // nobody else knows the log yet
		return err
	}
	switch {
	case l.chains[own] != nil:
		l.own = l.chains[own]
	case l.fresh[own] != nil:
		l.own = l.fresh[own]
		delete(l.fresh, own)
	default:
		l.own = l.newChain(own)
	}
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

func (l *Log) recoverChain(src cluster.SourceID) (*chain, error) {
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
		if err := l.recoverSegment(c, first, i == len(firsts)-1); err != nil {
			return nil, err
		}
	}
	if err := l.snap.join(c); err != nil {
		return nil, err
	}
	if key := l.o.keyOf(src.Node); key != nil && c.head.Seq > 0 {
		if err := record.VerifyHead(l.o.Cluster, c.head, key); err != nil {
			var seg segment // none: the head is the snapshot's
			if last := c.last(); last != nil {
				seg = *last
			}
			return nil, &CorruptError{
				Segment: seg.path, Offset: seg.size, Source: src, Seq: c.head.Seq, Own: src.Node == l.o.Self,
				Reason: "last " + err.Error() + " with the identity key of " + string(src.Node),
			}
		}
	}
	return c, nil
}

func (l *Log) recoverSegment(c *chain, first uint64, last bool) error {
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
		commit: func(g group) error {
			c.head = g.head
			for _, e := range g.events {
				l.fold.load(e)
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
// the last process may have written without syncing it.
func (l *Log) repairTail(f File, s *segmentScan, size int64) error {
	if s.torn > 0 || s.sealed && size > s.end {
		if err := f.Truncate(s.end); err != nil {
			return fmt.Errorf("truncate torn tail of %s: %w", s.path, err)
		}
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
