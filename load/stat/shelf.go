package stat

import (
	"fmt"
	"slices"
)

// Frame is what a generator counted in a span of its run: the difference to the frame
// before. Frames are numbered without a gap, and all of them are the whole.
type Frame struct {
	First uint64 `json:"first"` // its number; one made of several has the numbers of all
	Last  uint64 `json:"last"`
	At    int    `json:"at"`             // its end, in windows of the run
	Span  int    `json:"span"`           // how many windows it covers; 0: setup, or what ended last
	Warm  bool   `json:"warm,omitempty"` // warm-up, setup, teardown
	Bank  []byte `json:"bank"`           // what Bank.Append wrote
	Gauges
}

// join is one frame of two that follow each other.
func (f Frame) join(next Frame, series, checks int) (Frame, error) {
	bank := joinWire(make([]byte, 0, len(f.Bank)+len(next.Bank)), f.Bank, next.Bank)
	return Frame{
		First: f.First, Last: next.Last, At: next.At, Span: f.Span + next.Span, Warm: f.Warm, Bank: slices.Clip(bank),
		Gauges: Gauges{max(f.Users, next.Users), max(f.Queue, next.Queue), max(f.CPU, next.CPU)},
	}, CheckWire(bank, series, checks)
}

// perLevel is how many frames stay as fine as they are: of more, the two oldest become
// one that is twice as long. So a run of any length needs a few hundred.
const perLevel = 64

// What a generator can say: sums of it stay whole numbers.
const (
	maxNumber = 1 << 53
	maxGauge  = 1 << 40
)

// MaxShelf bounds what is kept of a run, in bytes: of all of its generators.
const MaxShelf = 64 << 20

// perFrame is what a frame takes beside its counts.
const perFrame = 128

// Shelf keeps the frames of one generator, old ones coarser. Its zero value is not
// usable, see NewShelf.
type Shelf struct {
	series, checks int
	most           int       // bytes
	per            int       // how many frames a level has, but the finest
	size           int       // bytes
	levels         [][]Frame // the finest first; in each the oldest first
	next           uint64    // number of the next frame
	at             int       // the end of the last one
}

// NewShelf returns an empty one that keeps at most so many bytes, as long as what is finest
// has room in them: that stays as it is told, for whoever is a minute behind.
func NewShelf(series, checks, most int) *Shelf {
	return &Shelf{series: series, checks: checks, most: most, per: perLevel}
}

// Next is the number of the frame that is to come.
func (s *Shelf) Next() uint64 { return s.next }

// At is the end of the last frame, in windows.
func (s *Shelf) At() int { return s.at }

// Size is how much it keeps, in bytes.
func (s *Shelf) Size() int { return s.size }

// Put adds the frame that follows.
func (s *Shelf) Put(f Frame) error {
	switch {
	case f.First != s.next || f.Last < f.First || f.Last >= maxNumber:
		return fmt.Errorf("%w: frame %d-%d where %d is next", ErrWire, f.First, f.Last, s.next)
	case f.At < s.at || f.Span < 0 || f.Span > f.At-s.at || f.Users < 0 || f.Queue < 0 || f.Users > maxGauge || f.Queue > maxGauge || !(f.CPU >= 0 && f.CPU <= 1):
		return fmt.Errorf("%w: frame %d covers %d windows to %d, the last one ended at %d", ErrWire, f.First, f.Span, f.At, s.at)
	}
	if err := CheckWire(f.Bank, s.series, s.checks); err != nil {
		return err
	}
	if len(s.levels) == 0 {
		s.levels = append(s.levels, nil)
	}
	s.levels[0] = append(s.levels[0], f)
	s.size += len(f.Bank) + perFrame
	s.next, s.at = f.Last+1, f.At
	if err := s.settle(); err != nil {
		return err
	}
	for s.size > s.most && s.per > 1 {
		s.per /= 2
		if err := s.settle(); err != nil {
			return err
		}
	}
	return nil
}

// settle has each level have as many frames as it may.
func (s *Shelf) settle() error {
	for i := 0; i < len(s.levels); i++ {
		per := s.per
		if i == 0 {
			per = perLevel
		}
		for len(s.levels[i]) > per {
			if i+1 == len(s.levels) {
				s.levels = append(s.levels, nil)
			}
			old := s.levels[i]
			if len(old) == 1 || old[0].Warm != old[1].Warm { // what is judged and what is not stay apart
				s.levels[i+1] = append(s.levels[i+1], old[0])
				s.levels[i] = old[1:]
				continue
			}
			both, err := old[0].join(old[1], s.series, s.checks)
			if err != nil {
				return err
			}
			s.size += len(both.Bank) - len(old[0].Bank) - len(old[1].Bank) - perFrame
			s.levels[i+1] = append(s.levels[i+1], both)
			s.levels[i] = append([]Frame(nil), old[2:]...)
		}
	}
	return nil
}

// Since lists the frames from a number on, the oldest first, and at most so many bytes of
// them, but one at least. known is false if that number is in the middle of a frame by
// now, or was never there: then they are to be read from 0 again.
func (s *Shelf) Since(number uint64, most int) (list []Frame, known bool) {
	if number == s.next {
		return nil, true
	}
	size := 0
	for _, level := range slices.Backward(s.levels) {
		for _, f := range level {
			switch {
			case f.Last < number:
				continue
			case len(list) == 0 && f.First != number:
				return nil, false
			}
			if size += len(f.Bank) + perFrame; len(list) > 0 && size > most {
				return list, true
			}
			list = append(list, f)
		}
	}
	return list, len(list) > 0
}
