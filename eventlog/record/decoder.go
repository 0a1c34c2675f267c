package record

import (
	"errors"
	"io"
	"strings"
)

const firstBuffer = 64 << 10

// Decoder reads frames one after the other in bounded memory: it holds one
// frame and a read-ahead of 64 KiB, and a frame's length is checked, and its
// bytes have arrived, before its buffer grows to it.
type Decoder struct {
	r      io.Reader
	buf    []byte
	lo, hi int   // unread part of buf
	off    int64 // file offset of buf[lo]
	rec    int
	last   int   // length of the frame that Next returned last
	err    error // terminal
	eof    bool
}

// NewDecoder returns a decoder of the frames in r. Positions in its errors
// count from offset and record number rec.
func NewDecoder(r io.Reader, offset int64, rec int) *Decoder {
	return &Decoder{r: r, off: offset, rec: rec, buf: make([]byte, firstBuffer)}
}

// Offset returns the position after the last frame that Next returned.
func (d *Decoder) Offset() int64 { return d.off }

// Record returns the number of the frame that Next returns next.
func (d *Decoder) Record() int { return d.rec }

// Next returns the next frame. Its payload is valid until the next call. At
// the end of the input it returns io.EOF; where no frame can be read, a
// *Damage; the reader's own error otherwise. Each of these is final.
func (d *Decoder) Next() (Frame, error) {
	if d.err != nil {
		return Frame{}, d.err
	}
	f, n, err := d.parse()
	if err != nil {
		d.err = err
		return Frame{}, err
	}
	d.lo += n
	d.off += int64(n)
	d.rec++
	d.last = n
	return f, nil
}

// Raw returns the bytes of the frame that Next returned last, valid as long as
// its payload.
func (d *Decoder) Raw() []byte { return d.buf[d.lo-d.last : d.lo : d.lo] }

func (d *Decoder) parse() (Frame, int, error) {
	if err := d.fill(FrameHeaderLen); err != nil {
		return Frame{}, 0, err
	}
	if d.lo == d.hi {
		return Frame{}, 0, io.EOF
	}
	if d.hi-d.lo >= FrameHeaderLen {
		if n, err := FrameLen(d.buf[d.lo:d.hi]); err == nil {
			if err := d.fill(n); err != nil {
				return Frame{}, 0, err
			}
		}
	}
	f, n, err := ParseFrame(d.buf[d.lo:d.hi])
	if err != nil {
		return Frame{}, 0, d.damage(err)
	}
	return f, n, nil
}

func (d *Decoder) damage(err error) error {
	for _, class := range []error{ErrTorn, ErrCorrupt, ErrBlank} {
		if errors.Is(err, class) {
			reason := strings.TrimPrefix(strings.TrimPrefix(err.Error(), class.Error()), ": ")
			return &Damage{Offset: d.off, Record: d.rec, Reason: reason, Err: class}
		}
	}
	return err
}

// fill makes n unread bytes available, or as many as there are.
func (d *Decoder) fill(n int) error {
	for d.hi-d.lo < n && !d.eof {
		if d.lo > 0 {
			copy(d.buf, d.buf[d.lo:d.hi])
			d.hi -= d.lo
			d.lo = 0
		}
		if d.hi == len(d.buf) {
			d.buf = append(d.buf, make([]byte, min(len(d.buf), n-len(d.buf)))...)
		}
		m, err := d.r.Read(d.buf[d.hi:])
		d.hi += m
		if errors.Is(err, io.EOF) {
			d.eof = true
		} else if err != nil {
			return err
		}
	}
	return nil
}

// LaterGroup looks through b, the bytes from the first unreadable frame on,
// for a readable frame of a commit group that starts after seq. It returns
// its offset in b, or -1. Finding one proves that the damage is not the
// remains of an interrupted write.
func LaterGroup(b []byte, seq uint64) int {
	for i := 0; i+FrameHeaderLen <= len(b); i++ {
		if !Type(b[i+8]).valid() {
			continue
		}
		f, _, err := ParseFrame(b[i:])
		if err == nil && f.Base > seq {
			return i
		}
	}
	return -1
}
