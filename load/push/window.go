package push

import "time"

// Run says of which run windows are.
type Run struct {
	ID    string
	Name  string
	Start time.Time
}

// Window is what a run counted in a span of time. Latencies are in seconds.
type Window struct {
	At    time.Time // its end, behind that of the one before
	Span  time.Duration
	Steps []Step
	Users int
	Queue int
	// Again: the windows before are counted in this one as well.
	Again bool

	n uint64 // which window it is
}

// Step is what one step counted.
type Step struct {
	Name    string
	Classes map[string]uint64 // requests by how they ended; all of them
	// Latencies, of those that have one; all 0: of none.
	P50, P95, P99, Max float64
}

const (
	classOK      = "ok"
	classDropped = "dropped"
)

// unsent are classes of requests that were never begun.
var unsent = map[string]bool{classDropped: true, "skipped": true, "generator": true}

// requests are those that were begun, failed those that did not end ok, dropped ones
// included.
func (s Step) requests() (n uint64) {
	for class, c := range s.Classes {
		if !unsent[class] {
			n += c
		}
	}
	return n
}

func (s Step) failed() (n uint64) {
	for class, c := range s.Classes {
		if class != classOK {
			n += c
		}
	}
	return n
}

// totals are the counts of a run so far, by step and class.
type totals map[[2]string]uint64

func (t totals) add(w Window) {
	if w.Again {
		clear(t)
	}
	for _, s := range w.Steps {
		for class, n := range s.Classes {
			t[[2]string{s.Name, class}] += n
		}
	}
}

// quantiles of a step, as others name them.
func (s Step) quantiles() [4]struct {
	name string
	v    float64
} {
	return [4]struct {
		name string
		v    float64
	}{{"0.5", s.P50}, {"0.95", s.P95}, {"0.99", s.P99}, {"1", s.Max}}
}
