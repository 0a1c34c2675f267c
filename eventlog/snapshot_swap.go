package eventlog

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/eventlog/snapshot"
	"github.com/skein-project/skein/eventlog/state"
)

// swap makes the log go on from a snapshot that is on disk.
type swap struct {
	taken *cluster.SnapshotTaken
	// st is the fold of taken and of events beyond it.
	st *state.State
	// chains allows that chains which end below the cut go on from it.
	chains bool
	// sums are those of segments that would be dropped for that, by path.
	sums map[string]cluster.Hash
}

// install makes the log go on from a snapshot that was saved: its state with
// the events beyond becomes the log's own. So every host that knows the
// snapshot folds on from the same state, and what would change it from below
// changes nothing anywhere.
func (s *snapshots) install(ctx context.Context, sw *swap) error {
	heads := s.l.Heads()
	beyond := heads[:0]
	for _, h := range heads {
		if h.Seq > snapshot.HeadOf(sw.taken, h.Source).Seq {
			beyond = append(beyond, h)
		}
	}
	stale, _, err := s.advance(ctx, sw.st, beyond)
	if err == nil && stale {
		err = s.l.refold(sw.st, sw.taken, beyond)
	}
	if err != nil {
		return err
	}
	r := &request{swap: sw, done: make(chan struct{}, 1)}
	return s.l.submit(ctx, r)
}

// goOnFrom carries out a swap. The error it returns poisons the log; a refusal
// is r's.
func (l *Log) goOnFrom(r *request) error {
	sw := r.swap
	short, err := l.short(sw)
	if err != nil {
		r.err = err
		return nil
	}
	if err := l.startShort(sw, short); err != nil {
		return err
	}
	l.lockFold()
	defer l.fold.mu.Unlock()
	stale := l.snap.applyForks(sw.st)
	for _, h := range l.Heads() {
		after := sw.st.Seq(h.Source)
		if after >= h.Seq {
			continue
		}
		if err := l.readUpTo(h, after, func(e cluster.Event) bool {
			stale = sw.st.Apply(e) || stale
			return true
		}); err != nil {
			return fmt.Errorf("fold on from a snapshot: %w", err)
		}
	}
	l.fold.st, l.fold.base, l.fold.stale = sw.st, sw.taken, stale
	l.hlc = max(l.hlc, sw.taken.Clock)
	if err := l.refoldLocked(); err != nil {
		return err
	}
	l.snap.keep(sw.taken)
	l.notify()
	return nil
}

// short lists the chains that end below the cut of sw.
func (l *Log) short(sw *swap) ([]cluster.Head, error) {
	var out []cluster.Head
	for _, h := range sw.taken.Heads {
		c := l.chains[h.Source]
		if c != nil && c.tail.Seq >= h.Seq {
			if hash, ok := l.hashAt(h.Source, h.Seq); ok && hash != h.Hash {
				return nil, fmt.Errorf("%w: event %d of %s has hash %s here, %s in the cut", ErrSnapshot, h.Seq, h.Source, hash, h.Hash)
			}
			continue
		}
		switch {
		case !sw.chains:
			return nil, fmt.Errorf("%w: the cut has %s at seq %d, which is not here", ErrSnapshot, h.Source, h.Seq)
		case h.Source == l.own.src:
			return nil, fmt.Errorf("%w: the snapshot has seq %d", ErrRolledBack, h.Seq)
		case c == nil && len(l.chains)+len(l.fresh) >= MaxSources:
			return nil, fmt.Errorf("%w: more than %d sources", ErrSnapshot, MaxSources)
		}
		out = append(out, h)
	}
	return out, nil
}

// startShort makes the short chains begin at the cut: first the manifest says
// so, durably, then their segments go.
func (l *Log) startShort(sw *swap, short []cluster.Head) error {
	if len(short) == 0 {
		return nil
	}
	bases := map[cluster.SourceID]cluster.Mark{}
	var dropped []snapshot.Dropped
	for _, h := range short {
		bases[h.Source] = cluster.Mark{Seq: h.Seq, Hash: h.Hash}
		if c := l.chains[h.Source]; c != nil {
			d, err := l.snap.describe(c, sw)
			if err != nil {
				return err
			}
			dropped = append(dropped, d...)
		}
	}
	if err := l.snap.record(bases, dropped); err != nil {
		return err
	}
	for _, h := range short {
		c := l.chains[h.Source]
		if c == nil {
			if c = l.fresh[h.Source]; c == nil {
				c = l.newChain(h.Source)
			}
		}
		l.startAt(c, h)
	}
	l.m.sources.Set(float64(len(l.chains)))
	return nil
}

// describe returns what the manifest keeps of all segments of a chain.
func (s *snapshots) describe(c *chain, sw *swap) ([]snapshot.Dropped, error) {
	var out []snapshot.Dropped
	for i, seg := range c.segs {
		end := c.tail
		if i+1 < len(c.segs) {
			end = cluster.Mark{Seq: c.segs[i+1].first - 1, Hash: c.segs[i+1].prev}
		}
		if end.Seq < seg.first {
			continue // a header without events
		}
		sum, ok := cluster.Hash{}, false
		if seg.sealed && sw != nil {
			sum, ok = sw.sums[seg.path]
		}
		if !ok {
			var err error
			if sum, err = sumFile(s.l.fs, seg.path, seg.size, nil); err != nil {
				return nil, err
			}
		}
		d := snapshot.Dropped{
			Source: c.src, First: seg.first, Last: end.Seq, Prev: seg.prev, Hash: end.Hash, Size: seg.size, Sum: sum,
		}
		if sw != nil {
			d.Snapshot = sw.taken.ID
		} else if t := s.newest(); t != nil {
			d.Snapshot = t.ID
		}
		out = append(out, d)
	}
	return out, nil
}

// sums returns what the manifest keeps of a chain that is being recovered.
func (s *snapshots) sums(c *chain) ([]snapshot.Dropped, error) { return s.describe(c, nil) }

// keep notes that the log goes on from t, which is on disk, and forgets the
// snapshots that are too old to be of use.
func (s *snapshots) keep(t *cluster.SnapshotTaken) {
	s.mu.Lock()
	s.kept = append(s.kept, t)
	if n := len(s.kept) - keepSnapshots; n > 0 {
		s.kept = append([]*cluster.SnapshotTaken(nil), s.kept[n:]...)
	}
	s.noted = slices.DeleteFunc(s.noted, s.outdatedLocked)
	s.grown, s.trouble = 0, ""
	s.mu.Unlock()
	s.show()
}

// forget drops the segments up to bases from the chains; the manifest has
// them. The files are removed by who asked.
func (l *Log) forget(bases map[cluster.SourceID]cluster.Mark) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for src, base := range bases {
		c := l.chains[src]
		n := 0
		for n+1 < len(c.segs) && c.segs[n+1].first <= base.Seq+1 {
			l.m.size.Sub(float64(c.segs[n].size))
			n++
		}
		c.segs = append([]*segment(nil), c.segs[n:]...)
		c.floor = base
	}
}

var errBusy = errors.New("the log's files are being read")
