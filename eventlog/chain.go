package eventlog

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/eventlog/record"
)

const (
	segmentSuffix = ".seg"
	indexStep     = 64 << 10
	minPrealloc   = 64 << 10
	bodyRoom      = 8 << 10
)

// chain is one source's segments. The writer owns it; the fields under
// "readers" change only with Log.mu held, and hold what is durable.
type chain struct {
	src cluster.SourceID
	dir string
	mu  *sync.RWMutex // Log.mu

	// The writer's own view: what is staged, written or not.
	tail cluster.Mark
	hlc  cluster.HLC
	file File // the last segment, nil until it is written to
	// The group that is being staged, and the one before it, while that is
	// written and synced.
	commitGroup
	flight commitGroup
	usual  int    // how many events there were in the last group
	bodies []byte // where the bodies of events are kept
	// link is what the chain begins with: that it goes on for another one.
	link  *cluster.Incarnation
	alloc int64 // how far the last segment's file reaches
	// undo is where the group in buf starts, to go back to.
	undo struct {
		tail cluster.Mark
		hlc  cluster.HLC
	}

	// Readers.
	floor cluster.Mark // the events up to here were dropped
	segs  []*segment
	head  cluster.Head // Seq 0: no events
}

// commitGroup is a commit group of one chain, on its way to the disk.
type commitGroup struct {
	buf    []byte // its frames; empty: there is no group
	base   uint64 // the seq at which it starts
	events []cluster.Event
	newIdx []indexEntry
	next   cluster.Head // the signed head that ends buf; Seq 0: to be put there yet
}

type segment struct {
	path   string
	first  uint64
	prev   cluster.Hash
	size   int64 // end of the last committed frame
	sealed bool
	index  []indexEntry // rising; the first entry is the first event
}

// indexEntry is the position of an event that starts a commit group.
type indexEntry struct {
	seq uint64
	off int64
}

func sourceDir(s cluster.SourceID) string {
	return string(s.Node) + "." + strconv.FormatUint(s.Inc, 10)
}

// parseSourceDir is the inverse of sourceDir; ok is false for other names.
func parseSourceDir(name string) (s cluster.SourceID, ok bool) {
	node, inc, ok := strings.Cut(name, ".")
	if !ok {
		return s, false
	}
	id, err := cluster.ParseNodeID(node)
	if err != nil {
		return s, false
	}
	n, err := strconv.ParseUint(inc, 10, 64)
	if err != nil || n == 0 {
		return s, false
	}
	s = cluster.SourceID{Node: id, Inc: n}
	return s, sourceDir(s) == name
}

func segmentName(first uint64) string { return fmt.Sprintf("%020d%s", first, segmentSuffix) }

func parseSegmentName(name string) (uint64, bool) {
	digits, ok := strings.CutSuffix(name, segmentSuffix)
	if !ok || len(digits) != 20 {
		return 0, false
	}
	n, err := strconv.ParseUint(digits, 10, 64)
	return n, err == nil && n > 0
}

// addIndex notes that the group starting with seq stands at off, unless the
// last note is near enough.
func (s *segment) addIndex(e indexEntry) {
	if n := len(s.index); n == 0 || e.off-s.index[n-1].off >= indexStep {
		s.index = append(s.index, e)
	}
}

// seek returns the last noted position at or before seq.
func (s *segment) seek(seq uint64) indexEntry {
	i := sort.Search(len(s.index), func(i int) bool { return s.index[i].seq > seq })
	if i == 0 {
		return indexEntry{}
	}
	return s.index[i-1]
}

// find returns the segment that holds seq, as far as it is durable.
func (c *chain) find(seq uint64) *segment {
	if seq <= c.floor.Seq || seq > c.head.Seq {
		return nil
	}
	i := sort.Search(len(c.segs), func(i int) bool { return c.segs[i].first > seq })
	if i == 0 {
		return nil
	}
	return c.segs[i-1]
}

func (c *chain) last() *segment {
	if len(c.segs) == 0 {
		return nil
	}
	return c.segs[len(c.segs)-1]
}

// begin starts a commit group in buf.
func (c *chain) begin() {
	if len(c.buf) == 0 {
		c.events = make([]cluster.Event, 0, c.usual+c.usual/4+1) // those of the last group have gone to the fold
		c.base = c.tail.Seq + 1
		c.next = cluster.Head{}
		c.undo.tail, c.undo.hlc = c.tail, c.hlc
	}
}

// forget takes back the group in buf, of which nothing was written.
func (c *chain) forget() {
	c.tail, c.hlc = c.undo.tail, c.undo.hlc
	c.buf, c.events, c.newIdx, c.next = c.buf[:0], nil, c.newIdx[:0], cluster.Head{}
}

// add puts e, which was checked and whose position the caller has filled in,
// into the group. Its body is the caller's again then.
func (c *chain) add(e cluster.Event) {
	start := len(c.buf)
	b := record.AppendChecked(record.BeginFrame(c.buf), &e)
	e.Hash = record.HashEvent(e.Prev, b[start+record.FrameHeaderLen:])
	e.Body = c.keep(e.Body)
	c.grow(&e, b)
}

// keep copies body for an event. Few of them outlive the fold, and each keeps
// no more than bodyRoom with it.
func (c *chain) keep(body []byte) []byte {
	if len(body) > cap(c.bodies)-len(c.bodies) {
		c.bodies = make([]byte, 0, max(len(body), bodyRoom))
	}
	n := len(c.bodies)
	c.bodies = append(c.bodies, body...)
	return slices.Clip(c.bodies[n:])
}

// copy puts e, which was decoded from payload and verified, into the group.
func (c *chain) copy(e cluster.Event, payload []byte) {
	c.grow(&e, append(record.BeginFrame(c.buf), payload...))
}

// grow makes buf the group up to e, whose frame ends it and is to be finished.
func (c *chain) grow(e *cluster.Event, buf []byte) {
	start := len(c.buf)
	if err := record.FinishFrame(buf, start, record.TypeEvent, c.base); err != nil {
		// It was checked on entry, or verified: this cannot be a caller's fault.
		panic("eventlog: checked event refused: " + err.Error())
	}
	c.buf = buf
	if len(c.newIdx) == 0 || int64(start)-c.newIdx[len(c.newIdx)-1].off >= indexStep {
		c.newIdx = append(c.newIdx, indexEntry{seq: e.Seq, off: int64(start)})
	}
	c.tail = cluster.Mark{Seq: e.Seq, Hash: e.Hash}
	c.hlc = e.HLC
	c.events = append(c.events, *e)
}

// end puts the signed head after the events of the group.
func (g *commitGroup) end(h cluster.Head) error {
	p, err := record.AppendHead(nil, h)
	if err == nil {
		g.buf, err = record.AppendFrame(g.buf, record.Frame{Type: record.TypeHead, Base: g.base, Payload: p})
	}
	if err != nil {
		return err
	}
	g.next = h
	return nil
}

// size is what the staged group will take with its head.
func (c *chain) size() int64 {
	n := len(c.buf)
	if c.next.Seq == 0 {
		n += record.HeadFrameLen(c.src)
	}
	return int64(n)
}

// makeRoom opens the segment that the staged group goes into, a new one if need
// be, and preallocates the group's place. No group is in flight. An error for
// which noRoom is true left nothing behind and may be tried again; every other
// one poisons the log.
func (c *chain) makeRoom(fs FS, o Options) error {
	seg := c.last()
	if seg != nil && !seg.sealed && len(seg.index) > 0 && seg.size+c.size() > o.SegmentSize {
		if err := c.seal(fs); err != nil {
			return err
		}
	}
	if seg == nil || seg.sealed {
		if err := c.create(fs, o); err != nil {
			return err
		}
		seg = c.last()
	}
	if c.file == nil {
		if err := c.openLast(fs); err != nil {
			return err
		}
	}
	if end := seg.size + c.size(); end > c.alloc {
		step := max(min(o.Prealloc, max(minPrealloc, seg.size)), end-c.alloc)
		if err := c.preallocate(seg, step); err != nil && isFull(err) {
			step = end - c.alloc // what the group needs may still be there
			err = c.preallocate(seg, step)
			if err != nil {
				return beforeWriting(err)
			}
		} else if err != nil {
			return err
		}
		size, err := c.file.Size()
		if err != nil {
			return err
		}
		c.alloc = max(size, end)
	}
	return nil
}

func (c *chain) preallocate(seg *segment, step int64) error {
	if err := c.file.Preallocate(c.alloc, step); err != nil {
		return fmt.Errorf("preallocate %s: %w", seg.path, err)
	}
	return nil
}

// launch makes the staged group, for which there is room, the one in flight.
// None is.
func (c *chain) launch() {
	done := c.flight
	c.flight, c.commitGroup = c.commitGroup, commitGroup{buf: done.buf[:0], newIdx: done.newIdx[:0]}
}

// write puts the group in flight into the place that makeRoom made, without
// syncing it. Every error poisons the log.
func (c *chain) write() error {
	seg := c.last()
	return writeAt(c.file, c.flight.buf, seg.size, seg.path)
}

// finish writes the head behind the group in flight, which has none yet.
func (c *chain) finish(h cluster.Head) error {
	n := len(c.flight.buf)
	if err := c.flight.end(h); err != nil {
		return err
	}
	seg := c.last()
	return writeAt(c.file, c.flight.buf[n:], seg.size+int64(n), seg.path)
}

func writeAt(f File, b []byte, off int64, path string) error {
	n, err := f.WriteAt(b, off)
	if err != nil {
		return fmt.Errorf("write %s at %d: %w", path, off, err)
	}
	if n != len(b) {
		return fmt.Errorf("write %s at %d: %d of %d bytes written", path, off, n, len(b))
	}
	return nil
}

func (c *chain) openLast(fs FS) error {
	f, err := fs.OpenFile(c.last().path, os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("open segment: %w", err)
	}
	size, err := f.Size()
	if err != nil {
		_ = f.Close() // nothing was written
		return err
	}
	c.file, c.alloc = f, size
	return nil
}

// seal ends the last segment. The group in buf is not in it, so its seal
// belongs to the group after it.
func (c *chain) seal(fs FS) error {
	seg := c.last()
	if c.file == nil {
		if err := c.openLast(fs); err != nil {
			return err
		}
	}
	b, err := record.AppendFrame(nil, record.Frame{
		Type: record.TypeSeal, Base: c.head.Seq + 1,
		Payload: record.AppendSeal(nil, record.Seal{Last: c.head.Seq, Hash: c.head.Hash}),
	})
	if err != nil {
		return err
	}
	if end := seg.size + int64(len(b)); end > c.alloc {
		if err := c.preallocate(seg, end-c.alloc); err != nil {
			return beforeWriting(err)
		}
		c.alloc = end
	}
	if err := writeAt(c.file, b, seg.size, seg.path); err != nil {
		return err
	}
	if err := c.file.Truncate(seg.size + int64(len(b))); err != nil {
		return fmt.Errorf("truncate %s: %w", seg.path, err)
	}
	if err := c.file.Sync(); err != nil {
		return fmt.Errorf("sync %s: %w", seg.path, err)
	}
	if err := c.file.Close(); err != nil {
		return fmt.Errorf("close %s: %w", seg.path, err)
	}
	c.file = nil
	c.mu.Lock()
	seg.sealed = true
	seg.size += int64(len(b))
	c.mu.Unlock()
	return nil
}

// create makes the segment that starts after the durable end of the chain,
// with its header durable in it and its name in the directory.
func (c *chain) create(fs FS, o Options) error {
	seg := &segment{first: c.head.Seq + 1, prev: c.head.Hash}
	seg.path = filepath.Join(c.dir, segmentName(seg.first))
	p, err := record.AppendHeader(nil, record.Header{Cluster: o.Cluster, Source: c.src, First: seg.first, Prev: seg.prev})
	if err != nil {
		return err
	}
	b, err := record.AppendFrame([]byte(record.Magic), record.Frame{Type: record.TypeHeader, Base: seg.first, Payload: p})
	if err != nil {
		return err
	}
	if len(c.segs) == 0 {
		if err := fs.MkdirAll(c.dir, 0o700); err != nil {
			return beforeWriting(fmt.Errorf("create source directory: %w", err))
		}
		if err := fs.SyncDir(filepath.Dir(c.dir)); err != nil {
			return err
		}
	}
	f, err := fs.OpenFile(seg.path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return beforeWriting(fmt.Errorf("create segment: %w", err))
	}
	c.file, c.alloc = f, 0
	if err := c.preallocate(seg, int64(len(b))); err != nil && isFull(err) {
		return c.giveUp(fs, seg, err)
	} else if err != nil {
		return err
	}
	if err := writeAt(f, b, 0, seg.path); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return fmt.Errorf("sync %s: %w", seg.path, err)
	}
	if err := fs.SyncDir(c.dir); err != nil {
		return err
	}
	seg.size, c.alloc = int64(len(b)), int64(len(b))
	c.mu.Lock()
	c.segs = append(c.segs, seg)
	c.mu.Unlock()
	return nil
}

// giveUp removes a segment of which nothing could be written.
func (c *chain) giveUp(fs FS, seg *segment, cause error) error {
	f := c.file
	c.file = nil
	if err := errors.Join(f.Close(), fs.Remove(seg.path)); err != nil {
		return errors.Join(cause, err)
	}
	return beforeWriting(cause)
}

// commit makes the synced group in flight visible to readers and returns its events.
// Log.mu is held.
func (c *chain) commit() []cluster.Event {
	seg := c.last()
	g := &c.flight
	for _, e := range g.newIdx {
		seg.addIndex(indexEntry{seq: e.seq, off: seg.size + e.off})
	}
	seg.size += int64(len(g.buf))
	c.head = g.next
	events := g.events
	c.usual = len(events)
	g.buf, g.events, g.newIdx = g.buf[:0], nil, g.newIdx[:0]
	if cap(g.buf) > 2*groupBytes {
		g.buf = nil
	}
	return events
}
