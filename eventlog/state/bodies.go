package state

import "github.com/skein-project/skein/cluster/event"

// bodies reads the bodies of events and counts those that cannot be what they
// say.
type bodies struct {
	malformed uint64
	scratch   *event.Scratch // nil: to be made
}

// read reads the body of e and counts it if it cannot be read.
func read[T any](bs *bodies, e *event.Event) (body T, ok bool) {
	if bs.scratch == nil {
		bs.scratch = event.NewScratch()
	}
	ok = event.ReadBody(&body, e, bs.scratch) == nil
	bs.note(ok)
	return body, ok
}

// note counts an event that is not what it says.
func (bs *bodies) note(ok bool) {
	if !ok {
		bs.malformed++
	}
}
