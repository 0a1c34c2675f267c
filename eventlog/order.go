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
	e    cluster.Event
	r    *chainReader
	upto uint64
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
// to. It holds one open file for each chain that has any.
func (l *Log) between(from Cursor, to []cluster.Head) iter.Seq2[cluster.Event, error] {
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
			r := l.reader(h.Source, from[h.Source]+1)
			e, err := r.event()
			if err != nil {
				r.close()
				yield(cluster.Event{}, unexpectedEOF(err))
				return
			}
			m = append(m, mergeItem{e: e, r: r, upto: h.Seq})
		}
		heap.Init(&m)
		for len(m) > 0 {
			if !yield(m[0].e, nil) {
				return
			}
			if m[0].e.Seq == m[0].upto {
				heap.Pop(&m).(mergeItem).r.close()
				continue
			}
			e, err := m[0].r.event()
			if err != nil {
				yield(cluster.Event{}, unexpectedEOF(err))
				return
			}
			m[0].e = e
			heap.Fix(&m, 0)
		}
	}
}

func unexpectedEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return fmt.Errorf("read event log: %w", io.ErrUnexpectedEOF)
	}
	return err
}

// Export yields all events that are durable when it starts, in total order.
// An error ends it.
func (l *Log) Export() iter.Seq2[cluster.Event, error] {
	return func(yield func(cluster.Event, error) bool) {
		l.between(nil, l.Heads())(yield)
	}
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

// Item is one event of Follow.
type Item struct {
	Event cluster.Event
	at    Cursor
}

// Cursor returns the text from which a later Follow goes on after this item.
func (it Item) Cursor() string { return it.at.String() }

// Follow yields the events after the position at that f selects, then, if
// live, waits for more until ctx ends. What is there at once comes in total
// order; events that arrive later come after those yielded before, whatever
// their clocks say. The item's cursor is valid until the next item. An error
// ends it; the end of ctx is not an error.
func (l *Log) Follow(ctx context.Context, at Cursor, f Filter, live bool) iter.Seq2[Item, error] {
	return func(yield func(Item, error) bool) {
		if err := f.Validate(); err != nil {
			yield(Item{}, err)
			return
		}
		at := at.clone()
		for {
			changed := l.Changed()
			for e, err := range l.between(at, l.Heads()) {
				if err != nil {
					yield(Item{}, err)
					return
				}
				if ctx.Err() != nil {
					return
				}
				at[e.Source] = e.Seq
				if f.Match(e) && !yield(Item{Event: e, at: at}, nil) {
					return
				}
			}
			if !live {
				return
			}
			select {
			case <-changed:
			case <-ctx.Done():
				return
			}
		}
	}
}
