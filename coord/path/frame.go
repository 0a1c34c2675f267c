package path

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Kind is what a frame is.
type Kind byte

// The kinds of frames; others are skipped.
const (
	KindDatagram Kind = 1 // one message, as it would be a datagram of the mesh
	KindPing     Kind = 2 // whether the sender is deaf to the receiver
	KindPong     Kind = 3 // the answer, says the same of the other
)

// Limits of a frame.
const (
	MaxMessage = 1200 // bytes of a message
	maxFrame   = 2048 // of what a later version may send
	headLen    = 4
)

// ErrFrame says that what came is no frame; the stream is of no more use.
var ErrFrame = errors.New("not a frame")

// Frame is one unit of a stream: a 4-byte big-endian length, a byte for the
// kind, and what that needs.
type Frame struct {
	Kind Kind
	Deaf bool   // of a ping or pong
	Body []byte // of a datagram
}

// Append appends f to b.
func (f Frame) Append(b []byte) []byte {
	body := f.Body
	if f.Kind != KindDatagram {
		body = []byte{0}
		if f.Deaf {
			body[0] = 1
		}
	}
	b = binary.BigEndian.AppendUint32(b, uint32(1+len(body)))
	return append(append(b, byte(f.Kind)), body...)
}

// Length reads the 4 bytes before a frame: how many follow.
func Length(head [headLen]byte) (int, error) {
	n := binary.BigEndian.Uint32(head[:])
	if n == 0 || n > maxFrame {
		return 0, fmt.Errorf("%w: %d bytes, want 1-%d", ErrFrame, n, maxFrame)
	}
	return int(n), nil
}

// Parse reads what stands behind the length. The frame shares b. A kind that
// is not known is no error.
func Parse(b []byte) (Frame, error) {
	if len(b) == 0 {
		return Frame{}, fmt.Errorf("%w: empty", ErrFrame)
	}
	f, body := Frame{Kind: Kind(b[0])}, b[1:]
	switch f.Kind {
	case KindDatagram:
		if len(body) == 0 || len(body) > MaxMessage {
			return Frame{}, fmt.Errorf("%w: message of %d bytes, want 1-%d", ErrFrame, len(body), MaxMessage)
		}
		f.Body = body
	case KindPing, KindPong:
		// What follows the first byte is a later version's.
		if len(body) == 0 || body[0] > 1 {
			return Frame{}, fmt.Errorf("%w: ping or pong without its word", ErrFrame)
		}
		f.Deaf = body[0] == 1
	}
	return f, nil
}
