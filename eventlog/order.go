package eventlog

import (
	"container/heap"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"path"
	"time"

	"github.com/skein-project/skein/cluster"
)

// Before reports whether a stands before b in the total order of all events:
// by clock, source, incarnation and seq.
func Before(a, b cluster.Event) bool {
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
	e  cluster.Event
	r  *chainReader
	to cluster.Head
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
// file for each chain that has any.
func between(s shelf, from cluster.Cursor, to []cluster.Head) iter.Seq2[cluster.Event, error] {
	return func(yield func(cluster.Event, error) bool) {
		var m merged
		defer func() {
			for _, it := range m {
				it.r.close()
			}
		}()
		for _, h := range to {
			if from[h.Source] >= h.Seq {
				continue
			}
			it := mergeItem{r: newReader(s, h.Source, from[h.Source]+1), to: h}
			if err := it.next(); err != nil {
				it.r.close()
				yield(cluster.Event{}, err)
				return
			}
			m = append(m, it)
		}
		heap.Init(&m)
		for len(m) > 0 {
			if !yield(m[0].e, nil) {
				return
			}
			if m[0].e.Seq == m[0].to.Seq {
				heap.Pop(&m).(mergeItem).r.close()
				continue
			}
			if err := m[0].next(); err != nil {
				yield(cluster.Event{}, err)
				return
			}
			heap.Fix(&m, 0)
		}
	}
}

// next reads the event after it.e.
func (it *mergeItem) next() error {
	e, err := it.r.event()
	if errors.Is(err, io.EOF) {
		return fmt.Errorf("read event log: %s ends before seq %d: %w", it.to.Source, it.to.Seq, io.ErrUnexpectedEOF)
	}
	if err != nil {
		return err
	}
	reason := ""
	switch {
	case it.e.Seq > 0 && e.Prev != it.e.Hash:
		reason = fmt.Sprintf("event with previous hash %s, want %s", e.Prev, it.e.Hash)
	case e.Seq == it.to.Seq && e.Hash != it.to.Hash && !it.to.Hash.IsZero():
		reason = fmt.Sprintf("event with hash %s, the signed head says %s", e.Hash, it.to.Hash)
	}
	if reason != "" {
		return &CorruptError{Segment: it.r.path, Source: e.Source, Seq: e.Seq, Reason: reason}
	}
	it.e = e
	return nil
}

// Export yields all events that are durable when it starts, in total order.
// An error ends it.
func (l *Log) Export() iter.Seq2[cluster.Event, error] {
	return between(l, l.Oldest(), l.Heads())
}

// Filter selects events. The zero value selects all.
type Filter struct {
	Kinds []string       // patterns as in path.Match, any of them
	Node  cluster.NodeID // the source's host
	Since time.Time      // by the event's clock
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
func (f Filter) Match(e cluster.Event) bool {
	if f.Node != "" && e.Source.Node != f.Node {
		return false
	}
	if !f.Since.IsZero() && e.HLC.Time().Before(f.Since) {
		return false
	}
	if len(f.Kinds) == 0 {
		return true
	}
	for _, k := range f.Kinds {
		if ok, err := path.Match(k, string(e.Kind)); err == nil && ok {
			return true
		}
	}
	return false
}

// After yields the events after at that f selects, in total order, up to what
// is durable when it starts, and moves at along, over what f leaves out as
// well: when all is read, at is the durable end. A reader that goes on from at
// after the next change misses nothing; what other hosts deliver late comes
// then, whatever its clock says. A *CompactedError says that events after at
// are kept no more; begin at Oldest then. Any error ends it, the end of ctx as well.
func (l *Log) After(ctx context.Context, at cluster.Cursor, f Filter) iter.Seq2[cluster.Event, error] {
	return readAfter(ctx, l, at, f)
}

func readAfter(ctx context.Context, s shelf, at cluster.Cursor, f Filter) iter.Seq2[cluster.Event, error] {
	return func(yield func(cluster.Event, error) bool) {
		if err := f.Validate(); err != nil {
			yield(cluster.Event{}, err)
			return
		}
		heads := s.Heads()
		old := oldest(s, heads)
		err := notCompacted(at, old)
		if err == nil && !f.Since.IsZero() {
			err = skipTo(s, at, old, heads, f.Since)
		}
		if err != nil {
			yield(cluster.Event{}, err)
			return
		}
		for e, err := range between(s, at, heads) {
			if err == nil {
				err = ctx.Err()
			}
			if err != nil {
				yield(cluster.Event{}, err)
				return
			}
			at.Advance(e.Source, e.Seq)
			if f.Match(e) && !yield(e, nil) {
				return
			}
		}
	}
}
