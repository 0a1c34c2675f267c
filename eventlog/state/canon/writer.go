package canon

import (
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"math"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/cluster/job"
)

// Writer writes values as canonical bytes: numbers as varints, clocks and floats
// in eight bytes with the highest first, texts after their length. The first time
// a host or a source occurs it is written out, and by its number from then on.
type Writer struct {
	b       []byte
	sum     hash.Hash // if not nil, b is fed to it now and then
	nodes   map[cluster.NodeID]uint64
	sources map[event.SourceID]uint64
}

// hashBuffer is how much is collected before it is hashed, in bytes.
const hashBuffer = 64 << 10

// NewWriter returns a Writer that appends to dst and knows no host and no source.
func NewWriter(dst []byte) *Writer {
	return &Writer{b: dst, nodes: map[cluster.NodeID]uint64{"": 0}, sources: make(map[event.SourceID]uint64)}
}

// NewHasher returns a Writer of which only the Sum is wanted, which begins with
// prefix.
func NewHasher(prefix string) *Writer {
	w := NewWriter([]byte(prefix))
	w.sum = sha256.New()
	return w
}

// Written returns what was given to NewWriter and what was written since.
func (w *Writer) Written() []byte { return w.b }

// Sum returns the SHA-256 of what was written with a hasher.
func (w *Writer) Sum() cluster.Hash {
	w.flush(0)
	return cluster.Hash(w.sum.Sum(nil))
}

// Flush bounds the memory of a hasher. Who writes much calls it now and then.
func (w *Writer) Flush() { w.flush(hashBuffer) }

func (w *Writer) flush(above int) {
	if w.sum != nil && len(w.b) > above {
		w.sum.Write(w.b)
		w.b = w.b[:0]
	}
}

// Num writes a number.
func (w *Writer) Num(v uint64) { w.b = binary.AppendUvarint(w.b, v) }

// Count writes a number that is not negative.
func (w *Writer) Count(n int) { w.Num(uint64(n)) }

// Fixed writes eight bytes.
func (w *Writer) Fixed(v uint64) { w.b = binary.BigEndian.AppendUint64(w.b, v) }

// Clock writes a time.
func (w *Writer) Clock(v cluster.HLC) { w.Fixed(uint64(v)) }

// Float writes a float, bit by bit.
func (w *Writer) Float(v float64) { w.Fixed(math.Float64bits(v)) }

// Byte writes one byte.
func (w *Writer) Byte(v byte) { w.b = append(w.b, v) }

// Raw writes bytes whose number the reader knows.
func (w *Writer) Raw(v []byte) { w.b = append(w.b, v...) }

// Flag writes one byte, 0 or 1.
func (w *Writer) Flag(v bool) {
	if v {
		w.Byte(1)
		return
	}
	w.Byte(0)
}

// Text writes a text after its length.
func (w *Writer) Text(s string) {
	w.Count(len(s))
	w.b = append(w.b, s...)
}

// Node writes a host, or none.
func (w *Writer) Node(n cluster.NodeID) {
	i, ok := w.nodes[n]
	if !ok {
		i = uint64(len(w.nodes))
		w.nodes[n] = i
		w.Num(i)
		w.Text(string(n))
		return
	}
	w.Num(i)
}

// Nodes writes a list of hosts.
func (w *Writer) Nodes(list []cluster.NodeID) {
	w.Count(len(list))
	for _, n := range list {
		w.Node(n)
	}
}

// Source writes a source.
func (w *Writer) Source(s event.SourceID) {
	i, ok := w.sources[s]
	if !ok {
		i = uint64(len(w.sources))
		w.sources[s] = i
		w.Num(i)
		w.Node(s.Node)
		w.Num(s.Inc)
		return
	}
	w.Num(i)
}

// Key writes the key of an event.
func (w *Writer) Key(k Key) {
	w.Clock(k.HLC)
	w.Source(k.Source)
	w.Num(k.Seq)
}

// Moments writes a metric without its sketch.
func (w *Writer) Moments(m job.Metric) {
	w.Num(m.N)
	if m.N == 0 {
		return
	}
	for _, v := range [...]float64{m.Mean, m.M2, m.Min, m.Max} {
		w.Float(v)
	}
}

// Sketch writes a sketch, which is not nil.
func (w *Writer) Sketch(s *job.Sketch) { w.b = AppendSketch(w.b, s) }

// AppendSketch appends the canonical bytes of a sketch, which is not nil.
func AppendSketch(b []byte, s *job.Sketch) []byte {
	b = binary.AppendUvarint(b, uint64(s.Level))
	b = binary.AppendUvarint(b, s.Zero)
	for _, side := range [...][]int64{s.Below, s.Above} {
		b = binary.AppendUvarint(b, uint64(len(side)/2))
		for i := 0; i+1 < len(side); i += 2 {
			if i == 0 {
				b = binary.AppendUvarint(b, uint64(side[0]+indexShift))
			} else {
				b = binary.AppendUvarint(b, uint64(side[i]-side[i-2]))
			}
			b = binary.AppendUvarint(b, uint64(side[i+1]))
		}
	}
	return b
}

// indexShift makes every index of a bucket positive.
const indexShift = 1 << 14

// WriteRegister writes a value with its key, if it was ever set.
func WriteRegister[T any](w *Writer, r Register[T], write func(T)) {
	w.Flag(!r.At.IsZero())
	if !r.At.IsZero() {
		w.Key(r.At)
		write(r.V)
	}
}
