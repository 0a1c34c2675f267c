package store

import (
	"sort"
	"sync"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/eventlog/disk"
	"github.com/skein-project/skein/eventlog/segment"
)

const (
	minPrealloc = 64 << 10
	bodyRoom    = 8 << 10
	// keepBuffer bounds the buffer that a chain keeps for its next group.
	keepBuffer = 2 << 20
)

// chain is the segments of one source. The writer owns it; the fields under
// "readers" change only while the lock of the store is held, and show what is
// durable.
type chain struct {
	src event.SourceID
	dir string
	mu  *sync.RWMutex // of the store

	// The writer's own view: what is staged, written or not.
	tail event.Mark
	hlc  cluster.HLC
	file disk.File // the last segment, nil until it is written to
	// The group that is being staged, and the one before it, while that is
	// written and synced.
	commitGroup
	flight commitGroup
	usual  int    // how many events there were in the last group
	bodies []byte // holds the bodies of events
	alloc  int64  // how far the last segment's file reaches
	// undo is where the group in buf starts, to go back to.
	undo struct {
		tail event.Mark
		hlc  cluster.HLC
	}

	// Readers.
	floor event.Mark // the events up to here were dropped
	segs  []*file
	head  event.Head // Seq 0: no events
}

// commitGroup is a commit group of one chain, on its way to the disk.
type commitGroup struct {
	buf    []byte // its frames; empty: there is no group
	base   uint64 // the seq at which it starts
	events []event.Event
	newIdx segment.Index
	next   event.Head // the signed head that ends buf; Seq 0: to be put there yet
}

// file is one segment of a chain.
type file struct {
	path   string
	first  uint64
	prev   cluster.Hash
	size   int64 // end of the last committed frame
	sealed bool
	index  segment.Index
}

// find returns the segment that holds seq, as far as it is durable.
func (c *chain) find(seq uint64) *file {
	if seq <= c.floor.Seq || seq > c.head.Seq {
		return nil
	}
	i := sort.Search(len(c.segs), func(i int) bool { return c.segs[i].first > seq })
	if i == 0 {
		return nil
	}
	return c.segs[i-1]
}

func (c *chain) last() *file {
	if len(c.segs) == 0 {
		return nil
	}
	return c.segs[len(c.segs)-1]
}
