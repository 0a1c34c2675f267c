package schedule

import (
	"time"

	"github.com/skein-project/skein/cluster/flow"
)

const (
	// Grace is how late a time is still kept, whatever is to become of missed ones: for so
	// long another host may take to become the holder.
	Grace = time.Minute
	// maxAll is how many missed times are made up for one by one.
	maxAll = 100
	// maxWalk bounds how many times are looked at: those of the longest window, and more.
	maxWalk = 20_000
)

// Policy says what becomes of missed times.
type Policy struct {
	Missed flow.Missed
	Window time.Duration // what is longer ago is not made up for
}

// Due is what is to be done at one moment.
type Due struct {
	At     []time.Time // for which a run is to begin, in their order
	Last   time.Time   // the last time that is over; zero: none is
	Missed int         // how many of those that are over get no run
}

// Due says which times after the one given are over at now, and what becomes of them.
func (s Spec) Due(after, now time.Time, p Policy) (out Due) {
	if earliest := now.Add(-max(p.Window, Grace)); after.Before(earliest) {
		after = earliest.Add(-time.Second)
	}
	var over []time.Time
	for range maxWalk {
		at := s.Next(after)
		if at.IsZero() || at.After(now) {
			break
		}
		over, after = append(over, at), at
	}
	if len(over) == 0 {
		return out
	}
	out.Last = over[len(over)-1]
	begin := len(over) - 1
	switch {
	case p.Missed == flow.MissedSkip:
		for begin = len(over); begin > 0 && now.Sub(over[begin-1]) <= Grace; begin-- {
		}
	case p.Missed == flow.MissedAll && len(over) <= maxAll:
		begin = 0
	}
	out.At, out.Missed = over[begin:], begin
	return out
}
