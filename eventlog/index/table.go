package index

import (
	"cmp"
	"errors"
	"io"
	"os"
	"slices"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/eventlog/disk"
	"github.com/skein-project/skein/eventlog/record"
	"github.com/skein-project/skein/eventlog/store"
)

const (
	// blockSize is the least distance of two blocks.
	blockSize = 64 << 10
	// maxNames is how many names of one block are kept; a block of more is read
	// whatever is looked for.
	maxNames = 1024
	// everything is the hash of such a block's only name.
	everything = 0
)

// hashOf is the number that a name is found by: FNV-1a. Two names with one hash
// cost reading, nothing else.
func hashOf(p event.Part, text []byte) uint64 {
	h := (uint64(14695981039346656037) ^ uint64(p)) * 1099511628211
	for _, c := range text {
		h = (h ^ uint64(c)) * 1099511628211
	}
	return max(h, everything+1)
}

// block is where a part of a segment begins.
type block struct {
	seq uint64
	off int64
}

// entry says that a block names something.
type entry struct {
	hash  uint64
	block uint32
}

func (a entry) compare(b entry) int {
	return cmp.Or(cmp.Compare(a.hash, b.hash), cmp.Compare(a.block, b.block))
}

// table is what the events of a segment are about, as far as it was read.
type table struct {
	first   uint64
	prev    cluster.Hash
	end     event.Mark // of what was read
	off     int64
	blocks  []block
	entries []entry

	names map[uint64]struct{} // of the last block
	full  bool                // no room: blocks count as naming everything
}

func newTable(s store.Segment) *table {
	return &table{
		first: s.First, prev: s.Prev, end: event.Mark{Seq: s.First - 1, Hash: s.Prev}, off: int64(len(record.Magic)),
		names: map[uint64]struct{}{},
	}
}

// of reports whether t is the beginning of a segment.
func (t *table) of(s store.Segment) bool {
	return t != nil && t.first == s.First && t.prev == s.Prev && (t.end.Seq < s.Last || t.end == event.Mark{Seq: s.Last, Hash: s.Hash})
}

// errChain says that the events in a file do not follow each other.
var errChain = errors.New("events that do not follow each other")

// read goes on to the end of a segment. It calls rest now and then, which may
// end it.
func (t *table) read(fsys disk.FS, s store.Segment, rest func() error) error {
	if t.end.Seq == s.Last {
		return nil
	}
	f, err := fsys.OpenFile(s.Path, os.O_RDONLY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	d := record.NewDecoder(io.NewSectionReader(f, t.off, s.Size-t.off), t.off, 0)
	for t.end.Seq < s.Last {
		off := d.Offset()
		fr, err := d.Next()
		if err != nil {
			return disk.ReadError(s.Path, err)
		}
		if fr.Type == record.TypeEvent {
			e, err := record.DecodeNext(fr.Payload, s.Source.Node)
			if err != nil {
				return disk.ReadError(s.Path, err)
			}
			if e.Seq != t.end.Seq+1 || e.Prev != t.end.Hash {
				return disk.ReadError(s.Path, errChain)
			}
			t.add(&e, off)
			if e.Seq%1024 == 0 {
				if err := rest(); err != nil {
					return err
				}
			}
		}
		t.off = d.Offset()
	}
	return nil
}

func (t *table) add(e *event.Event, off int64) {
	t.end = event.Mark{Seq: e.Seq, Hash: e.Hash}
	if n := len(t.blocks); n == 0 || off-t.blocks[n-1].off >= blockSize {
		t.blocks = append(t.blocks, block{seq: e.Seq, off: off})
		clear(t.names)
		if t.full {
			t.name(everything)
		}
	}
	if _, all := t.names[everything]; all {
		return
	}
	e.Named(func(p event.Part, text []byte) bool {
		h := hashOf(p, text)
		if _, known := t.names[h]; known {
			return true
		}
		if len(t.names) == maxNames {
			h = everything
		}
		t.name(h)
		return h != everything
	})
}

func (t *table) name(h uint64) {
	t.names[h] = struct{}{}
	t.entries = append(t.entries, entry{hash: h, block: uint32(len(t.blocks) - 1)}) //nolint:gosec // 2^31 bytes in steps of 2^16
}

// find returns the blocks that name a hash, rising.
func (t *table) find(h uint64) ([]uint32, error) {
	var list []uint32
	for _, e := range t.entries {
		if e.hash == h || e.hash == everything {
			list = append(list, e.block)
		}
	}
	return slices.Compact(list), nil // a block of too many may have both
}

// span is a run of events, some of which may be meant.
type span struct {
	first, last uint64
	off         int64 // where first begins; 0: unknown
}

// finder is what both forms of an index know.
type finder interface {
	find(hash uint64) ([]uint32, error)
}

// spans returns what may name all of hashes.
func spans(f finder, blocks []block, last uint64, hashes []uint64) ([]span, error) {
	var both []uint32
	for i, h := range hashes {
		list, err := f.find(h)
		if err != nil {
			return nil, err
		}
		if i == 0 {
			both = list
			continue
		}
		both = slices.DeleteFunc(both, func(b uint32) bool {
			_, found := slices.BinarySearch(list, b)
			return !found
		})
	}
	out := make([]span, 0, len(both))
	for _, b := range both {
		s := span{first: blocks[b].seq, off: blocks[b].off, last: last}
		if int(b)+1 < len(blocks) {
			s.last = blocks[b+1].seq - 1
		}
		out = append(out, s)
	}
	return out, nil
}
