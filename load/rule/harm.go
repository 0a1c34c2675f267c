package rule

import (
	"time"

	"github.com/skein-project/skein/load"
	"github.com/skein-project/skein/load/stat"
)

// harmTime is for how many seconds more than half of the requests must fail before a run ends
// for its target's sake.
const harmTime = 30

// Harm looks whether a target breaks. Its zero value has seen nothing.
type Harm struct {
	all, bad uint64 // of this second
	windows  int
	seconds  int // in a row, of which more than half failed
}

// Next looks at a window, and reports whether the run must end.
func (m *Harm) Next(w *stat.Bank) bool {
	for i := range w.Series {
		for c, n := range w.Series[i].Classes {
			m.all += n
			if load.Class(c).Harm() {
				m.bad += n
			}
		}
	}
	if m.windows++; m.windows < int(time.Second/stat.Step) {
		return m.seconds >= harmTime
	}
	switch {
	case m.bad*2 > m.all:
		m.seconds++
	case m.all > 0:
		m.seconds = 0
	}
	m.all, m.bad, m.windows = 0, 0, 0
	return m.seconds >= harmTime
}
