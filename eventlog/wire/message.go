package wire

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
)

// Proto is the name of the replication protocol in the mesh. A stream carries
// messages of a 4-byte big-endian length, a type byte and a payload. The
// dialer asks, the other side answers each question in order. Pushes may be
// sent ahead of their answers.
const Proto = "skein-log/1"

// MaxAppend is the most bytes that one append may write, encoded, and so the
// least that every host takes in one run.
const MaxAppend = 8 << 20

// maxMessage bounds a message: a run of MaxAppend bytes with its framing.
const maxMessage = MaxAppend + 4<<20

// ErrDropped says that the peer has dropped what was asked for.
var ErrDropped = errors.New("peer no longer retains it")

// ErrPeer is wrapped when another host sends what a correct one would not.
var ErrPeer = errors.New("invalid data from peer")

// longPayload is from where on a payload is not copied behind its length.
const longPayload = 16 << 10

// Type says what a message is.
type Type uint8

// The questions, and the answers to them.
const (
	MsgHeads    Type = 1 // ask: term u64, digest 16 bytes
	MsgPosition Type = 2 // ask: source
	MsgWant     Type = 3 // ask: source, first seq u64
	MsgPush     Type = 4 // ask: run
	MsgPing     Type = 5 // ask: source
	MsgMark     Type = 6 // ask: source, seq u64
	MsgForks    Type = 7 // ask
	MsgProof    Type = 8 // ask: source
	MsgTail     Type = 9 // ask: term 0, digest; answered when the log changes

	MsgPropose  Type = 21 // ask: snapshot without signatures; sign it
	MsgSnapshot Type = 22 // ask: which snapshot is the newest
	MsgState    Type = 23 // ask: id, offset u64; the encoded state from there
	MsgAttest   Type = 24 // ask: id; sign a snapshot that you fold on from

	MsgHeadsAre   Type = 11 // answer: heads
	MsgSame       Type = 12 // answer: the digest is mine too
	MsgAck        Type = 13 // answer: seq u64, hash, promised term u64
	MsgRun        Type = 14 // answer: run
	MsgNothing    Type = 15 // answer: nothing from there on
	MsgRefused    Type = 16 // answer: promised term u64
	MsgSorry      Type = 17 // answer: text; the stream ends
	MsgForksAre   Type = 18 // answer: forks
	MsgProofIs    Type = 19 // answer: proof
	MsgSigned     Type = 31 // answer: signature
	MsgLater      Type = 32 // answer: still folding, ask again
	MsgSnapshotIs Type = 33 // answer: snapshot
	MsgStateIs    Type = 34 // answer: bytes
	MsgCompacted  Type = 35 // answer: oldest seq u64; those before are dropped

	// TextLimit is the longest text of a MsgSorry or a refusal to sign.
	TextLimit = 512
)

// limit is the longest payload of a message.
func (k Type) limit() int {
	if k == MsgProofIs {
		return MaxProof
	}
	return maxMessage
}

// Message is one message of a stream.
type Message struct {
	Kind    Type
	Payload []byte
}

// WriteMessage sends one message, a short one in one Write call.
func WriteMessage(w io.Writer, kind Type, payload []byte) error {
	if limit := kind.limit(); len(payload) > limit {
		return fmt.Errorf("write log message: %d bytes, at most %d are allowed", len(payload), limit)
	}
	first, rest := make([]byte, 5, 5+min(len(payload), longPayload)), payload
	binary.BigEndian.PutUint32(first, uint32(len(payload)))
	first[4] = byte(kind)
	if len(payload) <= longPayload {
		first, rest = append(first, payload...), nil
	}
	_, err := w.Write(first)
	if err == nil && len(rest) > 0 {
		_, err = w.Write(rest)
	}
	if err != nil {
		return fmt.Errorf("write log message: %w", err)
	}
	return nil
}

// ReadMessage reads one message. Memory follows the bytes that arrived, not
// the length that was announced. A clean end is io.EOF; a malformed message
// wraps ErrPeer.
func ReadMessage(r io.Reader) (Message, error) {
	var head [5]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		if errors.Is(err, io.EOF) {
			return Message{}, io.EOF
		}
		return Message{}, fmt.Errorf("read log message: %w", err)
	}
	n := binary.BigEndian.Uint32(head[:])
	m := Message{Kind: Type(head[4])}
	if limit := m.Kind.limit(); n > uint32(limit) {
		return m, fmt.Errorf("%w: message of %d bytes, at most %d are allowed", ErrPeer, n, limit)
	}
	if n <= 64<<10 {
		m.Payload = make([]byte, n)
		if _, err := io.ReadFull(r, m.Payload); err != nil {
			return m, fmt.Errorf("read log message: %w", NoEOF(err))
		}
		return m, nil
	}
	var buf bytes.Buffer
	if _, err := io.CopyN(&buf, r, int64(n)); err != nil {
		return m, fmt.Errorf("read log message: %w", NoEOF(err))
	}
	m.Payload = buf.Bytes()
	return m, nil
}

// NoEOF turns io.EOF into io.ErrUnexpectedEOF.
func NoEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// AppendSource appends the encoding of s.
func AppendSource(b []byte, s event.SourceID) []byte {
	b = append(append(b, byte(len(s.Node))), s.Node...)
	return binary.BigEndian.AppendUint64(b, s.Inc)
}

// CutSource reads a source from the front of b.
func CutSource(b []byte) (s event.SourceID, rest []byte, err error) {
	if len(b) == 0 || len(b) < 1+int(b[0])+8 {
		return s, nil, fmt.Errorf("%w: source cut short", ErrPeer)
	}
	n := 1 + int(b[0])
	node, err := cluster.ParseNodeID(string(b[1:n]))
	if err != nil {
		return s, nil, fmt.Errorf("%w: %w", ErrPeer, err)
	}
	s = event.SourceID{Node: node, Inc: binary.BigEndian.Uint64(b[n:])}
	if s.Inc == 0 {
		return s, nil, fmt.Errorf("%w: incarnation 0", ErrPeer)
	}
	return s, b[n+8:], nil
}

// Ack says what a voter holds of a chain, durably, and which term it had
// promised at a moment after it held that.
type Ack struct {
	Mark     event.Mark
	Promised cluster.Term
}

// Encode returns the payload of MsgAck.
func (a Ack) Encode() []byte {
	b := binary.BigEndian.AppendUint64(nil, a.Mark.Seq)
	b = append(b, a.Mark.Hash[:]...)
	return binary.BigEndian.AppendUint64(b, uint64(a.Promised))
}

// DecodeAck is the inverse of Encode.
func DecodeAck(b []byte) (Ack, error) {
	var a Ack
	if len(b) != 48 {
		return a, fmt.Errorf("%w: acknowledgement of %d bytes", ErrPeer, len(b))
	}
	a.Mark.Seq = binary.BigEndian.Uint64(b)
	copy(a.Mark.Hash[:], b[8:])
	a.Promised = cluster.Term(binary.BigEndian.Uint64(b[40:]))
	return a, nil
}

// HeadsQuestion encodes the payload of MsgHeads and MsgTail.
func HeadsQuestion(term cluster.Term, digest [16]byte) []byte {
	b := binary.BigEndian.AppendUint64(nil, uint64(term))
	return append(b, digest[:]...)
}
