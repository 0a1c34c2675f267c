package index

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/eventlog/record"
	"github.com/skein-project/skein/eventlog/store"
)

// sample is a segment of n events of 8 KiB, of which those that a multiple of
// every divides are about "rare".
func sample(n, every int) (*table, store.Segment) {
	src := event.SourceID{Node: "n1", Inc: 3}
	s := store.Segment{Source: src, First: 11, Last: 10 + uint64(n), Prev: cluster.Hash{1}, Hash: cluster.Hash{2}, Size: int64(n+1) << 13, Sealed: true}
	t := newTable(s)
	for i := range n {
		e := event.Event{Source: src, Seq: s.First + uint64(i), Kind: event.KindChunkAccepted}
		e.Body = fmt.Appendf(nil, `{"job":"j%d","worker":"often"}`, i)
		if i%every == 0 {
			e.Body = []byte(`{"job":"rare","worker":"often","owner":"user:ann@n1"}`)
		}
		t.add(&e, int64(len(record.Magic)+i<<13))
	}
	t.end = event.Mark{Seq: s.Last, Hash: s.Hash}
	return t, s
}

func hashes(subject event.Subject) (list []uint64) {
	for _, n := range subject.Names() {
		list = append(list, hashOf(n.Part, []byte(n.Text)))
	}
	return list
}

// TestFileSaysWhatMemorySays looks everything up in both forms.
func TestFileSaysWhatMemorySays(t *testing.T) {
	tab, s := sample(2000, 500)
	k := key("c", s)
	b, err := tab.encode(k)
	if err != nil {
		t.Fatal(err)
	}
	o, err := open(bytes.NewReader(b), int64(len(b)), k, s)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		about event.Subject
		want  int // blocks
	}{
		{event.Subject{Job: "rare"}, 4},
		{event.Subject{Job: "j7"}, 1},
		{event.Subject{Job: "j0"}, 0},
		{event.Subject{Worker: "often"}, 250},
		{event.Subject{Member: "often"}, 0},
		{event.Subject{Job: "rare", Worker: "often"}, 4},
		{event.Subject{Job: "j1", User: "user:ann"}, 1},
		{event.Subject{Job: "j9", User: "user:ann"}, 0},
		{event.Subject{User: "user:ann@n1"}, 4},
	} {
		in, err := spans(tab, tab.blocks, s.Last, hashes(c.about))
		if err != nil {
			t.Fatal(err)
		}
		on, err := spans(o, o.blocks, s.Last, hashes(c.about))
		if err != nil || !slices.Equal(in, on) || len(in) != c.want {
			t.Errorf("%+v: %d spans in memory, %d in the file, want %d (%v)", c.about, len(in), len(on), c.want, err)
		}
	}
	for _, foreign := range []func(*store.Segment){
		func(s *store.Segment) { s.Hash[0]++ }, func(s *store.Segment) { s.First++ }, func(s *store.Segment) { s.Source.Inc++ },
	} {
		other := s
		foreign(&other)
		if _, err := open(bytes.NewReader(b), int64(len(b)), key("c", other), other); !errors.Is(err, errDamaged) {
			t.Errorf("the file of another segment: %v", err)
		}
	}
}

// TestBlockOfTooMany names more in a block than is kept: it is read whatever is
// looked for.
func TestBlockOfTooMany(t *testing.T) {
	tab, s := sample(8, 100)
	var many []byte
	for i := range maxNames + 5 {
		many = fmt.Appendf(many, `"k%d",`, i)
	}
	tab.add(&event.Event{Seq: s.Last + 1, Kind: event.KindJobsForgotten, Body: fmt.Appendf(nil, `{"jobs":[%s"end"]}`, many)}, 1<<20)
	for _, name := range []string{"end", "never", "k1"} {
		got, err := spans(tab, tab.blocks, s.Last+1, hashes(event.Subject{Job: name}))
		if err != nil || len(got) != 1 || got[0].first != s.Last+1 {
			t.Errorf("%s: %v %v", name, got, err)
		}
	}
	if n := len(tab.entries); n > maxNames+20 {
		t.Errorf("%d entries", n)
	}
}

// FuzzFile reads damaged files: whatever they say, it is refused or lies within
// the segment.
func FuzzFile(f *testing.F) {
	tab, s := sample(100, 10)
	k := key("c", s)
	good, err := tab.encode(k)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good, "rare", false)
	f.Add(good[:len(good)-1], "rare", true)
	f.Add([]byte(magic), "", true)
	f.Fuzz(func(t *testing.T, b []byte, name string, mend bool) {
		if mend && len(b) >= headLen+sumLen { // let what is behind the checksums be reached
			b = slices.Clone(b)
			copy(b, magic)
			copy(b[len(magic):], k[:])
			if n := int64(binary.BigEndian.Uint32(b[headLen-8:])); n > 0 && int64(headLen)+n*blockLen+sumLen <= int64(len(b)) {
				at := headLen + int(n)*blockLen
				copy(b[at:], appendSum(b[:at:at], 0)[at:])
				for rest := b[at+sumLen:]; len(rest) > sumLen; {
					page := min(pageLen*entryLen, len(rest)-sumLen)
					copy(rest[page:], appendSum(rest[:page:page], 0)[page:])
					rest = rest[page+sumLen:]
				}
			}
		}
		o, err := open(bytes.NewReader(b), int64(len(b)), k, s)
		if err != nil {
			return
		}
		list, err := spans(o, o.blocks, s.Last, []uint64{hashOf(event.PartJob, []byte(name)), everything})
		if err != nil {
			return
		}
		at := s.First
		for _, x := range list {
			if x.first < at || x.last < x.first || x.last > s.Last || x.off >= s.Size {
				t.Fatalf("%+v of segment %d-%d", x, s.First, s.Last)
			}
			at = x.last + 1
		}
	})
}
