package clock

import (
	"time"

	"github.com/skein-project/skein/load/stat"
)

// maxSlew is by how much the end of a window may be moved beside that of the one before.
const maxSlew = time.Millisecond

// Doubts are what a generator saw of itself, window by window, and where those end. The zero value is
// of one that has not begun.
type Doubts struct {
	Gap  time.Duration // the longest for which it stood still
	When stat.When
	late float64       // p99 of the worst second
	slew time.Duration // by how much windows end later than the clock says
}

// End is when a window ends, since the run began.
func (d *Doubts) End(n int) time.Duration { return time.Duration(n)*stat.Step + d.slew }

// Slew gradually moves the windows that follow to where they are to end.
func (d *Doubts) Slew(want time.Duration) { d.slew += max(-maxSlew, min(maxSlew, want-d.slew)) }

// Behind notes that the generator looks at a window so long behind its end.
func (d *Doubts) Behind(by, now time.Duration) {
	if by > d.Gap {
		d.Gap, d.When.Gap = by, now.Seconds()
	}
}

// Window notes what the window tells that ended at a time: the processors were never busier, it could
// not send something, something slows it.
func (d *Doubts) Window(at float64, busiest, own, slowed bool) {
	w := &d.When
	if w.CPU == 0 || busiest {
		w.CPU = at
	}
	if w.Own == 0 && own {
		w.Own = at
	}
	if w.Slowed == 0 && slowed {
		w.Slowed = at
	}
}

// Second notes how late requests began in the second that ended at a time.
func (d *Doubts) Second(at float64, late *stat.Hist) {
	if late.N == 0 {
		return
	}
	if p := late.Quantile(0.99); p > d.late {
		d.late, d.When.Late = p, at
	}
}
