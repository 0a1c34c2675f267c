package record

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
)

// Limits.
const (
	// MaxPayload is the longest payload of a frame, in bytes.
	MaxPayload = 16 << 20
	// MaxBody is the longest body of an event, in bytes.
	MaxBody = MaxPayload - 1024
	// MaxKind is the longest kind of event, in bytes.
	MaxKind = 64
)

const version = 1

// AppendEvent appends the canonical encoding of e to dst. e.Hash is not part
// of it.
func AppendEvent(dst []byte, e event.Event) ([]byte, error) {
	if err := CheckEvent(e); err != nil {
		return dst, err
	}
	return AppendChecked(dst, &e), nil
}

// AppendChecked is AppendEvent of an event that CheckEvent would find nothing
// against.
func AppendChecked(dst []byte, e *event.Event) []byte {
	dst = appendSource(append(dst, version), e.Source)
	dst = binary.BigEndian.AppendUint64(dst, e.Seq)
	dst = append(dst, e.Prev[:]...)
	dst = binary.BigEndian.AppendUint64(dst, uint64(e.HLC))
	dst = binary.BigEndian.AppendUint64(dst, uint64(e.Term))
	dst = append(dst, byte(len(e.Kind)))
	dst = append(dst, e.Kind...)
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(e.Body)))
	return append(dst, e.Body...)
}

// EventLen returns the length of the encoding of e.
func EventLen(e event.Event) int {
	return 1 + 1 + len(e.Source.Node) + 8 + 8 + len(e.Prev) + 8 + 8 + 1 + len(e.Kind) + 4 + len(e.Body)
}

// CheckEvent reports what keeps e from being encoded.
func CheckEvent(e event.Event) error {
	if _, err := cluster.ParseNodeID(string(e.Source.Node)); err != nil {
		return invalid("source: %v", err)
	}
	return checkFields(e)
}

// checkFields is CheckEvent of all but the source's name.
func checkFields(e event.Event) error {
	switch {
	case e.Source.Inc == 0:
		return invalid("incarnation 0")
	case e.Seq == 0:
		return invalid("seq 0")
	case e.Seq == 1 && !e.Prev.IsZero():
		return invalid("first event with a previous hash")
	case !validKind(e.Kind):
		return invalid("kind %.80q", e.Kind)
	case len(e.Body) > MaxBody:
		return invalid("body of %d bytes, at most %d are allowed", len(e.Body), MaxBody)
	}
	return nil
}

func validKind(k event.Kind) bool {
	if k == "" || len(k) > MaxKind {
		return false
	}
	for i := range len(k) {
		if c := k[i]; (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '_' {
			return false
		}
	}
	return true
}

// DecodeEvent reads the payload of an event frame and computes its hash. The
// body aliases b. It does not look into the body; see CheckBody.
func DecodeEvent(b []byte) (event.Event, error) { return DecodeNext(b, "") }

// DecodeNext is DecodeEvent of an event that probably comes from node, a valid
// name: if so, the name is shared.
func DecodeNext(b []byte, node cluster.NodeID) (event.Event, error) {
	r := reader{b: b}
	var e event.Event
	if v := r.u8(); v != version && !r.short {
		return e, invalid("event version %d", v)
	}
	name := r.bytes(int(r.u8()))
	if string(name) != string(node) {
		node = ""
	}
	if e.Source.Node = node; node == "" {
		e.Source.Node = cluster.NodeID(name)
	}
	e.Source.Inc = r.u64()
	e.Seq = r.u64()
	copy(e.Prev[:], r.bytes(len(e.Prev)))
	e.HLC = cluster.HLC(r.u64())
	e.Term = cluster.Term(r.u64())
	e.Kind = kindOf(r.bytes(int(r.u8())))
	n := r.u32()
	if n > MaxBody {
		return event.Event{}, invalid("body of %d bytes", n)
	}
	e.Body = json.RawMessage(r.bytes(int(n)))
	if err := r.done("event"); err != nil {
		return event.Event{}, err
	}
	check := checkFields
	if node == "" {
		check = CheckEvent
	}
	if err := check(e); err != nil {
		return event.Event{}, err
	}
	e.Hash = HashEvent(e.Prev, b)
	return e, nil
}

// kindOf shares the names of the kinds that are frequent.
func kindOf(b []byte) event.Kind {
	for _, k := range [...]event.Kind{event.KindChunksAccepted, event.KindChunksAssigned, event.KindChunkAccepted} {
		if string(b) == string(k) {
			return k
		}
	}
	return event.Kind(b)
}

// EventSeq reads only the sequence number of the payload of an event frame.
func EventSeq(b []byte) (uint64, error) {
	r := reader{b: b}
	v := r.u8()
	r.bytes(int(r.u8()) + 8) // source
	seq := r.u64()
	if r.short || v != version {
		return 0, invalid("event of version %d and %d bytes", v, len(b))
	}
	return seq, nil
}

// CheckBody refuses an event whose body is not a JSON object, or that uses
// authority without a term. What comes from another host must pass it.
func CheckBody(e event.Event) error {
	if len(e.Body) == 0 || e.Body[0] != '{' || !json.Valid(e.Body) {
		return invalid("%s: body of seq %d is not a JSON object", e.Source, e.Seq)
	}
	if e.Term == 0 && e.Kind.Known() && e.Kind.Authority() {
		return invalid("%s: %s at seq %d without a term", e.Source, e.Kind, e.Seq)
	}
	return nil
}

// HashEvent returns SHA-256("evt1" || prev || payload).
func HashEvent(prev cluster.Hash, payload []byte) cluster.Hash {
	var room [1024]byte
	if len(payload) <= len(room)-len("evt1")-len(prev) { // in one piece: a third faster
		return sha256.Sum256(append(append(append(room[:0], "evt1"...), prev[:]...), payload...))
	}
	h := sha256.New()
	h.Write([]byte("evt1"))
	h.Write(prev[:])
	h.Write(payload)
	var sum cluster.Hash
	h.Sum(sum[:0])
	return sum
}

func appendSource(dst []byte, s event.SourceID) []byte {
	dst = append(dst, byte(len(s.Node)))
	dst = append(dst, s.Node...)
	return binary.BigEndian.AppendUint64(dst, s.Inc)
}

// reader takes values from the front of b and remembers if it ran out.
type reader struct {
	b     []byte
	short bool
}

func (r *reader) bytes(n int) []byte {
	if n > len(r.b) {
		r.short, r.b = true, nil
		return nil
	}
	out := r.b[:n:n]
	r.b = r.b[n:]
	return out
}

func (r *reader) u8() byte {
	if b := r.bytes(1); b != nil {
		return b[0]
	}
	return 0
}

func (r *reader) u32() uint32 {
	if b := r.bytes(4); b != nil {
		return binary.BigEndian.Uint32(b)
	}
	return 0
}

func (r *reader) u64() uint64 {
	if b := r.bytes(8); b != nil {
		return binary.BigEndian.Uint64(b)
	}
	return 0
}

func (r *reader) source() event.SourceID {
	node := cluster.NodeID(r.bytes(int(r.u8())))
	return event.SourceID{Node: node, Inc: r.u64()}
}

// done reports a payload that was too short or too long.
func (r *reader) done(what string) error {
	switch {
	case r.short:
		return invalid("%s cut short", what)
	case len(r.b) > 0:
		return invalid("%s with %d bytes too many", what, len(r.b))
	}
	return nil
}
