package store

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"slices"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/eventlog/disk"
	"github.com/skein-project/skein/eventlog/record"
	"github.com/skein-project/skein/eventlog/segment"
)

// Dir is a log that is only read: what its directory held when it was opened,
// without what an interrupted or running write left at the ends. Another
// process may have it open and go on writing.
type Dir struct {
	o      DirOptions
	chains map[event.SourceID]*chain
}

// DirOptions say what to read. All fields but Self are required.
type DirOptions struct {
	Dir     string
	Cluster string
	Self    cluster.NodeID // only for errors
	FS      disk.FS
	Sources []event.SourceID
	// Floor returns up to where the events of a chain were dropped, with the
	// signature of its source if a snapshot has it.
	Floor func(event.SourceID) event.Head
}

// OpenDir looks at the log in o.Dir. It reads the last segment of each chain
// only.
func OpenDir(o DirOptions) (*Dir, error) {
	d := &Dir{o: o, chains: map[event.SourceID]*chain{}}
	for _, src := range o.Sources {
		c, err := d.chain(src)
		if err != nil {
			return nil, fmt.Errorf("read event log: %w", err)
		}
		if c.head.Seq > 0 {
			d.chains[src] = c
		}
	}
	return d, nil
}

// chain finds the segments of src and, in the last of them that has a group,
// the end.
func (d *Dir) chain(src event.SourceID) (*chain, error) {
	floor := d.o.Floor(src)
	c := &chain{src: src, dir: filepath.Join(d.o.Dir, segment.SourceDir(src)), floor: event.Mark{Seq: floor.Seq, Hash: floor.Hash}}
	firsts, err := segment.Files(d.o.FS, c.dir)
	if err != nil && (c.floor.Seq == 0 || !errors.Is(err, os.ErrNotExist)) {
		return nil, err
	}
	firsts = slices.DeleteFunc(firsts, func(first uint64) bool { return first <= c.floor.Seq })
	for i, first := range slices.Backward(firsts) {
		seg := &file{path: filepath.Join(c.dir, segment.Name(first)), first: first}
		if err := d.segment(c, seg, i == len(firsts)-1); err != nil {
			return nil, err
		}
		c.segs = append(c.segs, seg)
	}
	slices.Reverse(c.segs)
	if c.head.Seq == 0 {
		c.head = floor
	}
	return c, nil
}

// segment finds the size of one segment, and the chain's head in it if none
// later had it.
func (d *Dir) segment(c *chain, seg *file, last bool) error {
	f, err := d.o.FS.OpenFile(seg.path, os.O_RDONLY, 0)
	if err != nil {
		return fmt.Errorf("open segment: %w", err)
	}
	defer f.Close()
	seg.index = segment.Index{{Seq: seg.first, Off: int64(len(record.Magic))}}
	if seg.size, err = f.Size(); err != nil || c.head.Seq > 0 {
		return err // a sealed segment is as long as its file
	}
	s := &segment.Scan{ScanOptions: segment.ScanOptions{
		Path: seg.path, Cluster: d.o.Cluster, Source: c.src, Own: c.src.Node == d.o.Self, First: seg.first, Last: last, Adopt: true,
		Commit: func(g segment.Group) error {
			c.head = g.Head
			return nil
		},
	}}
	if err := s.Run(f, seg.size); err != nil {
		return err
	}
	seg.size, seg.index = s.End, s.Index
	return nil
}

func (d *Dir) place(src event.SourceID, seq uint64) (place, bool) { return d.chains[src].place(seq) }
func (d *Dir) marks(src event.SourceID) []uint64                  { return d.chains[src].marks() }
func (d *Dir) files() disk.FS                                     { return d.o.FS }

// Heads returns the end of every chain, sorted by source, each signed by its
// source; Verify checks the signatures.
func (d *Dir) Heads() []event.Head {
	heads := make([]event.Head, 0, len(d.chains))
	for _, c := range d.chains {
		heads = append(heads, c.head)
	}
	slices.SortFunc(heads, func(a, b event.Head) int { return a.Source.Compare(b.Source) })
	return heads
}

// Oldest returns the position after which all events are kept.
func (d *Dir) Oldest() event.Cursor { return oldest(d, d.Heads()) }

// After reads as Store.After does, up to the heads.
func (d *Dir) After(ctx context.Context, at event.Cursor, f Filter) iter.Seq2[event.Event, error] {
	return readAfter(ctx, d, at, f)
}

// Between yields, in total order, the events after from up to and including to;
// a head without hash names any event.
func (d *Dir) Between(from event.Cursor, to []event.Head) iter.Seq2[event.Event, error] {
	return between(d, from, to, nil)
}

// LastBefore returns the seq of the last event of a chain, up to h, for which
// before is true, or the seq before the oldest one. It is true of a first part
// of each chain.
func (d *Dir) LastBefore(h event.Head, before func(cluster.HLC) bool) (uint64, error) {
	return lastBefore(d, h, before)
}
