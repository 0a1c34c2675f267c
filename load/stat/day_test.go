package stat

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/skein-project/skein/load"
)

// busyBank is what a generator counts in a second: so many requests of each series.
func busyBank(rng *rand.Rand, series, requests int) *Bank {
	b := NewBank(series, series)
	for i := range series {
		for range requests {
			s := Sample{Series: i, Class: load.OK, In: 200, Out: 100, FirstCheck: i, Checks: []bool{true}, OwnLate: true}
			if rng.IntN(50) == 0 {
				s.Class = load.HTTP5xx
			}
			for p, mean := range map[Phase]float64{Late: 1e5, Send: 2e4, FirstByte: 2e7, Receive: 1e5} {
				s.Have[p], s.Times[p] = true, time.Duration(rng.ExpFloat64()*mean)
			}
			s.Have[Service], s.Times[Service] = true, s.Times[Send]+s.Times[FirstByte]+s.Times[Receive]
			s.Have[Latency], s.Times[Latency] = true, s.Times[Service]+s.Times[Late]
			b.Record(&s)
			b.Iterations++
		}
	}
	return b
}

// TestDay: what is kept of a day is no more than it may be, no more in the evening than in the morning,
// and has all that was counted, to the count; a minute of it is as fine as it was told.
func TestDay(t *testing.T) {
	const (
		day    = 24 * 60 * 60
		series = 2
		most   = MaxShelf / 400 // of four times as many series a hundred generators have so much each
	)
	rng := rand.New(rand.NewPCG(1, 2))
	var banks [8]*Bank
	var texts [8][]byte
	for i := range banks {
		banks[i] = busyBank(rng, series, 20)
		texts[i] = banks[i].Append(nil)
	}
	s := NewShelf(series, series, most)
	size := 0
	var told [len(banks)]uint64
	var peak [4]int
	for n := range day {
		k := rng.IntN(len(banks))
		if err := s.Put(Frame{First: uint64(n), Last: uint64(n), At: 10 * (n + 1), Span: 10, Bank: texts[k]}); err != nil {
			t.Fatal(err)
		}
		told[k]++
		if s.Size() > most {
			t.Fatalf("%d bytes are kept after %d s, at most %d are allowed", s.Size(), n, most)
		}
		quarter := 4 * n / day
		peak[quarter] = max(peak[quarter], s.Size())
	}
	if peak[3] > peak[0] {
		t.Errorf("bytes at most in each quarter of the day: %v", peak)
	}
	list, known := s.Since(0, 1<<40)
	got, next := NewBank(series, series), uint64(0)
	for _, f := range list {
		if f.First != next {
			t.Fatalf("frame %d where %d is next", f.First, next)
		}
		next = f.Last + 1
		size += len(f.Bank) + perFrame
		if err := got.AddWire(f.Bank); err != nil {
			t.Fatal(err)
		}
	}
	for i := range series {
		var classes [load.Classes]uint64
		n := uint64(0)
		for k, b := range banks {
			for c, x := range b.Series[i].Classes {
				classes[c] += told[k] * x
			}
			n += told[k] * b.Series[i].Times[Latency].N
		}
		if s := &got.Series[i]; s.Classes != classes || s.Times[Latency].N != n || got.Checks[i].Passed != s.Count() {
			t.Errorf("series %d: %v, %d latencies, %d checks; want %v, %d", i, s.Classes, s.Times[Latency].N, got.Checks[i].Passed, classes, n)
		}
	}
	if !known || size != s.Size() || next != day {
		t.Errorf("%d frames with %d bytes, it says %d", next, size, s.Size())
	}
	if fine, known := s.Since(day-60, 1<<30); !known || len(fine) != 60 {
		t.Errorf("the last minute is %d frames", len(fine))
	}
	t.Logf("%d frames, %d kB; at most %v by quarter", len(list), s.Size()/1000, peak)
}

// TestOwn: what is told of one generator is what its counts say.
func TestOwn(t *testing.T) {
	b := busyBank(rand.New(rand.NewPCG(5, 1)), 3, 40)
	b.Series[1] = Series{}
	var own Own
	for range 2 {
		own.AddWire(b.Append(nil))
	}
	if all := b.All(); own.Sent() != 2*all.Sent() || own.Classes[load.HTTP5xx] != 2*all.Classes[load.HTTP5xx] || own.Late.N != 2*b.OwnLate.N || own.Late.Max() != b.OwnLate.Max() {
		t.Errorf("%v, %d late; of all %v, %d late", own.Classes, own.Late.N, b.All().Classes, b.OwnLate.N)
	}
}

// TestJoin: the sum of two as they are on the wire is their sum.
func TestJoin(t *testing.T) {
	for seed := range uint64(50) {
		rng := rand.New(rand.NewPCG(seed, 9))
		a, b := someBank(rng), someBank(rng)
		for _, x := range []*Bank{a, b} {
			if rng.IntN(3) == 0 {
				x.Series[rng.IntN(2)] = Series{}
			}
		}
		got, err := ReadBank(joinWire(nil, a.Append(nil), b.Append(nil)), 2, 1)
		if err != nil {
			t.Fatal(err)
		}
		a.Add(b)
		same(t, got, a)
	}
}

func BenchmarkPut(b *testing.B) {
	text := busyBank(rand.New(rand.NewPCG(1, 2)), 8, 20).Append(nil)
	s := NewShelf(8, 8, MaxShelf/100)
	b.ReportAllocs()
	b.ReportMetric(float64(len(text)), "frame-bytes")
	for n := uint64(0); b.Loop(); n++ {
		if err := s.Put(Frame{First: n, Last: n, At: int(10 * (n + 1)), Span: 10, Bank: text}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkAddWire(b *testing.B) {
	text := busyBank(rand.New(rand.NewPCG(1, 2)), 8, 20).Append(nil)
	sum := NewBank(8, 8)
	b.ReportAllocs()
	for b.Loop() {
		if err := sum.AddWire(text); err != nil {
			b.Fatal(err)
		}
	}
}
