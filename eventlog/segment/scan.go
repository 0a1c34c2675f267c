package segment

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/eventlog/disk"
	"github.com/skein-project/skein/eventlog/record"
)

// Group is one commit group as it stands in a segment.
type Group struct {
	Events []event.Event
	Head   event.Head
	BadSig error // the head's signature is wrong
	Off    int64 // of the first event's frame
	End    int64 // after the head's frame
	Record int   // record number of the first event
}

// ScanOptions say which segment to read.
type ScanOptions struct {
	Path    string
	Cluster string
	Source  event.SourceID
	Own     bool
	First   uint64
	Last    bool // the chain's last file: its tail may be torn
	// Adopt takes what lies before the segment from its header, instead of Tail:
	// only this file of the chain is read.
	Adopt bool
	// Known is a seq up to which the chain was durable for certain: what is
	// missing of it was not torn.
	Known uint64
	// Verify checks the signatures of heads; nil: Group.BadSig stays nil.
	Verify func(event.Head) error
	// Passing says that Commit looks at no body.
	Passing bool
	// Commit receives each whole group. The slice of its events is valid until
	// it returns, the events longer.
	Commit func(Group) error
}

// Scan reads one segment and checks everything that can be checked without
// keys. Tail and Clock are those before the segment, and move with each group.
type Scan struct {
	ScanOptions
	Tail  event.Mark
	Clock cluster.HLC

	// Results.
	End    int64 // after the last committed frame
	Sealed bool
	Torn   int64 // bytes of an interrupted write after End

	// LastGroup is where the last group starts, 0 if there is none.
	LastGroup int64
	Index     Index
	NoHeader  bool // nothing in the file can be read; it is to be removed

	events []event.Event // of the last group, to be used again
}

// Corrupt returns the error that names what is wrong at off.
func (s *Scan) Corrupt(off int64, rec int, format string, args ...any) error {
	return &CorruptError{
		Segment: s.Path, Offset: off, Record: rec, Source: s.Source, Own: s.Own,
		Seq: s.Tail.Seq + 1, Reason: fmt.Sprintf(format, args...),
	}
}

// Run reads the first size bytes of f.
func (s *Scan) Run(f io.ReaderAt, size int64) error {
	err := s.read(f, size)
	s.Index = s.Index.Below(s.End) // not of what an interrupted write left
	return err
}

func (s *Scan) read(f io.ReaderAt, size int64) error {
	magic := make([]byte, min(size, int64(len(record.Magic))))
	if _, err := f.ReadAt(magic, 0); err != nil && !errors.Is(err, io.EOF) {
		return disk.ReadError(s.Path, err)
	}
	if string(magic) != record.Magic {
		return s.headless(f, size, 0, "not a segment file")
	}
	start := int64(len(magic))
	d := readAhead(f, start, size, s.Passing, s.Verify)
	defer d.stop()
	it, err := d.next()
	fr := it.fr
	if err != nil || fr.Type != record.TypeHeader {
		if err == nil || isDamage(err) || errors.Is(err, io.EOF) {
			return s.headless(f, size, start, "segment header unreadable")
		}
		return disk.ReadError(s.Path, err)
	}
	h, err := record.DecodeHeader(fr.Payload)
	if err != nil {
		return s.Corrupt(start, 0, "%v", err)
	}
	if s.Adopt {
		s.Tail = event.Mark{Seq: s.First - 1, Hash: h.Prev}
	}
	want := record.Header{Cluster: s.Cluster, Source: s.Source, First: s.First, Prev: s.Tail.Hash}
	if h != want {
		return s.Corrupt(start, 0, "header says cluster %q, source %s, first seq %d, previous %s; want %q, %s, %d, %s",
			h.Cluster, h.Source, h.First, h.Prev, want.Cluster, want.Source, want.First, want.Prev)
	}
	s.End = d.off
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
func (s *Scan) group(d *ahead, f io.ReaderAt, size int64) (more bool, err error) {
	g := Group{Off: d.off, Record: d.rec, Events: s.events[:0]}
	defer func() { s.events = g.Events }()
	tail, hlc := s.Tail, s.Clock
	for {
		off, rec := d.off, d.rec
		it, err := d.next()
		if err != nil {
			return false, s.finish(f, size, off, rec, err)
		}
		if s.Sealed {
			return false, s.Corrupt(off, rec, "%s record after the seal", it.fr.Type)
		}
		switch it.fr.Type {
		case record.TypeEvent:
			e := it.event
			if err := s.event(it, tail, hlc, off, rec); err != nil {
				return false, err
			}
			if len(g.Events) > 0 && off-g.Off >= IndexStep || len(g.Events) == 0 {
				s.Index.Add(Entry{Seq: e.Seq, Off: off})
			}
			tail, hlc = event.Mark{Seq: e.Seq, Hash: e.Hash}, e.HLC
			g.Events = append(g.Events, e)
		case record.TypeHead:
			if it.err != nil {
				return false, s.Corrupt(off, rec, "%v", it.err)
			}
			h := *it.head
			if len(g.Events) == 0 || h.Source != s.Source || h.Seq != tail.Seq || h.Hash != tail.Hash {
				return false, s.Corrupt(off, rec, "head of %s at seq %d does not match the chain at seq %d", h.Source, h.Seq, tail.Seq)
			}
			g.Head, g.BadSig, g.End = h, it.sig, d.off
			s.Tail, s.Clock, s.End, s.LastGroup = tail, hlc, d.off, g.Off
			return true, s.Commit(g)
		case record.TypeSeal:
			seal, err := record.DecodeSeal(it.fr.Payload)
			if err != nil {
				return false, s.Corrupt(off, rec, "%v", err)
			}
			if len(g.Events) > 0 || seal.Last != tail.Seq || seal.Hash != tail.Hash {
				return false, s.Corrupt(off, rec, "seal at seq %d does not match the chain at seq %d", seal.Last, tail.Seq)
			}
			s.Sealed, s.End = true, d.off
			return true, nil
		default:
			return false, s.Corrupt(off, rec, "unexpected %s record", it.fr.Type)
		}
	}
}

func (s *Scan) event(it item, tail event.Mark, hlc cluster.HLC, off int64, rec int) error {
	switch e := &it.event; {
	case it.err != nil:
		return s.Corrupt(off, rec, "%v", it.err)
	case e.Source != s.Source:
		return s.Corrupt(off, rec, "event of source %s", e.Source)
	case e.Seq != tail.Seq+1:
		return s.Corrupt(off, rec, "event with seq %d, want %d", e.Seq, tail.Seq+1)
	case e.Prev != tail.Hash:
		return s.Corrupt(off, rec, "event with previous hash %s, want %s", e.Prev, tail.Hash)
	case e.HLC <= hlc:
		return s.Corrupt(off, rec, "event with clock %s, not after %s", e.HLC, hlc)
	case it.fr.Base == 0 || it.fr.Base > s.Tail.Seq+1:
		return s.Corrupt(off, rec, "event of group %d in group %d", it.fr.Base, s.Tail.Seq+1)
	}
	return nil
}

// finish judges the end of the readable part: a clean end, the remains of an
// interrupted write, or damage.
func (s *Scan) finish(f io.ReaderAt, size, off int64, rec int, cause error) error {
	if !errors.Is(cause, io.EOF) && !isDamage(cause) {
		return disk.ReadError(s.Path, cause)
	}
	switch {
	case !s.Last && errors.Is(cause, io.EOF) && s.Sealed:
		return nil
	case !s.Last && errors.Is(cause, io.EOF):
		return s.Corrupt(off, rec, "segment is not the last one and ends without a seal")
	case !s.Last:
		return s.Corrupt(off, rec, "%s", reason(cause))
	}
	if s.Tail.Seq < s.Known {
		return s.Corrupt(off, rec, "%s, where events up to seq %d were durable", reason(cause), s.Known)
	}
	blank, err := isBlank(f, s.End, size)
	if err != nil {
		return disk.ReadError(s.Path, err)
	}
	if blank {
		return nil
	}
	rest, err := disk.ReadRange(f, off, size)
	if err != nil {
		return disk.ReadError(s.Path, err)
	}
	if _, _, err := record.ParseFrame(rest); err == nil && !s.Sealed {
		return nil // another process goes on writing: it was not whole yet when it was read before
	}
	if at := record.LaterGroup(rest, s.Tail.Seq+1); at >= 0 {
		return s.Corrupt(off, rec, "%s, followed by readable records of a later group at offset %d", reason(cause), off+int64(at))
	}
	if s.Sealed {
		// Nothing is ever written after a seal.
		return s.Corrupt(off, rec, "%d bytes after the seal", size-off)
	}
	s.Torn = size - s.End
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
func (s *Scan) headless(f io.ReaderAt, size, off int64, why string) error {
	rest, err := disk.ReadRange(f, 0, size)
	if err != nil {
		return disk.ReadError(s.Path, err)
	}
	if fr, err := firstFrame(rest); err == nil && fr.Type == record.TypeHeader {
		return s.read(f, size) // another process goes on writing: it was not whole yet when it was read before
	}
	if !s.Last || s.Known >= s.First || record.LaterGroup(rest, 0) >= 0 {
		return s.Corrupt(off, 0, "%s", why)
	}
	s.NoHeader, s.Torn = true, size
	return nil
}

// firstFrame reads the frame at the start of a segment, which holds its header.
func firstFrame(b []byte) (record.Frame, error) {
	if !bytes.HasPrefix(b, []byte(record.Magic)) {
		return record.Frame{}, record.ErrCorrupt
	}
	fr, _, err := record.ParseFrame(b[len(record.Magic):])
	return fr, err
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
