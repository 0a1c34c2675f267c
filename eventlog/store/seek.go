package store

import (
	"fmt"
	"sort"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
)

// oldest is the position after which all events of s are kept.
func oldest(s chains, heads []event.Head) event.Cursor {
	c := event.Cursor{}
	for _, h := range heads {
		if m := s.marks(h.Source); len(m) > 0 && m[0] > 1 {
			c[h.Source] = m[0] - 1
		}
	}
	return c
}

// EndOf returns the position that heads stand for.
func EndOf(heads []event.Head) event.Cursor {
	c := make(event.Cursor, len(heads))
	for _, h := range heads {
		c[h.Source] = h.Seq
	}
	return c
}

// NotCompacted checks that the events after at are there, which they are from
// old on.
func NotCompacted(at, old event.Cursor) error {
	for _, src := range old.Sources() {
		if at[src] < old[src] {
			return &CompactedError{Source: src, Seq: at[src] + 1, Oldest: old}
		}
	}
	return nil
}

// skipTo moves at, where it stands at the oldest event, before the first one
// whose clock is not before t. Clocks rise along a chain.
func skipTo(s chains, at, old event.Cursor, heads []event.Head, t time.Time) error {
	for _, h := range heads {
		if at[h.Source] > old[h.Source] {
			continue
		}
		seq, err := lastBefore(s, h, func(c cluster.HLC) bool { return c.Time().Before(t) })
		if err != nil {
			return err
		}
		at[h.Source] = seq
	}
	return nil
}

// lastBefore returns the seq of the last event of a chain, up to h, of which
// before is true, or the seq before the oldest one.
func lastBefore(s chains, h event.Head, before func(cluster.HLC) bool) (uint64, error) {
	marks := s.marks(h.Source)
	if len(marks) == 0 {
		return 0, nil
	}
	var failed error
	i := sort.Search(len(marks), func(i int) bool {
		if marks[i] > h.Seq || failed != nil {
			return true
		}
		r := newReader(s, h.Source, marks[i])
		defer r.Close()
		e, err := r.Event()
		if err != nil {
			failed = err
		}
		return !before(e.HLC)
	})
	if failed != nil {
		return 0, fmt.Errorf("seek in event log: %w", failed)
	}
	if i == 0 {
		return marks[0] - 1, nil
	}
	r := newReader(s, h.Source, marks[i-1])
	defer r.Close()
	last := marks[i-1]
	for last < h.Seq {
		e, err := r.Event()
		if err != nil {
			return 0, fmt.Errorf("seek in event log: %w", err)
		}
		if !before(e.HLC) {
			return e.Seq - 1, nil
		}
		last = e.Seq
	}
	return last, nil
}
