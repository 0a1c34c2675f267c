package canon

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/cluster/job"
)

// ErrEncoding is wrapped by every error of a Reader.
var ErrEncoding = errors.New("not the canonical bytes of a state")

// Reader reads what a Writer wrote. After an error it returns zeros, and Err
// tells the error.
type Reader struct {
	b       []byte
	err     error
	nodes   []cluster.NodeID
	sources []event.SourceID
}

// NewReader returns a Reader of b that knows no host and no source.
func NewReader(b []byte) *Reader { return &Reader{b: b, nodes: []cluster.NodeID{""}} }

// Err returns the first error, which wraps ErrEncoding.
func (r *Reader) Err() error { return r.err }

// OK reports whether there was no error so far. Loops ask it, as a count may be
// larger than what follows.
func (r *Reader) OK() bool { return r.err == nil }

// Len returns how many bytes are left, 0 after an error.
func (r *Reader) Len() int { return len(r.b) }

// Rest returns the bytes that are left.
func (r *Reader) Rest() []byte { return r.b }

// Fail notes an error, of which the first counts.
func (r *Reader) Fail(format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf("%w: %s", ErrEncoding, fmt.Sprintf(format, args...))
		r.b = nil
	}
}

// Check fails unless ok.
func (r *Reader) Check(ok bool, what string) {
	if !ok {
		r.Fail("invalid %s", what)
	}
}

// Bytes reads so many bytes; they are part of what NewReader was given.
func (r *Reader) Bytes(n uint64) []byte {
	if n > uint64(len(r.b)) {
		r.Fail("cut short")
		return nil
	}
	out := r.b[:n:n]
	r.b = r.b[n:]
	return out
}

// Byte reads one byte.
func (r *Reader) Byte() byte {
	if b := r.Bytes(1); b != nil {
		return b[0]
	}
	return 0
}

// Num reads a number.
func (r *Reader) Num() uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 {
		r.Fail("cut short")
		return 0
	}
	r.b = r.b[n:]
	return v
}

// Count reads how many things follow, of which each has at least one byte.
func (r *Reader) Count() int {
	n := r.Num()
	if n > uint64(len(r.b)) {
		r.Fail("%d entries in %d bytes", n, len(r.b))
		return 0
	}
	return int(n)
}

// Int reads a number that is not the length of anything.
func (r *Reader) Int() int {
	n := r.Num()
	if n > math.MaxInt32 {
		r.Fail("number %d", n)
		return 0
	}
	return int(n)
}

// Fixed reads eight bytes.
func (r *Reader) Fixed() uint64 {
	if b := r.Bytes(8); b != nil {
		return binary.BigEndian.Uint64(b)
	}
	return 0
}

// Clock reads a time.
func (r *Reader) Clock() cluster.HLC { return cluster.HLC(r.Fixed()) }

// Float reads a float, bit by bit.
func (r *Reader) Float() float64 { return math.Float64frombits(r.Fixed()) }

// Term reads a term.
func (r *Reader) Term() cluster.Term { return cluster.Term(r.Num()) }

// Flag reads one byte, 0 or 1.
func (r *Reader) Flag() bool {
	b := r.Byte()
	r.Check(b <= 1, "flag")
	return b == 1
}

// Text reads a text of at most limit bytes.
func (r *Reader) Text(limit int) string {
	n := r.Num()
	if n > uint64(limit) {
		r.Fail("text of %d bytes, at most %d are allowed", n, limit)
		return ""
	}
	return string(r.Bytes(n))
}

// Hash reads 32 bytes.
func (r *Reader) Hash() (h cluster.Hash) {
	copy(h[:], r.Bytes(uint64(len(h))))
	return h
}

// Node reads a host; with optional, there may be none.
func (r *Reader) Node(optional bool) cluster.NodeID {
	i := r.Num()
	switch {
	case i < uint64(len(r.nodes)):
		r.Check(optional || i > 0, "host")
		return r.nodes[i]
	case i > uint64(len(r.nodes)):
		r.Fail("host %d of %d", i, len(r.nodes))
		return ""
	}
	n := cluster.NodeID(r.Text(cluster.MaxNodeIDLen))
	r.Check(IsNode(n, false), "host")
	r.nodes = append(r.nodes, n)
	return n
}

// Nodes reads a list of at most MaxVoters hosts.
func (r *Reader) Nodes() []cluster.NodeID {
	n := r.Count()
	r.Check(n <= cluster.MaxVoters, "list of voters")
	var out []cluster.NodeID
	for i := 0; i < n && r.err == nil; i++ {
		out = append(out, r.Node(false))
	}
	return out
}

// Source reads a source.
func (r *Reader) Source() event.SourceID {
	i := r.Num()
	switch {
	case i < uint64(len(r.sources)):
		return r.sources[i]
	case i > uint64(len(r.sources)):
		r.Fail("source %d of %d", i, len(r.sources))
		return event.SourceID{}
	}
	s := event.SourceID{Node: r.Node(false), Inc: r.Num()}
	r.sources = append(r.sources, s)
	return s
}

// Key reads the key of an event, which is never zero.
func (r *Reader) Key() Key {
	k := Key{HLC: r.Clock(), Source: r.Source(), Seq: r.Num()}
	r.Check(k.Seq > 0, "sequence number")
	return k
}

// Moments reads a metric without its sketch.
func (r *Reader) Moments() (m job.Metric) {
	if m.N = r.Num(); m.N > 0 {
		m.Mean, m.M2, m.Min, m.Max = r.Float(), r.Float(), r.Float(), r.Float()
	}
	return m
}

// Sketch reads a sketch. It does not say whether there can be such a one, which is
// for Sketch.Validate.
func (r *Reader) Sketch() *job.Sketch {
	s := &job.Sketch{Level: r.Int(), Zero: r.Num()}
	for _, side := range [...]*[]int64{&s.Below, &s.Above} {
		n := r.Count()
		r.Check(n <= job.MaxMergedBuckets, "sketch")
		index := int64(-indexShift)
		for ; n > 0 && r.err == nil; n-- {
			index += int64(r.Int())
			*side = append(*side, index, int64(min(r.Num(), math.MaxInt64)))
		}
	}
	return s
}

// ReadRegister reads a value with its key, if it was ever set.
func ReadRegister[T any](r *Reader, value func() T) (reg Register[T]) {
	if r.Flag() {
		reg.At = r.Key()
		reg.V = value()
	}
	return reg
}
