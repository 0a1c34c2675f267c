package wire

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"
)

// naive is Window without cleverness.
type naive struct {
	boot, top uint64
	seen      map[uint64]bool
}

func (n *naive) check(boot, seq uint64) bool {
	if boot == 0 || seq == 0 || boot < n.boot {
		return false
	}
	if boot > n.boot {
		return true
	}
	return !n.seen[seq] && (seq > n.top || n.top-seq < WindowSize)
}

func (n *naive) advance(boot, seq uint64) {
	if !n.check(boot, seq) {
		return
	}
	if boot > n.boot {
		*n = naive{boot: boot, seen: map[uint64]bool{}}
	}
	n.seen[seq] = true
	n.top = max(n.top, seq)
}

type step struct {
	boot, seq uint64
	advance   bool
}

func compare(t *testing.T, steps []step) {
	t.Helper()
	var w Window
	n := naive{seen: map[uint64]bool{}}
	for i, s := range steps {
		before := w
		got, want := w.Check(s.boot, s.seq) == nil, n.check(s.boot, s.seq)
		if got != want {
			t.Fatalf("step %d %+v: accepts %t, want %t", i, s, got, want)
		}
		if w != before {
			t.Fatalf("step %d: Check moved the window", i)
		}
		if s.advance {
			w.Advance(s.boot, s.seq)
			n.advance(s.boot, s.seq)
		}
	}
	if w.Boot() != n.boot {
		t.Errorf("boot %d, want %d", w.Boot(), n.boot)
	}
}

func TestWindowEqualsNaiveTwin(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 1))
		var steps []step
		boot, top := uint64(1), uint64(1)
		for range 400 {
			switch r.IntN(20) {
			case 0:
				boot += uint64(r.IntN(2))
			case 1:
				top += r.Uint64N(3 * WindowSize)
			case 2:
				top += r.Uint64N(1 << 52)
			}
			top += r.Uint64N(3)
			seq := top - min(top, r.Uint64N(WindowSize+8))
			if r.IntN(3) == 0 {
				seq = top
			}
			steps = append(steps, step{boot: boot - r.Uint64N(2), seq: seq, advance: r.IntN(5) > 0})
		}
		compare(t, steps)
	}
}

func TestWindowEdges(t *testing.T) {
	var w Window
	w.Advance(2, 5000)
	for _, c := range []struct {
		boot, seq uint64
		want      Reason
	}{
		{2, 5000, ReasonReplay},
		{2, 5000 - WindowSize, ReasonReplay},
		{2, 5000 - WindowSize + 1, ""},
		{2, 4999, ""},
		{2, 0, ReasonReplay},
		{1, 6000, ReasonBoot},
		{0, 1, ReasonBoot},
		{3, 1, ""},
	} {
		err := w.Check(c.boot, c.seq)
		if (err == nil) != (c.want == "") || (err != nil && ReasonOf(err) != c.want) {
			t.Errorf("(%d, %d): %v, want %q", c.boot, c.seq, err, c.want)
		}
	}
	w.Advance(3, 1)
	if w.Check(2, 5001) == nil {
		t.Error("an earlier boot was accepted after a restart")
	}
	w.Advance(1, 99999)
	if w.Check(3, 2) != nil {
		t.Error("Advance of a refused number moved the window")
	}
}

func FuzzWindow(f *testing.F) {
	f.Add([]byte{1, 0, 5, 1, 0, 5, 1, 4, 5, 2, 0, 1})
	f.Fuzz(func(t *testing.T, data []byte) {
		var steps []step
		for ; len(data) >= 3; data = data[3:] {
			steps = append(steps, step{boot: uint64(data[0] & 3), seq: uint64(binary.BigEndian.Uint16(data[1:])), advance: data[0]&4 == 0})
		}
		compare(t, steps)
	})
}

func BenchmarkWindow(b *testing.B) {
	var w Window
	seq := uint64(0)
	for b.Loop() {
		seq++
		if w.Check(1, seq) != nil {
			b.Fatal("refused")
		}
		w.Advance(1, seq)
	}
}
