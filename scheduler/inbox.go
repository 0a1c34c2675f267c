package scheduler

import (
	"github.com/skein-project/skein/overload"
	"github.com/skein-project/skein/scheduler/link"
)

// inbox is what waits for the loop of a term.
type inbox struct {
	urgent   chan request    // in overload.Control; capacity maxRequests, when full callers get ErrBusy; never closed
	requests chan request    // the others, as urgent
	frames   chan link.Event // capacity maxFrames, when full links block; never closed
}

func newInbox() inbox {
	return inbox{
		urgent:   make(chan request, maxRequests),
		requests: make(chan request, maxRequests),
		frames:   make(chan link.Event, maxFrames),
	}
}

// put hands r to the loop, if there is room.
func (i *inbox) put(r request) bool {
	to := i.requests
	if r.lane() == overload.Control {
		to = i.urgent
	}
	select {
	case to <- r:
		return true
	default:
		return false
	}
}

// refuse answers what the loop will not get to any more.
func (i *inbox) refuse() {
	for {
		select {
		case r := <-i.urgent:
			r.reply <- reply{err: ErrNotHolder}
		case r := <-i.requests:
			r.reply <- reply{err: ErrNotHolder}
		default:
			return
		}
	}
}

// lane says how urgent a request is. Stops and handing over have a queue of
// their own, so that no flood of submissions keeps them out.
func (r request) lane() overload.Lane {
	if r.stop != nil || r.quiesce {
		return overload.Control
	}
	return overload.Submit
}
