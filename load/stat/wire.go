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
	b := NewBank(series, checks)
	if err := b.AddWire(text); err != nil {
		return nil, err
	}
	return b, nil
}

// AddWire counts what Append wrote, as well. What is no such thing changes nothing.
func (b *Bank) AddWire(text []byte) error {
	if err := CheckWire(text, len(b.Series), len(b.Checks)); err != nil {
		return err
	}
	r := &wireReader{b: text}
	r.num()
	r.num()
	b.Iterations += r.num()
	r.hist(&b.OwnLate)
	for i := range b.Series {
		r.series(&b.Series[i])
	}
	for i := range b.Checks {
		b.Checks[i].Add(Tally{r.num(), r.num()})
	}
	return nil
}

// CheckWire reports whether text is what Append wrote of so many series and checks. It needs no
// memory.
func CheckWire(text []byte, series, checks int) error {
	r := &wireReader{b: text}
	if r.num() != uint64(series) || r.num() != uint64(checks) {
		return fmt.Errorf("%w: of another scenario", ErrWire)
	}
	r.num()
	r.hist(nil)
	for range series {
		r.series(nil)
	}
	for range checks {
		r.num()
		r.num()
	}
	if r.bad || len(r.b) > 0 {
		return fmt.Errorf("%w: cut short, or too long", ErrWire)
	}
	return nil
}

// Own is what of one of many generators is told apart: how its requests ended, and how late
// they began for its own sake.
type Own struct {
	Series // only its classes
	Late   Hist
}

// AddWire counts what Append wrote, as well; CheckWire has to have taken it.
func (o *Own) AddWire(text []byte) {
	r := &wireReader{b: text}
	series := r.num()
	r.num() // checks
	r.num() // iterations
	r.hist(&o.Late)
	for range series {
		r.counts(&o.Series)
	}
}

// joinWire appends to dst the sum of two that CheckWire took.
func joinWire(dst, a, b []byte) []byte {
	x, y := &wireReader{b: a}, &wireReader{b: b}
	series, checks := x.num(), x.num()
	y.num()
	y.num()
	dst = binary.AppendUvarint(dst, series)
	dst = binary.AppendUvarint(dst, checks)
	dst = binary.AppendUvarint(dst, x.num()+y.num())
	dst = joinHist(dst, x, y)
	for range series {
		m, n := x.num(), y.num()
		dst = binary.AppendUvarint(dst, m|n)
		for c := range load.Classes {
			sum, bit := uint64(0), uint64(1)<<c
			if m&bit != 0 {
				sum += x.num()
			}
			if n&bit != 0 {
				sum += y.num()
			}
			if (m|n)&bit != 0 {
				dst = binary.AppendUvarint(dst, sum)
			}
		}
		if m|n == 0 {
			continue
		}
		one, two := x, y
		if m == 0 {
			one = nothing()
		}
		if n == 0 {
			two = nothing()
		}
		dst = binary.AppendUvarint(dst, one.num()+two.num())
		dst = binary.AppendUvarint(dst, one.num()+two.num())
		for range Phases {
			dst = joinHist(dst, one, two)
		}
	}
	for range 2 * checks {
		dst = binary.AppendUvarint(dst, x.num()+y.num())
	}
	return dst
}

// nothing reads a series without requests: zeros, which is also what empty distributions are.
func nothing() *wireReader { return &wireReader{b: make([]byte, 2+Phases)} }

// joinHist appends the sum of the next distributions of two readers.
func joinHist(dst []byte, x, y *wireReader) []byte {
	a, b := x.head(), y.head()
	sum := a.add(b)
	dst = binary.AppendUvarint(dst, sum.n)
	if sum.n == 0 {
		return dst
	}
	dst = binary.BigEndian.AppendUint64(dst, math.Float64bits(sum.sum))
	dst = binary.BigEndian.AppendUint64(dst, math.Float64bits(sum.squares))
	dst = binary.AppendUvarint(dst, sum.min)
	dst = binary.AppendUvarint(dst, sum.max)
	used := uint64(0)
	for p, q := (&merger{x: *x, y: *y, left: [2]uint64{a.used, b.used}}), false; ; used++ {
		if _, _, q = p.next(); !q {
			break
		}
	}
	dst = binary.AppendUvarint(dst, used)
	m, last := &merger{x: *x, y: *y, left: [2]uint64{a.used, b.used}}, uint64(0)
	for i, n, ok := m.next(); ok; i, n, ok = m.next() {
		dst = binary.AppendUvarint(dst, i-last)
		dst = binary.AppendUvarint(dst, n)
		last = i
	}
	*x, *y = m.x, m.y
	return dst
}

// merger goes through the buckets of two distributions.
type merger struct {
	x, y wireReader
	left [2]uint64 // how many buckets are not read yet
	at   [2]uint64 // of each
	n    [2]uint64 // how often; 0: none is read
}

func (m *merger) next() (at, n uint64, ok bool) {
	for i, r := range []*wireReader{&m.x, &m.y} {
		if m.n[i] == 0 && m.left[i] > 0 {
			m.at[i], m.left[i] = m.at[i]+r.num(), m.left[i]-1
			m.n[i] = r.num()
		}
	}
	switch {
	case m.n[0] == 0 && m.n[1] == 0:
		return 0, 0, false
	case m.n[1] == 0 || m.n[0] > 0 && m.at[0] < m.at[1]:
		at, n, m.n[0] = m.at[0], m.n[0], 0
	case m.n[0] == 0 || m.at[1] < m.at[0]:
		at, n, m.n[1] = m.at[1], m.n[1], 0
	default:
		at, n, m.n = m.at[0], m.n[0]+m.n[1], [2]uint64{}
	}
	return at, n, true
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

// classes counts those of a series in s; nil: they are only looked at. False: it has none.
func (r *wireReader) classes(s *Series) bool {
	mask := r.num()
	if mask>>load.Classes != 0 {
		r.bad = true
	}
	for c := range load.Classes {
		if mask&(1<<c) == 0 {
			continue
		}
		if n := r.num(); s != nil {
			s.Classes[c] += n
		}
	}
	return mask != 0
}

// counts counts how the requests of a series ended, in s.
func (r *wireReader) counts(s *Series) {
	if !r.classes(s) {
		return
	}
	r.num() // bytes in and out
	r.num()
	for range Phases {
		r.hist(nil)
	}
}

// series counts one in s; nil: it is only looked at.
func (r *wireReader) series(s *Series) {
	if !r.classes(s) {
		return
	}
	in, out := r.num(), r.num()
	if s != nil {
		s.In, s.Out = s.In+in, s.Out+out
	}
	for p := range Phases {
		if s != nil {
			r.hist(&s.Times[p])
		} else {
			r.hist(nil)
		}
	}
}

// head is a distribution without its buckets.
type head struct {
	n            uint64
	sum, squares float64
	min, max     uint64
	used         uint64
}

func (h head) add(o head) head {
	switch {
	case h.n == 0:
		return o
	case o.n == 0:
		return h
	}
	return head{n: h.n + o.n, sum: h.sum + o.sum, squares: h.squares + o.squares, min: min(h.min, o.min), max: max(h.max, o.max)}
}

func (r *wireReader) head() (h head) {
	if h.n = r.num(); h.n == 0 {
		return h
	}
	h.sum, h.squares = r.float(), r.float()
	h.min, h.max = r.num(), r.num()
	h.used = r.num()
	return h
}

// hist counts a distribution in h; nil: it is only looked at.
func (r *wireReader) hist(h *Hist) {
	x := r.head()
	if x.n == 0 {
		return
	}
	low, high := time.Duration(x.min), time.Duration(x.max)                                          //nolint:gosec // at most 2^53
	if mean := most.Seconds() * 2; x.sum > float64(x.n)*mean || x.squares > float64(x.n)*mean*mean { // a sum of sums stays one
		r.bad = true
		return
	}
	if r.bad || x.used == 0 || x.used > buckets || low < least || high > most || low > high {
		r.bad = true
		return
	}
	if h != nil && h.counts == nil {
		h.counts = make([]uint64, buckets)
	}
	first, at, sum := uint64(0), uint64(0), uint64(0)
	for i := range x.used {
		step, count := r.num(), r.num()
		at += step
		if r.bad || at >= buckets || count == 0 || i > 0 && step == 0 {
			r.bad = true
			return
		}
		if i == 0 {
			first = at
		}
		if h != nil {
			h.counts[at] += count
		}
		sum += count
	}
	if r.bad = r.bad || sum != x.n; r.bad || h == nil {
		return
	}
	h.reach(int(first), int(at)) //nolint:gosec // buckets
	h.moments(x.n, x.sum, x.squares, low, high)
}
