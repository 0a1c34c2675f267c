package stat

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/skein-project/skein/load"
)

// ErrWire is wrapped by every error of reading what Append wrote.
var ErrWire = errors.New("no counts of a load test")

// Append appends all of b to dst, for another host or a file: varints, empty parts left
// out. What Read makes of it is equal to the last bit.
func (b *Bank) Append(dst []byte) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(b.Series)))
	dst = binary.AppendUvarint(dst, uint64(len(b.Checks)))
	dst = binary.AppendUvarint(dst, b.Iterations)
	dst = b.OwnLate.append(dst)
	for i := range b.Series {
		s := &b.Series[i]
		mask := uint64(0)
		for c, n := range s.Classes {
			if n > 0 {
				mask |= 1 << c
			}
		}
		dst = binary.AppendUvarint(dst, mask)
		for _, n := range s.Classes {
			if n > 0 {
				dst = binary.AppendUvarint(dst, n)
			}
		}
		if mask == 0 {
			continue
		}
		dst = binary.AppendUvarint(dst, s.In)
		dst = binary.AppendUvarint(dst, s.Out)
		for p := range s.Times {
			dst = s.Times[p].append(dst)
		}
	}
	for _, t := range b.Checks {
		dst = binary.AppendUvarint(dst, t.Passed)
		dst = binary.AppendUvarint(dst, t.Failed)
	}
	return dst
}

func (h *Hist) append(dst []byte) []byte {
	dst = binary.AppendUvarint(dst, h.N)
	if h.N == 0 {
		return dst
	}
	dst = binary.BigEndian.AppendUint64(dst, math.Float64bits(h.sum))
	dst = binary.BigEndian.AppendUint64(dst, math.Float64bits(h.squares))
	dst = binary.AppendUvarint(dst, uint64(h.min)) //nolint:gosec // not below 0
	dst = binary.AppendUvarint(dst, uint64(h.max)) //nolint:gosec // as above
	used := 0
	for _, n := range h.counts[h.low : h.high+1] {
		if n > 0 {
			used++
		}
	}
	dst = binary.AppendUvarint(dst, uint64(used))
	last := 0
	for i := h.low; i <= h.high; i++ {
		if n := h.counts[i]; n > 0 {
			dst = binary.AppendUvarint(dst, uint64(i-last))
			dst = binary.AppendUvarint(dst, n)
			last = i
		}
	}
	return dst
}

// ReadBank reads what Append wrote of so many series and checks.
func ReadBank(text []byte, series, checks int) (*Bank, error) {
	r := &wireReader{b: text}
	if r.num() != uint64(series) || r.num() != uint64(checks) {
		return nil, fmt.Errorf("%w: of another scenario", ErrWire)
	}
	b := NewBank(series, checks)
	b.Iterations = r.num()
	r.hist(&b.OwnLate)
	for i := range b.Series {
		s := &b.Series[i]
		mask := r.num()
		if mask>>load.Classes != 0 {
			r.bad = true
		}
		for c := range s.Classes {
			if mask&(1<<c) != 0 {
				s.Classes[c] = r.num()
			}
		}
		if mask == 0 {
			continue
		}
		s.In, s.Out = r.num(), r.num()
		for p := range s.Times {
			r.hist(&s.Times[p])
		}
	}
	for i := range b.Checks {
		b.Checks[i] = Tally{r.num(), r.num()}
	}
	if r.bad || len(r.b) > 0 {
		return nil, fmt.Errorf("%w: cut short, or too long", ErrWire)
	}
	return b, nil
}

// wireReader reads numbers; bad: something is none, or the end came too early.
type wireReader struct {
	b   []byte
	bad bool
}

func (r *wireReader) num() uint64 {
	n, size := binary.Uvarint(r.b)
	if size <= 0 || n > 1<<53 {
		r.bad, r.b = true, nil
		return 0
	}
	r.b = r.b[size:]
	return n
}

func (r *wireReader) float() float64 {
	if len(r.b) < 8 {
		r.bad, r.b = true, nil
		return 0
	}
	x := math.Float64frombits(binary.BigEndian.Uint64(r.b))
	r.b = r.b[8:]
	if !(x >= 0 && x < math.MaxFloat64) {
		r.bad = true
		return 0
	}
	return x
}

// hist reads into h, which is empty.
func (r *wireReader) hist(h *Hist) {
	n := r.num()
	if n == 0 {
		return
	}
	h.sum, h.squares = r.float(), r.float()
	h.min, h.max = time.Duration(r.num()), time.Duration(r.num()) //nolint:gosec // at most 2^53
	used, at, sum := r.num(), uint64(0), uint64(0)
	if mean := most.Seconds() * 2; h.sum > float64(n)*mean || h.squares > float64(n)*mean*mean { // a sum of sums stays one
		r.bad = true
		return
	}
	if used == 0 || used > buckets || h.min < least || h.max > most || h.min > h.max {
		r.bad = true
		return
	}
	h.counts = make([]uint64, buckets)
	for i := range used {
		step, count := r.num(), r.num()
		at += step
		if r.bad || at >= buckets || count == 0 || i > 0 && step == 0 {
			r.bad = true
			return
		}
		if i == 0 {
			h.low = int(at)
		}
		h.high, h.counts[at] = int(at), count
		sum += count
	}
	if h.N = n; sum != n {
		r.bad = true
	}
}
