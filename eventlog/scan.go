package eventlog

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/eventlog/record"
)

// group is one commit group as it stands in a segment.
type group struct {
	events []cluster.Event
	head   cluster.Head
	sig    error // the head's signature is wrong
	off    int64 // of the first event's frame
	end    int64 // after the head's frame
	rec    int   // record number of the first event
}

// segmentScan reads one segment and checks everything that can be checked
// without keys.
type segmentScan struct {
	path    string
	cluster string
	src     cluster.SourceID
	own     bool
	first   uint64
	last    bool // the chain's last file: its tail may be torn
	// known is a seq up to which the chain was durable for certain: what is
	// missing of it was not torn.
	known uint64

	tail cluster.Mark // before the segment; moves with each group
	hlc  cluster.HLC
	// verify checks the signatures of heads, nil: group.sig stays nil.
	verify func(cluster.Head) error
	// passing says that commit looks at no body.
	passing bool
	// commit receives each whole group. The slice of its events is valid until
	// it returns, the events longer.
	commit func(group) error

	events []cluster.Event // of the last group, to be used again

	// Results.
	end     int64 // after the last committed frame
	records int
	sealed  bool
	// lastGroup is where the last group starts, 0 if there is none.
	lastGroup int64
	index     []indexEntry
	torn      int64 // bytes of an interrupted write after end
	noHeader  bool  // nothing in the file can be read; it is to be removed
}

func (s *segmentScan) corrupt(off int64, rec int, format string, args ...any) error {
	return &CorruptError{
		Segment: s.path, Offset: off, Record: rec, Source: s.src, Own: s.own,
		Seq: s.tail.Seq + 1, Reason: fmt.Sprintf(format, args...),
	}
}

// run reads the first size bytes of f.
func (s *segmentScan) run(f io.ReaderAt, size int64) error {
	magic := make([]byte, min(size, int64(len(record.Magic))))
	if _, err := f.ReadAt(magic, 0); err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("read %s: %w", s.path, err)
	}
	if string(magic) != record.Magic {
		return s.headless(f, size, 0, "not a segment file")
	}
	start := int64(len(magic))
	d := readAhead(f, start, size, s.passing, s.verify)
	defer d.stop()
	it, err := d.next()
	fr := it.fr
	if err != nil || fr.Type != record.TypeHeader {
		if err == nil || isDamage(err) || errors.Is(err, io.EOF) {
			return s.headless(f, size, start, "segment header unreadable")
		}
		return fmt.Errorf("read %s: %w", s.path, err)
	}
	h, err := record.DecodeHeader(fr.Payload)
	if err != nil {
		return s.corrupt(start, 0, "%v", err)
	}
	want := record.Header{Cluster: s.cluster, Source: s.src, First: s.first, Prev: s.tail.Hash}
	if h != want {
		return s.corrupt(start, 0, "header says cluster %q, source %s, first seq %d, previous %s; want %q, %s, %d, %s",
			h.Cluster, h.Source, h.First, h.Prev, want.Cluster, want.Source, want.First, want.Prev)
	}
	s.end, s.records = d.off, d.rec
	for {
		more, err := s.group(d, f, size)
		if err != nil || !more {
			return err
		}
	}
}

func isDamage(err error) bool {
	_, ok := errors.AsType[*record.Damage](err)
	return ok
}

// group reads one commit group or the seal; more is false at the end.
func (s *segmentScan) group(d *ahead, f io.ReaderAt, size int64) (more bool, err error) {
	g := group{off: d.off, rec: d.rec, events: s.events[:0]}
	defer func() { s.events = g.events }()
	tail, hlc := s.tail, s.hlc
	for {
		off, rec := d.off, d.rec
		it, err := d.next()
		if err != nil {
			return false, s.finish(f, size, off, rec, err)
		}
		if s.sealed {
			return false, s.corrupt(off, rec, "%s record after the seal", it.fr.Type)
		}
		switch it.fr.Type {
		case record.TypeEvent:
			e := it.event
			if err := s.event(it, tail, hlc, off, rec); err != nil {
				return false, err
			}
			if len(g.events) > 0 && off-g.off >= indexStep || len(g.events) == 0 {
				s.note(e.Seq, off)
			}
			tail, hlc = cluster.Mark{Seq: e.Seq, Hash: e.Hash}, e.HLC
			g.events = append(g.events, e)
		case record.TypeHead:
			if it.err != nil {
				return false, s.corrupt(off, rec, "%v", it.err)
			}
			h := *it.head
			if len(g.events) == 0 || h.Source != s.src || h.Seq != tail.Seq || h.Hash != tail.Hash {
				return false, s.corrupt(off, rec, "head of %s at seq %d does not match the chain at seq %d", h.Source, h.Seq, tail.Seq)
			}
			g.head, g.sig, g.end = h, it.sig, d.off
			s.tail, s.hlc, s.end, s.records, s.lastGroup = tail, hlc, d.off, d.rec, g.off
			return true, s.commit(g)
		case record.TypeSeal:
			seal, err := record.DecodeSeal(it.fr.Payload)
			if err != nil {
				return false, s.corrupt(off, rec, "%v", err)
			}
			if len(g.events) > 0 || seal.Last != tail.Seq || seal.Hash != tail.Hash {
				return false, s.corrupt(off, rec, "seal at seq %d does not match the chain at seq %d", seal.Last, tail.Seq)
			}
			s.sealed, s.end, s.records = true, d.off, d.rec
			return true, nil
		default:
			return false, s.corrupt(off, rec, "unexpected %s record", it.fr.Type)
		}
	}
}

func (s *segmentScan) note(seq uint64, off int64) {
	if n := len(s.index); n == 0 || off-s.index[n-1].off >= indexStep {
		s.index = append(s.index, indexEntry{seq: seq, off: off})
	}
}

func (s *segmentScan) event(it item, tail cluster.Mark, hlc cluster.HLC, off int64, rec int) error {
	switch e := &it.event; {
	case it.err != nil:
		return s.corrupt(off, rec, "%v", it.err)
	case e.Source != s.src:
		return s.corrupt(off, rec, "event of source %s", e.Source)
	case e.Seq != tail.Seq+1:
		return s.corrupt(off, rec, "event with seq %d, want %d", e.Seq, tail.Seq+1)
	case e.Prev != tail.Hash:
		return s.corrupt(off, rec, "event with previous hash %s, want %s", e.Prev, tail.Hash)
	case e.HLC <= hlc:
		return s.corrupt(off, rec, "event with clock %s, not after %s", e.HLC, hlc)
	case it.fr.Base == 0 || it.fr.Base > s.tail.Seq+1:
		return s.corrupt(off, rec, "event of group %d in group %d", it.fr.Base, s.tail.Seq+1)
	}
	return nil
}

// finish judges the end of the readable part: a clean end, the remains of an
// interrupted write, or damage.
func (s *segmentScan) finish(f io.ReaderAt, size, off int64, rec int, cause error) error {
	if !errors.Is(cause, io.EOF) && !isDamage(cause) {
		return fmt.Errorf("read %s: %w", s.path, cause)
	}
	switch {
	case !s.last && errors.Is(cause, io.EOF) && s.sealed:
		return nil
	case !s.last && errors.Is(cause, io.EOF):
		return s.corrupt(off, rec, "segment is not the last one and ends without a seal")
	case !s.last:
		return s.corrupt(off, rec, "%s", reason(cause))
	}
	if s.tail.Seq < s.known {
		return s.corrupt(off, rec, "%s, where events up to seq %d were durable", reason(cause), s.known)
	}
	blank, err := isBlank(f, s.end, size)
	if err != nil {
		return fmt.Errorf("read %s: %w", s.path, err)
	}
	if blank {
		return nil
	}
	rest, err := readAll(f, off, size)
	if err != nil {
		return fmt.Errorf("read %s: %w", s.path, err)
	}
	if _, _, err := record.ParseFrame(rest); err == nil && !s.sealed {
		return nil // another process goes on writing: it was not whole yet when it was read before
	}
	if at := record.LaterGroup(rest, s.tail.Seq+1); at >= 0 {
		return s.corrupt(off, rec, "%s, followed by readable records of a later group at offset %d", reason(cause), off+int64(at))
	}
	if s.sealed {
		// Nothing is ever written after a seal.
		return s.corrupt(off, rec, "%d bytes after the seal", size-off)
	}
	s.torn = size - s.end
	return nil
}

func reason(err error) string {
	if d, ok := errors.AsType[*record.Damage](err); ok {
		return fmt.Sprintf("%v: %s", d.Err, d.Reason)
	}
	return "end of file"
}

// headless judges a file whose header cannot be read: the crash of its
// creation, if nothing else in it can be read either.
func (s *segmentScan) headless(f io.ReaderAt, size, off int64, why string) error {
	rest, err := readAll(f, 0, size)
	if err != nil {
		return fmt.Errorf("read %s: %w", s.path, err)
	}
	if !s.last || s.known >= s.first || record.LaterGroup(rest, 0) >= 0 {
		return s.corrupt(off, 0, "%s", why)
	}
	s.noHeader, s.torn = true, size
	return nil
}

func isBlank(f io.ReaderAt, from, to int64) (bool, error) {
	buf := make([]byte, 64<<10)
	for from < to {
		n := min(int64(len(buf)), to-from)
		m, err := f.ReadAt(buf[:n], from)
		if errors.Is(err, io.EOF) {
			to = from + int64(m) // a process that goes on writing sealed the segment
		} else if int64(m) < n && err != nil {
			return false, err
		}
		for _, b := range buf[:m] {
			if b != 0 {
				return false, nil
			}
		}
		from += n
	}
	return true, nil
}

func readAll(f io.ReaderAt, from, to int64) ([]byte, error) {
	b := make([]byte, to-from)
	n, err := f.ReadAt(b, from)
	if err != nil && !errors.Is(err, io.EOF) && int64(n) < to-from {
		return nil, err
	}
	return b[:n], nil
}

// segmentFiles lists a source directory: the segments in order. Other names are an
// error, since the directory belongs to the log.
func segmentFiles(fs FS, dir string) ([]uint64, error) {
	entries, err := fs.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("list source directory: %w", err)
	}
	var firsts []uint64
	for _, e := range entries {
		first, ok := parseSegmentName(e.Name())
		if !ok {
			return nil, fmt.Errorf("%s is not a segment; the directory belongs to the event log", filepath.Join(dir, e.Name()))
		}
		firsts = append(firsts, first)
	}
	return firsts, nil
}
