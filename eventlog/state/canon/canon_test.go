package canon

import (
	"crypto/sha256"
	"errors"
	"reflect"
	"testing"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/cluster/job"
)

// TestReadsWhatWasWritten writes one of everything, hosts and sources twice.
func TestReadsWhatWasWritten(t *testing.T) {
	a, b := event.SourceID{Node: "a", Inc: 1}, event.SourceID{Node: "b", Inc: 2}
	metric := job.Metric{N: 3, Mean: 2, M2: 1, Min: 1, Max: 3}
	sketch := &job.Sketch{Level: 1, Zero: 2, Below: []int64{-5, 1, 7, 2}, Above: []int64{0, 4}}
	set := Register[string]{At: Key{HLC: 9, Source: b, Seq: 4}, V: "why"}
	write := func(w *Writer) {
		w.Num(300)
		w.Count(2)
		w.Byte(7)
		w.Flag(true)
		w.Clock(1 << 40)
		w.Float(-0.5)
		w.Text("text")
		w.Nodes([]cluster.NodeID{"a", "b", "a"})
		w.Node("")
		w.Source(a)
		w.Source(b)
		w.Source(a)
		w.Moments(metric)
		w.Moments(job.Metric{})
		w.Sketch(sketch)
		WriteRegister(w, set, w.Text)
		WriteRegister(w, Register[string]{}, w.Text)
		w.Raw(make([]byte, 32))
	}
	w := NewWriter(nil)
	write(w)
	r := NewReader(w.Written())
	got := []any{
		r.Num(), r.Count(), r.Byte(), r.Flag(), r.Clock(), r.Float(), r.Text(4), r.Nodes(), r.Node(true), r.Source(), r.Source(), r.Source(),
		r.Moments(), r.Moments(), r.Sketch(),
		ReadRegister(r, func() string { return r.Text(3) }), ReadRegister(r, func() string { return r.Text(3) }), r.Hash(),
	}
	want := []any{
		uint64(300), 2, byte(7), true, cluster.HLC(1 << 40), -0.5, "text",
		[]cluster.NodeID{"a", "b", "a"},
		cluster.NodeID(""), a, b, a,
		metric,
		job.Metric{},
		sketch, set,
		Register[string]{},
		cluster.Hash{},
	}
	if r.Err() != nil || r.Len() != 0 || !reflect.DeepEqual(got, want) {
		t.Errorf("%v, %d bytes left, read %+v\nwant %+v", r.Err(), r.Len(), got, want)
	}
	for i := range w.Written() {
		r := NewReader(w.Written()[:i])
		r.Bytes(uint64(i) + 1)
		if !errors.Is(r.Err(), ErrEncoding) || r.OK() || r.Len() != 0 || r.Num() != 0 {
			t.Fatalf("a byte more than there are: %v", r.Err())
		}
	}
	h := NewHasher("prefix")
	write(h)
	h.Flush()
	if h.Sum() != cluster.Hash(sha256.Sum256(append([]byte("prefix"), w.Written()...))) {
		t.Error("a hasher hashes other bytes than are written")
	}
}

// TestRegisters: what is kept does not depend on the order.
func TestRegisters(t *testing.T) {
	one, two := Key{HLC: 1, Seq: 2}, Key{HLC: 2, Seq: 1}
	for _, order := range [][]Key{{one, two}, {two, one}} {
		var first, last Register[Key]
		for _, k := range order {
			first.First(k, k)
			last.Set(k, k)
		}
		if first.V != one || last.V != two || one.Later(two) != two || two.Later(one) != two {
			t.Errorf("order %v: first %v, last %v", order, first.V, last.V)
		}
	}
}
