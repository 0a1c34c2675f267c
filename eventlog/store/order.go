package store

import (
	"container/heap"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"path"
	"slices"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/eventlog/segment"
)

// Before reports whether a stands before b in the total order of all events:
// by clock, source, incarnation and seq.
func Before(a, b event.Event) bool {
	if a.HLC != b.HLC {
		return a.HLC < b.HLC
	}
	if c := a.Source.Compare(b.Source); c != 0 {
		return c < 0
	}
	return a.Seq < b.Seq
}

// merged is a heap of chains by their next event.
type merged []mergeItem

type mergeItem struct {
	e    event.Event
	r    *Reader
	to   event.Head
	find Find
}

func (m merged) Len() int           { return len(m) }
func (m merged) Less(i, j int) bool { return Before(m[i].e, m[j].e) }
func (m merged) Swap(i, j int)      { m[i], m[j] = m[j], m[i] }
func (m *merged) Push(x any)        { *m = append(*m, x.(mergeItem)) }
func (m *merged) Pop() any {
	old := *m
	x := old[len(old)-1]
	*m = old[:len(old)-1]
	return x
}

// between yields, in total order, the events after from up to and including
// to, and checks that each follows from the one before it, and the last ones
// are those that to names; a head without hash names any. It holds one open
// file for each chain that has any. What find is sure of is left out.
func between(s chains, from event.Cursor, to []event.Head, find Find) iter.Seq2[event.Event, error] {
	return func(yield func(event.Event, error) bool) {
		var m merged
		defer func() {
			for _, it := range m {
				it.r.Close()
			}
		}()
		for _, h := range to {
			if from[h.Source] >= h.Seq {
				continue
			}
			it := mergeItem{r: newReader(s, h.Source, from[h.Source]+1), to: h, find: find}
			more, err := it.next()
			switch {
			case err != nil:
				it.r.Close()
				yield(event.Event{}, err)
				return
			case more:
				m = append(m, it)
			}
		}
		heap.Init(&m)
		for len(m) > 0 {
			if !yield(m[0].e, nil) {
				return
			}
			more, err := m[0].next()
			switch {
			case err != nil:
				yield(event.Event{}, err)
				return
			case more:
				heap.Fix(&m, 0)
			default:
				heap.Pop(&m).(mergeItem).r.Close()
			}
		}
	}
}

// next reads the event after it.e; more is false at the end.
func (it *mergeItem) next() (more bool, err error) {
	if it.find != nil {
		if seq, off := it.find(it.to.Source, it.r.next); seq > it.r.next {
			it.r.next, it.r.hint, it.r.d, it.e = seq, off, nil, event.Event{}
		}
	}
	if it.r.next > it.to.Seq {
		return false, nil
	}
	e, err := it.r.Event()
	if errors.Is(err, io.EOF) {
		err = fmt.Errorf("read event log: %s ends before seq %d: %w", it.to.Source, it.to.Seq, io.ErrUnexpectedEOF)
	}
	if err != nil {
		return false, err
	}
	reason := ""
	switch {
	case it.e.Seq > 0 && e.Prev != it.e.Hash:
		reason = fmt.Sprintf("event with previous hash %s, want %s", e.Prev, it.e.Hash)
	case e.Seq == it.to.Seq && e.Hash != it.to.Hash && !it.to.Hash.IsZero():
		reason = fmt.Sprintf("event with hash %s, the signed head says %s", e.Hash, it.to.Hash)
	}
	if reason != "" {
		return false, &segment.CorruptError{Segment: it.r.path, Source: e.Source, Seq: e.Seq, Reason: reason}
	}
	it.e = e
	return true, nil
}

// Find returns the first event of a chain, from seq on, that may be one that is
// looked for, and where it begins in its segment; off 0: unknown.
type Find func(src event.SourceID, seq uint64) (first uint64, off int64)

// Filter selects events. The zero value selects all.
type Filter struct {
	Kinds []string       // patterns as in path.Match, any of them
	Node  cluster.NodeID // the source's host
	Since time.Time      // by the event's clock
	About event.Subject  // others may be left out; of the zero value: none
	Find  Find           // leaves them out; nil: nothing does
}

// Validate reports a malformed pattern.
func (f Filter) Validate() error {
	for _, k := range f.Kinds {
		if _, err := path.Match(k, ""); err != nil {
			return fmt.Errorf("kind pattern %q: %w", k, err)
		}
	}
	return nil
}

// Match reports whether f selects e.
func (f Filter) Match(e event.Event) bool {
	if f.Node != "" && e.Source.Node != f.Node || !f.Since.IsZero() && e.HLC.Time().Before(f.Since) {
		return false
	}
	return len(f.Kinds) == 0 || slices.ContainsFunc(f.Kinds, func(k string) bool {
		ok, err := path.Match(k, string(e.Kind))
		return err == nil && ok
	})
}

func readAfter(ctx context.Context, s chains, at event.Cursor, f Filter) iter.Seq2[event.Event, error] {
	return func(yield func(event.Event, error) bool) {
		if err := f.Validate(); err != nil {
			yield(event.Event{}, err)
			return
		}
		heads := s.Heads()
		old := oldest(s, heads)
		err := NotCompacted(at, old)
		if err == nil && !f.Since.IsZero() {
			err = skipTo(s, at, old, heads, f.Since)
		}
		if err != nil {
			yield(event.Event{}, err)
			return
		}
		for e, err := range between(s, at, heads, f.Find) {
			if err == nil {
				err = ctx.Err()
			}
			if err != nil {
				yield(event.Event{}, err)
				return
			}
			at.Advance(e.Source, e.Seq)
			if f.Match(e) && !yield(e, nil) {
				return
			}
		}
		for _, h := range heads {
			at.Advance(h.Source, h.Seq)
		}
	}
}
