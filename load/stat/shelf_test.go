package stat

import (
	"errors"
	"math"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/skein-project/skein/load"
)

func someBank(rng *rand.Rand) *Bank {
	b := NewBank(2, 1)
	for range rng.IntN(20) {
		s := Sample{Series: rng.IntN(2), Class: load.Class(rng.IntN(int(load.Classes))), In: 5, Out: 7, Checks: []bool{rng.IntN(2) == 0}, OwnLate: rng.IntN(3) == 0}
		for p := range Phases {
			s.Have[p], s.Times[p] = rng.IntN(2) == 0, time.Duration(rng.ExpFloat64()*1e7)
		}
		b.Record(&s)
		b.Iterations++
	}
	return b
}

func same(t *testing.T, got, want *Bank) {
	t.Helper()
	for i := range want.Series {
		g, w := &got.Series[i], &want.Series[i]
		if g.Classes != w.Classes || g.In != w.In || g.Out != w.Out {
			t.Fatalf("series %d: %v, want %v", i, g.Classes, w.Classes)
		}
		for p := range w.Times {
			a, b := g.Times[p].Metric(), w.Times[p].Metric()
			if a.N != b.N || a.Min != b.Min || a.Max != b.Max || !reflect.DeepEqual(a.Sketch, b.Sketch) {
				t.Fatalf("series %d, %s: %+v, want %+v", i, Phase(p), a, b)
			}
		}
	}
	if !reflect.DeepEqual(got.Checks, want.Checks) || got.Iterations != want.Iterations || got.OwnLate.N != want.OwnLate.N {
		t.Fatalf("%+v %d, want %+v %d", got.Checks, got.Iterations, want.Checks, want.Iterations)
	}
}

func TestWire(t *testing.T) {
	for seed := range uint64(8) {
		b := someBank(rand.New(rand.NewPCG(seed, 1)))
		text := b.Append(nil)
		got, err := ReadBank(text, 2, 1)
		if err != nil {
			t.Fatal(err)
		}
		same(t, got, b)
		for i := range text {
			if _, err := ReadBank(text[:i], 2, 1); !errors.Is(err, ErrWire) {
				t.Fatalf("%d of %d bytes: %v", i, len(text), err)
			}
		}
		if _, err := ReadBank(append(text, 0), 2, 1); !errors.Is(err, ErrWire) {
			t.Error("a byte too many is taken")
		}
		if _, err := ReadBank(text, 3, 1); !errors.Is(err, ErrWire) {
			t.Error("those of another scenario are taken")
		}
	}
}

// TestImpossible: what no generator counts is refused, so that sums of what a host says
// stay numbers, and whoever adds them up comes to an end.
func TestImpossible(t *testing.T) {
	b := NewBank(1, 0)
	b.Series[0].Classes[load.OK] = 1
	b.Series[0].Times[Latency].Record(time.Second)
	for what, change := range map[string]func(*Hist){
		"a sum":              func(h *Hist) { h.sum = 1e308 },
		"a sum of squares":   func(h *Hist) { h.squares = 1e308 },
		"more than is there": func(h *Hist) { h.sum = 3 * most.Seconds() },
	} {
		one := NewBank(1, 0)
		one.Add(b)
		change(&one.Series[0].Times[Latency])
		if _, err := ReadBank(one.Append(nil), 1, 0); !errors.Is(err, ErrWire) {
			t.Errorf("%s: %v", what, err)
		}
	}
	for _, f := range []Frame{
		{Last: math.MaxUint64}, {Gauges: Gauges{Users: math.MaxInt}}, {Gauges: Gauges{Queue: math.MaxInt}},
	} {
		f.Bank = b.Append(nil)
		if err := NewShelf(1, 0, MaxShelf).Put(f); !errors.Is(err, ErrWire) {
			t.Errorf("%+v: %v", f, err)
		}
	}
	s := NewShelf(1, 0, MaxShelf)
	for _, f := range []Frame{{}, {First: 1, Last: 1, At: 10, Span: 10}} {
		f.Bank = b.Append(nil)
		if err := s.Put(f); err != nil {
			t.Error(err)
		}
	}
	for what, f := range map[string]Frame{
		"backwards": {First: 2, Last: 2, At: 9}, "overlapping": {First: 2, Last: 2, At: 15, Span: 6}, "once more": {First: 1, Last: 1, At: 20, Span: 10}, "a gap": {First: 3, Last: 3, At: 20, Span: 10},
	} {
		f.Bank = b.Append(nil)
		if err := s.Put(f); !errors.Is(err, ErrWire) || s.Next() != 2 || s.At() != 10 {
			t.Errorf("%s: %v, %d is next", what, err, s.Next())
		}
	}
}

func FuzzReadBank(f *testing.F) {
	f.Add(someBank(rand.New(rand.NewPCG(1, 1))).Append(nil))
	f.Fuzz(func(t *testing.T, text []byte) {
		b, err := ReadBank(text, 2, 1)
		if err != nil {
			return
		}
		again, err := ReadBank(b.Append(nil), 2, 1)
		if err != nil {
			t.Fatal(err)
		}
		same(t, again, b)
		b.Add(again)
	})
}

// TestShelf: whoever reads now and then, and begins again when told to, has the sum of all
// frames to the count; and a day needs a few hundred of them.
func TestShelf(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 1))
	s, all := NewShelf(2, 1, MaxShelf), NewBank(2, 1)
	readers := make([]struct {
		next uint64
		sum  *Bank
	}, 3)
	for i := range readers {
		readers[i].sum = NewBank(2, 1)
	}
	read := func(i int) {
		r := &readers[i]
		for r.next != s.Next() {
			list, known := s.Since(r.next, 1<<10)
			if !known {
				r.next, r.sum = 0, NewBank(2, 1)
				continue
			}
			for _, f := range list {
				b, err := ReadBank(f.Bank, 2, 1)
				if err != nil || f.First != r.next {
					t.Fatalf("frame %d where %d is next: %v", f.First, r.next, err)
				}
				r.sum.Add(b)
				r.next = f.Last + 1
			}
		}
	}
	const n = 700
	for i := range n {
		b := someBank(rng)
		all.Add(b)
		if err := s.Put(Frame{First: uint64(i), Last: uint64(i), At: 10 * i, Span: min(10, 10*i), Warm: i < 100, Bank: b.Append(nil)}); err != nil {
			t.Fatal(err)
		}
		read(0)
		if rng.IntN(100) == 0 {
			read(1)
		}
	}
	for i := range readers {
		read(i)
		same(t, readers[i].sum, all)
	}
	list, _ := s.Since(0, 1<<30)
	if len(list) > 64*5 {
		t.Errorf("%d frames are kept of %d", len(list), n)
	}
	warm := uint64(0)
	for _, f := range list {
		if f.Warm {
			warm += f.Last - f.First + 1
		}
	}
	if warm != 100 {
		t.Errorf("%d frames are of the warm-up", warm)
	}
	for _, bad := range []Frame{
		{First: n + 1, Last: n + 1, At: 10 * n}, {First: n, Last: n - 1, At: 10 * n}, {First: n, Last: n, At: 5}, {First: n, Last: n, At: 10 * n, Bank: []byte{9}},
	} {
		if err := s.Put(bad); !errors.Is(err, ErrWire) {
			t.Errorf("%+v: %v", bad, err)
		}
	}
	if _, known := s.Since(n+5, 1); known {
		t.Error("a frame that was never there is known")
	}
}
