package gang

import "slices"

// Sample is one question to a host, in nanoseconds: when it was asked and answered by the holder's
// clock, and when that was heard and said by the host's.
type Sample struct{ Asked, Heard, Said, Answered int64 }

// Offset is by how much the clock of a host is ahead of the holder's, from the question that was
// under way for the shortest time, and how uncertain that is at most: half of it.
func Offset(samples []Sample) (r Reading) {
	for _, s := range samples {
		way := s.Answered - s.Asked - (s.Said - s.Heard)
		if half := way / 2; s.Said >= s.Heard && way >= 0 && (!r.OK || half < r.Uncertain) {
			r = Reading{Ahead: s.Heard - s.Asked - half, Uncertain: half, OK: true}
		}
	}
	return r
}

// Reading is what is known of the clock of a host: by how much it is ahead of the holder's, and
// how uncertain that is at most.
type Reading struct {
	Ahead, Uncertain int64
	OK               bool // it was read
}

// Found is how far a holder that did not start a slice finds it.
type Found struct {
	Stage  Stage
	Begins int64 // by its host's clock; 0: it was not told
	Clock  Reading
}

// Begun is when a run has begun, or will, by the holder's clock: some of its slices were told. all
// were, as far as they are known; those that were not are told now. known: one that was told has a
// clock that could be read; else nobody knows when the others are to begin.
func Begun(found []Found) (at int64, begun, known bool) {
	var starts []int64
	for _, f := range found {
		switch f.Stage {
		case Armed, Running, Done:
			begun = true
			if f.Begins != 0 && f.Clock.OK {
				starts = append(starts, f.Begins-f.Clock.Ahead)
			}
		}
	}
	if len(starts) == 0 {
		return 0, begun, false
	}
	slices.Sort(starts)
	return starts[len(starts)/2], true, true
}

// Slew is by how much the windows of a slice are to end later than its own clock says, so that they
// are those of a run that began at an instant of the holder's clock. What is within what a reading
// is uncertain by changes nothing.
func Slew(at, begins int64, r Reading, now int64) int64 {
	want := at + r.Ahead - begins
	if d := want - now; !r.OK || d <= r.Uncertain && d >= -r.Uncertain {
		return now
	}
	return max(-int64(MaxSlew), min(int64(MaxSlew), want))
}
