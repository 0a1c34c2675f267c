package eventlog

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/eventlog/record"
)

// Proto is the name of the replication protocol in the mesh. A stream carries
// messages of a 4-byte big-endian length, a type byte and a payload. The
// dialer asks, the other side answers each question in order. Pushes may be
// sent ahead of their answers.
const Proto = "skein-log/1"

// maxMessage bounds a message: a run of MaxAppend bytes with its framing.
const maxMessage = MaxAppend + 4<<20

// longPayload is from where on a payload is not copied behind its length.
const longPayload = 16 << 10

type messageType uint8

const (
	msgHeads    messageType = 1 // ask: term u64, digest 16 bytes
	msgPosition messageType = 2 // ask: source
	msgWant     messageType = 3 // ask: source, first seq u64
	msgPush     messageType = 4 // ask: run
	msgPing     messageType = 5 // ask: source
	msgMark     messageType = 6 // ask: source, seq u64
	msgForks    messageType = 7 // ask
	msgProof    messageType = 8 // ask: source
	msgTail     messageType = 9 // ask: term 0, digest; answered when the log changes

	msgPropose  messageType = 21 // ask: snapshot without signatures; sign it
	msgSnapshot messageType = 22 // ask: which snapshot is the newest
	msgState    messageType = 23 // ask: id, offset u64; the encoded state from there
	msgAttest   messageType = 24 // ask: id; sign a snapshot that you fold on from

	msgHeadsAre   messageType = 11 // answer: heads
	msgSame       messageType = 12 // answer: the digest is mine too
	msgAck        messageType = 13 // answer: seq u64, hash, promised term u64
	msgRun        messageType = 14 // answer: run
	msgNothing    messageType = 15 // answer: nothing from there on
	msgRefused    messageType = 16 // answer: promised term u64
	msgSorry      messageType = 17 // answer: text; the stream ends
	msgForksAre   messageType = 18 // answer: forks
	msgProofIs    messageType = 19 // answer: proof
	msgSigned     messageType = 31 // answer: signature
	msgLater      messageType = 32 // answer: still folding, ask again
	msgSnapshotIs messageType = 33 // answer: snapshot
	msgStateIs    messageType = 34 // answer: bytes
	msgCompacted  messageType = 35 // answer: oldest seq u64; those before are dropped

	msgTextLimit = 512
)

// limit is the longest payload of a message.
func (k messageType) limit() int {
	if k == msgProofIs {
		return maxProof
	}
	return maxMessage
}

type message struct {
	kind    messageType
	payload []byte
}

// writeMessage sends one message, a short one in one Write call.
func writeMessage(w io.Writer, kind messageType, payload []byte) error {
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

// readMessage reads one message. Memory follows the bytes that arrived, not
// the length that was announced. A clean end is io.EOF; a malformed message
// wraps ErrPeer.
func readMessage(r io.Reader) (message, error) {
	var head [5]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		if errors.Is(err, io.EOF) {
			return message{}, io.EOF
		}
		return message{}, fmt.Errorf("read log message: %w", err)
	}
	n := binary.BigEndian.Uint32(head[:])
	m := message{kind: messageType(head[4])}
	if limit := m.kind.limit(); n > uint32(limit) {
		return m, fmt.Errorf("%w: message of %d bytes, at most %d are allowed", ErrPeer, n, limit)
	}
	if n <= 64<<10 {
		m.payload = make([]byte, n)
		if _, err := io.ReadFull(r, m.payload); err != nil {
			return m, fmt.Errorf("read log message: %w", noEOF(err))
		}
		return m, nil
	}
	var buf bytes.Buffer
	if _, err := io.CopyN(&buf, r, int64(n)); err != nil {
		return m, fmt.Errorf("read log message: %w", noEOF(err))
	}
	m.payload = buf.Bytes()
	return m, nil
}

func noEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

func appendSource(b []byte, s cluster.SourceID) []byte {
	b = append(append(b, byte(len(s.Node))), s.Node...)
	return binary.BigEndian.AppendUint64(b, s.Inc)
}

// cutSource reads a source from the front of b.
func cutSource(b []byte) (s cluster.SourceID, rest []byte, err error) {
	if len(b) == 0 || len(b) < 1+int(b[0])+8 {
		return s, nil, fmt.Errorf("%w: source cut short", ErrPeer)
	}
	n := 1 + int(b[0])
	node, err := cluster.ParseNodeID(string(b[1:n]))
	if err != nil {
		return s, nil, fmt.Errorf("%w: %w", ErrPeer, err)
	}
	s = cluster.SourceID{Node: node, Inc: binary.BigEndian.Uint64(b[n:])}
	if s.Inc == 0 {
		return s, nil, fmt.Errorf("%w: incarnation 0", ErrPeer)
	}
	return s, b[n+8:], nil
}

// ack says what a voter holds of a chain, durably, and its promised term at a
// moment after it held it.
type ack struct {
	mark     cluster.Mark
	promised cluster.Term
}

func (a ack) encode() []byte {
	b := binary.BigEndian.AppendUint64(nil, a.mark.Seq)
	b = append(b, a.mark.Hash[:]...)
	return binary.BigEndian.AppendUint64(b, uint64(a.promised))
}

func decodeAck(b []byte) (ack, error) {
	var a ack
	if len(b) != 48 {
		return a, fmt.Errorf("%w: acknowledgement of %d bytes", ErrPeer, len(b))
	}
	a.mark.Seq = binary.BigEndian.Uint64(b)
	copy(a.mark.Hash[:], b[8:])
	a.promised = cluster.Term(binary.BigEndian.Uint64(b[40:]))
	return a, nil
}

// run is a verified piece of a chain: dense events and the signed head after
// the last one.
type run struct {
	events   []cluster.Event
	payloads [][]byte // what the events were decoded from
	head     cluster.Head
	bytes    int
}

// decodeRun reads the frames of a run and checks everything but the
// signature and the clock. Bodies alias b.
func decodeRun(b []byte) (*run, error) {
	ru := &run{bytes: len(b)}
	if n := min(countFrames(b), len(b)/leastFrame); n > 1 {
		ru.events, ru.payloads = make([]cluster.Event, 0, n-1), make([][]byte, 0, n-1)
	}
	for len(b) > 0 {
		fr, n, err := record.ParseFrame(b)
		if err != nil {
			return nil, fmt.Errorf("%w: run: %w", ErrPeer, err)
		}
		b = b[n:]
		switch fr.Type {
		case record.TypeEvent:
			if err := ru.add(fr.Payload); err != nil {
				return nil, fmt.Errorf("%w: run: %w", ErrPeer, err)
			}
		case record.TypeHead:
			if ru.head, err = record.DecodeHead(fr.Payload); err != nil {
				return nil, fmt.Errorf("%w: run: %w", ErrPeer, err)
			}
			if len(b) > 0 || len(ru.events) == 0 {
				return nil, fmt.Errorf("%w: run: its head is not the last of several frames", ErrPeer)
			}
		default:
			return nil, fmt.Errorf("%w: run with a %s frame", ErrPeer, fr.Type)
		}
	}
	if len(ru.events) == 0 || ru.head.Seq == 0 {
		return nil, fmt.Errorf("%w: run without head", ErrPeer)
	}
	last := ru.events[len(ru.events)-1]
	if ru.head.Source != last.Source || ru.head.Seq != last.Seq || ru.head.Hash != last.Hash {
		return nil, fmt.Errorf("%w: run of %s: the head is not that of its last event", ErrPeer, last.Source)
	}
	return ru, nil
}

// runEnd reads only where a run ends: its last frame, a head.
func runEnd(b []byte) (cluster.Head, error) {
	for len(b) >= record.FrameHeaderLen {
		n, err := record.FrameLen(b)
		if err != nil || n > len(b) {
			break
		}
		if n == len(b) {
			h, err := record.DecodeHead(b[record.FrameHeaderLen:])
			if err != nil {
				break
			}
			return h, nil
		}
		b = b[n:]
	}
	return cluster.Head{}, fmt.Errorf("%w: run without head", ErrPeer)
}

// leastFrame is shorter than the frame of any event.
const leastFrame = 80

// countFrames says how many frames b seems to hold.
func countFrames(b []byte) (n int) {
	for len(b) >= record.FrameHeaderLen {
		length, err := record.FrameLen(b)
		if err != nil || length > len(b) {
			break
		}
		b = b[length:]
		n++
	}
	return n
}

func (ru *run) add(payload []byte) error {
	var node cluster.NodeID
	if n := len(ru.events); n > 0 {
		node = ru.events[n-1].Source.Node
	}
	e, err := record.DecodeNext(payload, node)
	if err != nil {
		return err
	}
	if err := record.CheckBody(e); err != nil {
		return err
	}
	if n := len(ru.events); n > 0 {
		p := ru.events[n-1]
		switch {
		case e.Source != p.Source:
			return fmt.Errorf("events of %s and %s", p.Source, e.Source)
		case e.Seq != p.Seq+1:
			return fmt.Errorf("%s: seq %d after %d", e.Source, e.Seq, p.Seq)
		case e.Prev != p.Hash:
			return fmt.Errorf("%s: hash chain broken at seq %d", e.Source, e.Seq)
		case e.HLC <= p.HLC:
			return fmt.Errorf("%s: clock goes back at seq %d", e.Source, e.Seq)
		}
	}
	ru.events, ru.payloads = append(ru.events, e), append(ru.payloads, payload)
	return nil
}
