package record

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
)

// Type says what a frame carries.
type Type uint8

// Frame types. 0 is blank space.
const (
	TypeHeader Type = 1
	TypeEvent  Type = 2
	TypeHead   Type = 3
	TypeSeal   Type = 4
)

func (t Type) valid() bool { return t >= TypeHeader && t <= TypeSeal }

// String returns the type's name.
func (t Type) String() string {
	switch t {
	case TypeHeader:
		return "header"
	case TypeEvent:
		return "event"
	case TypeHead:
		return "head"
	case TypeSeal:
		return "seal"
	}
	return fmt.Sprintf("type(%d)", uint8(t))
}

// FrameHeaderLen is the number of bytes before a frame's payload.
const FrameHeaderLen = 17

// Frame is one record of a segment.
type Frame struct {
	Type Type
	// Base is the seq of the first event of the frame's commit group.
	Base    uint64
	Payload []byte
}

func castagnoli() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) }

// BeginFrame appends the space of a frame header to dst. The payload is to be
// appended after it, then FinishFrame called with the length of dst before
// BeginFrame.
func BeginFrame(dst []byte) []byte { return append(dst, make([]byte, FrameHeaderLen)...) }

// FinishFrame fills in the header of the frame that began at start and runs
// to the end of b.
func FinishFrame(b []byte, start int, t Type, base uint64) error {
	f := b[start:]
	n := len(f) - FrameHeaderLen
	if n > MaxPayload {
		return invalid("payload of %d bytes, at most %d are allowed", n, MaxPayload)
	}
	binary.LittleEndian.PutUint32(f[0:], uint32(n))
	f[8] = byte(t)
	binary.LittleEndian.PutUint64(f[9:], base)
	binary.LittleEndian.PutUint32(f[4:], sum(f))
	return nil
}

// AppendFrame appends f to dst.
func AppendFrame(dst []byte, f Frame) ([]byte, error) {
	start := len(dst)
	dst = append(BeginFrame(dst), f.Payload...)
	if err := FinishFrame(dst, start, f.Type, f.Base); err != nil {
		return dst[:start], err
	}
	return dst, nil
}

// sum is the checksum of a whole frame, without the checksum field.
func sum(f []byte) uint32 {
	t := castagnoli()
	return crc32.Update(crc32.Update(0, t, f[:4]), t, f[8:])
}

// FrameLen checks the fixed fields of a frame header, the first FrameHeaderLen
// bytes of h, and returns the length of the whole frame.
func FrameLen(h []byte) (int, error) {
	n := binary.LittleEndian.Uint32(h)
	switch t := Type(h[8]); {
	case n == 0 && t == 0 && binary.LittleEndian.Uint32(h[4:]) == 0 && binary.LittleEndian.Uint64(h[9:]) == 0:
		return 0, ErrBlank
	case n > MaxPayload:
		return 0, fmt.Errorf("%w: length %d, at most %d are allowed", ErrCorrupt, n, MaxPayload)
	case !t.valid():
		return 0, fmt.Errorf("%w: unknown type %d", ErrCorrupt, uint8(t))
	}
	return FrameHeaderLen + int(n), nil
}

// ParseFrame reads the frame at the start of b and returns its length. The
// payload aliases b. Errors wrap ErrTorn, ErrCorrupt or ErrBlank.
func ParseFrame(b []byte) (Frame, int, error) {
	if len(b) < FrameHeaderLen {
		for _, c := range b {
			if c != 0 {
				return Frame{}, 0, fmt.Errorf("%w: %d bytes of a header", ErrTorn, len(b))
			}
		}
		return Frame{}, 0, ErrBlank
	}
	n, err := FrameLen(b)
	if err != nil {
		return Frame{}, 0, err
	}
	if n > len(b) {
		return Frame{}, 0, fmt.Errorf("%w: %d of %d bytes", ErrTorn, len(b), n)
	}
	f := b[:n:n]
	if got, want := sum(f), binary.LittleEndian.Uint32(f[4:]); got != want {
		return Frame{}, 0, fmt.Errorf("%w: checksum %08x, want %08x", ErrCorrupt, got, want)
	}
	return Frame{
		Type:    Type(f[8]),
		Base:    binary.LittleEndian.Uint64(f[9:]),
		Payload: f[FrameHeaderLen:],
	}, n, nil
}
