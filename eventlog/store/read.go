package store

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/eventlog/disk"
	"github.com/skein-project/skein/eventlog/record"
)

// RunBytes is the size that runs are filled up to.
const RunBytes = 1 << 20

// Reader reads one chain forward, never beyond what is durable. It keeps
// its place, so that reading on after the end costs no search. It belongs to
// one goroutine.
type Reader struct {
	from chains
	src  event.SourceID
	next uint64 // seq of the event that comes next

	path  string
	file  disk.File
	d     *record.Decoder
	limit int64

	hint   int64  // where next begins, if that is known
	frames []byte // of the last run, to be used again
}

// chains is where a Reader reads from: a Store, or a Dir.
type chains interface {
	// place finds the event seq of a chain; ok is false if it is not there yet.
	place(src event.SourceID, seq uint64) (p place, ok bool)
	// marks lists events of a chain that are found without reading much
	// before them, rising; the first is the oldest.
	marks(src event.SourceID) []uint64
	files() disk.FS
	Heads() []event.Head
}

func newReader(s chains, src event.SourceID, from uint64) *Reader {
	return &Reader{from: s, src: src, next: max(from, 1)}
}

// Close releases the file. The Reader may go on reading.
func (r *Reader) Close() {
	if r.file != nil {
		_ = r.file.Close() // opened for reading
	}
	r.file, r.d = nil, nil
}

// place says where the next unread frame is.
type place struct {
	path string
	off  int64
	end  int64 // of the durable part
}

// place says where the event seq is, at or after off.
func (c *chain) place(seq uint64) (p place, ok bool) {
	if c == nil {
		return p, false
	}
	seg := c.find(seq)
	if seg == nil {
		return p, false
	}
	return place{path: seg.path, off: seg.index.Seek(seq).Off, end: seg.size}, true
}

func (c *chain) marks() []uint64 {
	if c == nil || c.head.Seq == 0 {
		return nil
	}
	if len(c.segs) == 0 {
		return []uint64{c.floor.Seq + 1} // the next one will be
	}
	var out []uint64
	for _, s := range c.segs {
		if len(s.index) == 0 && s.first <= c.head.Seq {
			out = append(out, s.first)
		}
		for _, e := range s.index {
			out = append(out, e.Seq)
		}
	}
	return out
}

// open makes the decoder stand at or before the event next.
func (r *Reader) open() error {
	p, ok := r.from.place(r.src, r.next)
	if !ok {
		return r.missing()
	}
	off := p.off
	if r.file != nil && r.path == p.path {
		if r.d != nil && r.d.Offset() < p.end {
			off = r.d.Offset()
		}
	} else {
		r.Close()
		f, err := r.from.files().OpenFile(p.path, os.O_RDONLY, 0)
		if err != nil {
			if gone := r.missing(); errors.Is(gone, ErrCompacted) {
				return gone // it was dropped in between
			}
			return fmt.Errorf("open segment: %w", err)
		}
		r.file, r.path = f, p.path
	}
	if r.hint > 0 && r.hint < p.end {
		off, r.hint = r.hint, 0
	}
	r.limit = p.end
	r.d = record.NewDecoder(io.NewSectionReader(r.file, off, p.end-off), off, 0)
	return nil
}

// missing says why the event next is not there: io.EOF, not yet, or a
// *CompactedError, no longer.
func (r *Reader) missing() error {
	if m := r.from.marks(r.src); len(m) > 0 && r.next < m[0] {
		return &CompactedError{Source: r.src, Seq: r.next, Oldest: oldest(r.from, r.from.Heads())}
	}
	return io.EOF
}

// frame returns the next event frame from next on, or the next head frame
// after it. io.EOF is the durable end for now; a later call may find more.
func (r *Reader) frame() (record.Frame, error) {
	for {
		if r.d == nil {
			if err := r.open(); err != nil {
				return record.Frame{}, err
			}
		}
		fr, err := r.d.Next()
		switch {
		case errors.Is(err, io.EOF):
			if err := r.reopen(); err != nil {
				return record.Frame{}, err
			}
		case err != nil:
			return record.Frame{}, disk.ReadError(r.path, err)
		case fr.Type == record.TypeEvent || fr.Type == record.TypeHead:
			return fr, nil
		}
	}
}

// reopen goes on after the end of what was durable when the decoder began.
func (r *Reader) reopen() error {
	old, limit := r.path, r.limit
	if err := r.open(); err != nil {
		return err
	}
	if r.path == old && r.limit == limit {
		// The event next is said to be durable, and is not here.
		return fmt.Errorf("read %s: event %d of %s is missing", r.path, r.next, r.src)
	}
	return nil
}

// Event returns the next event. Its body is the caller's.
func (r *Reader) Event() (event.Event, error) {
	for {
		fr, err := r.frame()
		if err != nil {
			return event.Event{}, err
		}
		if seq, err := record.EventSeq(fr.Payload); fr.Type != record.TypeEvent || err == nil && seq < r.next {
			continue
		}
		e, err := record.DecodeEvent(fr.Payload)
		if err != nil {
			return e, disk.ReadError(r.path, err)
		}
		if e.Seq != r.next {
			return e, fmt.Errorf("read %s: event %d of %s where %d should stand", r.path, e.Seq, r.src, r.next)
		}
		r.next++
		e.Body = bytes.Clone(e.Body)
		return e, nil
	}
}

// Run returns the frames of the next events and, last, the signed head after
// them: as many whole groups as fit into limit bytes, at least one. The frames
// are valid until the next call.
func (r *Reader) Run(limit int) (frames []byte, last uint64, err error) {
	if frames = r.frames[:0]; cap(frames) > 2*RunBytes {
		frames = nil
	}
	defer func() {
		if frames != nil {
			r.frames = frames
		}
	}()
	var head []byte
	var place int64
	var path string
	cut := 0
	for {
		fr, err := r.frame()
		if errors.Is(err, io.EOF) && head != nil {
			break
		}
		if err != nil {
			return nil, 0, err
		}
		if fr.Type == record.TypeHead {
			if len(frames) > cut {
				h, err := record.DecodeHead(fr.Payload)
				if err != nil {
					return nil, 0, disk.ReadError(r.path, err)
				}
				head, cut, last = bytes.Clone(fr.Payload), len(frames), h.Seq
				place, path = r.d.Offset(), r.path
				if len(frames) >= limit {
					break
				}
			}
			continue
		}
		seq, err := record.EventSeq(fr.Payload)
		if err != nil {
			return nil, 0, disk.ReadError(r.path, err)
		}
		if seq < r.next {
			continue
		}
		if head != nil && len(frames)+len(fr.Payload) > limit {
			break
		}
		frames = append(frames, r.d.Raw()...)
		r.next = seq + 1
	}
	if r.next != last+1 || r.path != path || r.d.Offset() != place {
		// Events after the last whole group were read: go back to them.
		r.next = last + 1
		r.d = nil
	}
	frames, err = record.AppendFrame(frames[:cut], record.Frame{Type: record.TypeHead, Base: 1, Payload: head})
	return frames, last, err
}

// Next is the seq of the event that comes next.
func (r *Reader) Next() uint64 { return r.next }
