package store

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"slices"
	"sync"

	"github.com/rs/zerolog"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/eventlog/disk"
	"github.com/skein-project/skein/eventlog/wire"
)

// Store is what is on this host's disk: its own chain, and copies of the other
// hosts' chains. Readers see only what is durable, and may come from any
// goroutine; a Writer alone changes it.
type Store struct {
	o    Options
	m    *metrics
	log  zerolog.Logger
	lock *os.File
	base Base // set when the chains are recovered

	mu     sync.RWMutex
	chains map[event.SourceID]*chain // those with events
	own    *chain
	digest []byte                       // nil: to be computed
	forks  map[event.SourceID]wire.Fork // changed by the writer only

	changes changes
}

// Base says what snapshots stand for in the place of events. The store may ask
// while it holds its lock, so Floor and Head must not call it back.
type Base interface {
	// Floor returns up to where the events of a chain were dropped.
	Floor(src event.SourceID) event.Mark
	// Head returns where the newest snapshot leaves a chain; Seq 0: it does not
	// know the chain.
	Head(src event.SourceID) event.Head
}

// changes wakes those who wait for a change of the store.
type changes struct {
	mu  sync.RWMutex
	ch  chan struct{} // closed and replaced on every change
	err error         // why nothing more is written, nil if the store is sound
}

// Source returns the own chain's name.
func (s *Store) Source() event.SourceID {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.own.src
}

// Err returns the error that ended writing, nil if the log is sound.
func (s *Store) Err() error {
	s.changes.mu.RLock()
	defer s.changes.mu.RUnlock()
	return s.changes.err
}

// Changed returns a channel that is closed at the next change: new durable
// events, or the end of writing. Fetch it before looking, or a change may
// slip between.
func (s *Store) Changed() <-chan struct{} {
	s.changes.mu.RLock()
	defer s.changes.mu.RUnlock()
	return s.changes.ch
}

// Wait returns when the chain of src is durable up to seq here.
func (s *Store) Wait(ctx context.Context, src event.SourceID, seq uint64) error {
	for {
		changed := s.Changed()
		if s.Head(src).Seq >= seq {
			return nil
		}
		if err := s.Err(); err != nil {
			return err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("wait for %s at seq %d: %w", src, seq, context.Cause(ctx))
		}
	}
}

// Heads returns the durable end of every chain, sorted by source, each signed
// by its source.
func (s *Store) Heads() []event.Head {
	s.mu.RLock()
	defer s.mu.RUnlock()
	heads := make([]event.Head, 0, len(s.chains))
	for _, c := range s.chains {
		// All that is left of a forked chain may be what a snapshot holds.
		if len(c.head.Sig) > 0 {
			heads = append(heads, c.head)
		}
	}
	slices.SortFunc(heads, func(a, b event.Head) int { return a.Source.Compare(b.Source) })
	return heads
}

// Ends is Heads with those of chains whose end nobody signed.
func (s *Store) Ends() []event.Head {
	s.mu.RLock()
	defer s.mu.RUnlock()
	heads := make([]event.Head, 0, len(s.chains))
	for _, c := range s.chains {
		heads = append(heads, c.head)
	}
	return heads
}

// Head returns the durable end of one chain; Seq is 0 if it is not here.
func (s *Store) Head(src event.SourceID) event.Head {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if c := s.chains[src]; c != nil {
		return c.head
	}
	return event.Head{Source: src}
}

// Floor returns up to where the events of a chain were dropped.
func (s *Store) Floor(src event.SourceID) event.Mark {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if c := s.chains[src]; c != nil {
		return c.floor
	}
	return event.Mark{}
}

// Cut returns the durable positions of all chains, as a term start records
// them. A forked chain counts up to its fork.
func (s *Store) Cut() event.Cut {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return slices.DeleteFunc(s.marksLocked(), func(m event.SourceMark) bool { return m.Seq == 0 })
}

// SignedCut returns how far every chain counts, signed by its source unless it
// is forked, and the forks.
func (s *Store) SignedCut() (heads []event.Head, forks []event.SourceFork) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, m := range s.marksLocked() {
		h := event.Head{Source: m.Source, Seq: m.Seq, Hash: m.Hash}
		if f, ok := s.forks[m.Source]; ok {
			forks = append(forks, event.SourceFork{Source: f.Source, Seq: f.Seq})
		} else {
			h.Sig = s.chains[m.Source].head.Sig
		}
		if h.Seq > 0 {
			heads = append(heads, h)
		}
	}
	return heads, forks
}

// marksLocked returns how far every chain counts: up to its durable end, or to
// where its fork begins.
func (s *Store) marksLocked() event.Cut {
	marks := make(event.Cut, 0, len(s.chains)+len(s.forks))
	for src, c := range s.chains {
		m := event.Mark{Seq: c.head.Seq, Hash: c.head.Hash}
		if f, ok := s.forks[src]; ok && m.Seq >= f.Seq {
			m = event.Mark{Seq: f.Seq - 1, Hash: f.Prev}
			if h := s.base.Head(src); h.Seq >= f.Seq { // a snapshot stands
				m = event.Mark{Seq: h.Seq, Hash: h.Hash}
			}
		}
		marks = append(marks, event.SourceMark{Source: src, Mark: m})
	}
	for src := range s.forks {
		if s.chains[src] == nil {
			marks = append(marks, event.SourceMark{Source: src})
		}
	}
	slices.SortFunc(marks, func(a, b event.SourceMark) int { return a.Source.Compare(b.Source) })
	return marks
}

// Digest returns a short hash over the durable positions of all chains, forked
// ones up to their forks, and the forks. Two logs with the same digest hold the
// same events that count, and have the same state.
func (s *Store) Digest() [16]byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.digest == nil {
		sum := digest(s.marksLocked(), s.forksLocked())
		s.digest = sum[:]
	}
	return [16]byte(s.digest)
}

func digest(marks event.Cut, forks []wire.Fork) [16]byte {
	h := sha256.New()
	var b []byte
	for _, m := range marks {
		b = binary.BigEndian.AppendUint64(wire.AppendSource(b[:0], m.Source), m.Seq)
		h.Write(append(b, m.Hash[:]...))
	}
	if len(forks) > 0 {
		h.Write(wire.AppendForks(b[:0], forks))
	}
	return [16]byte(h.Sum(nil))
}

// Forks returns the sources that are proven to have signed two histories, by
// source.
func (s *Store) Forks() []wire.Fork {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.forksLocked()
}

func (s *Store) forksLocked() []wire.Fork {
	forks := make([]wire.Fork, 0, len(s.forks))
	for _, f := range s.forks {
		forks = append(forks, f)
	}
	slices.SortFunc(forks, func(a, b wire.Fork) int { return a.Source.Compare(b.Source) })
	return forks
}

// Fork returns the proven fork of a source.
func (s *Store) Fork(src event.SourceID) (wire.Fork, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	f, ok := s.forks[src]
	return f, ok
}

// Size returns how many bytes all segments hold.
func (s *Store) Size() int64 {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var n int64
	for _, c := range s.chains {
		for _, seg := range c.segs {
			n += seg.size
		}
	}
	return n
}

// Sizes returns how many bytes the segments of each host hold, and shows their
// sum as a metric.
func (s *Store) Sizes() map[cluster.NodeID]int64 {
	s.mu.RLock()
	defer s.mu.RUnlock()
	out := map[cluster.NodeID]int64{}
	var total int64
	for _, c := range s.chains {
		for _, seg := range c.segs {
			out[c.src.Node] += seg.size
			total += seg.size
		}
	}
	s.m.size.Set(float64(total))
	return out
}

// Segment describes one file of a chain.
type Segment struct {
	Source      event.SourceID
	Path        string
	First, Last uint64
	Prev, Hash  cluster.Hash // of the events before First, and at Last
	Size        int64
	Sealed      bool
}

// Segments lists the segments of a chain, in order.
func (s *Store) Segments(src event.SourceID) []Segment {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if c := s.chains[src]; c != nil {
		return c.list(event.Mark{Seq: c.head.Seq, Hash: c.head.Hash})
	}
	return nil
}

// list describes the segments of a chain that ends at end.
func (c *chain) list(end event.Mark) []Segment {
	out := make([]Segment, 0, len(c.segs))
	for i, seg := range c.segs {
		last := end
		if i+1 < len(c.segs) {
			last = event.Mark{Seq: c.segs[i+1].first - 1, Hash: c.segs[i+1].prev}
		}
		out = append(out, Segment{
			Source: c.src, Path: seg.path, First: seg.first, Last: last.Seq, Prev: seg.prev, Hash: last.Hash, Size: seg.size, Sealed: seg.sealed,
		})
	}
	return out
}

// Limits returns how many bytes of each segment, by path, are durable.
func (s *Store) Limits() map[string]int64 {
	s.mu.RLock()
	defer s.mu.RUnlock()
	limits := map[string]int64{}
	for _, c := range s.chains {
		for _, seg := range c.segs {
			limits[seg.path] = seg.size
		}
	}
	return limits
}

// Since says how many own events there are after seq, and how long they are:
// nearly, for the index of a segment has one entry in 64 KiB.
func (s *Store) Since(seq uint64) (events uint64, bytes int64) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	head := s.own.head.Seq
	if seq >= head {
		return 0, 0
	}
	for i, seg := range s.own.segs {
		last := head
		if i+1 < len(s.own.segs) {
			last = s.own.segs[i+1].first - 1
		}
		switch {
		case last <= seq || len(seg.index) == 0:
		case seg.first > seq:
			bytes += seg.size - seg.index[0].Off
		default:
			from := seg.index.Seek(seq + 1)
			bytes += int64(float64(seg.size-from.Off) * float64(last-seq) / float64(last-from.Seq+1))
		}
	}
	return head - seq, bytes
}

// Reader returns a reader of one chain from seq from on.
func (s *Store) Reader(src event.SourceID, from uint64) *Reader { return newReader(s, src, from) }

// Read yields the events of one chain from seq from on, up to the durable end
// at the time when it gets there. An error ends it.
func (s *Store) Read(src event.SourceID, from uint64) iter.Seq2[event.Event, error] {
	return func(yield func(event.Event, error) bool) {
		r := s.Reader(src, from)
		defer r.Close()
		for {
			e, err := r.Event()
			if errors.Is(err, io.EOF) {
				return
			}
			if !yield(e, err) || err != nil {
				return
			}
		}
	}
}

// ReadUpTo yields the events of one chain beyond after and up to h.
func (s *Store) ReadUpTo(h event.Head, after uint64, yield func(event.Event) bool) error {
	r := s.Reader(h.Source, after+1)
	defer r.Close()
	for r.next <= h.Seq {
		e, err := r.Event()
		if errors.Is(err, io.EOF) {
			return io.ErrUnexpectedEOF
		}
		if err != nil {
			return err
		}
		if !yield(e) {
			return nil
		}
	}
	return nil
}

// HashAt returns the hash of a durable event; ok is false if there is none. An
// error says that it cannot be determined.
func (s *Store) HashAt(src event.SourceID, seq uint64) (hash cluster.Hash, ok bool, err error) {
	if h := s.Head(src); h.Seq == seq {
		return h.Hash, true, nil
	}
	if floor := s.Floor(src); floor.Seq == seq {
		return floor.Hash, true, nil
	}
	for e, err := range s.Read(src, seq) {
		if err != nil {
			return hash, false, fmt.Errorf("read event %d of %s: %w", seq, src, err)
		}
		return e.Hash, e.Seq == seq, nil
	}
	return hash, false, nil
}

// Between yields, in total order, the events after from up to and including to;
// a head without hash names any event. An error ends it.
func (s *Store) Between(from event.Cursor, to []event.Head) iter.Seq2[event.Event, error] {
	return between(s, from, to, nil)
}

// After yields the events after at that f selects, in total order, up to what
// is durable when it starts, and moves at along, over what f leaves out as
// well: when all is read, at is the durable end. A reader that goes on from at
// after the next change misses nothing; what other hosts deliver late comes
// then, whatever its clock says. A *CompactedError says that events after at
// are no longer retained; begin at Oldest then. Any error ends it, the end of
// ctx as well.
func (s *Store) After(ctx context.Context, at event.Cursor, f Filter) iter.Seq2[event.Event, error] {
	return readAfter(ctx, s, at, f)
}

// Oldest returns the position after which all events are kept: the beginning,
// unless older ones were compacted away.
func (s *Store) Oldest() event.Cursor { return oldest(s, s.Heads()) }

// LastBefore returns the seq of the last event of a chain, up to h, for which
// before is true, or the seq before the oldest one that is kept. Clocks rise along
// a chain, so before is true up to there.
func (s *Store) LastBefore(h event.Head, before func(cluster.HLC) bool) (uint64, error) {
	return lastBefore(s, h, before)
}

// Position returns the durable end of the whole log.
func (s *Store) Position() event.Cursor { return EndOf(s.Heads()) }

func (s *Store) place(src event.SourceID, seq uint64) (place, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.chains[src].place(seq)
}

func (s *Store) marks(src event.SourceID) []uint64 {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.chains[src].marks()
}

func (s *Store) files() disk.FS { return s.o.FS }

// KeyOf returns the key of a host, the own one without asking.
func (s *Store) KeyOf(node cluster.NodeID) ed25519.PublicKey {
	if node == s.o.Self {
		return s.o.Key.Public().(ed25519.PublicKey)
	}
	return s.o.KeyOf(node)
}
