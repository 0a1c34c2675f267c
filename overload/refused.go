package overload

import (
	"fmt"
	"time"
)

// Refused says that something was not done because of overload. It was not begun, and
// may be asked for again after a while.
type Refused struct {
	Lane  Lane
	Level Level
	Shed  bool // by how loaded the host is; else all places are taken
	// After is when it may succeed.
	After time.Duration
}

// Error implements error.
func (r *Refused) Error() string {
	if r.Shed {
		return fmt.Sprintf("this host is overloaded (%s) and takes no requests of kind %s", r.Level, r.Lane)
	}
	return fmt.Sprintf("this host has as many requests of kind %s as it can do at once", r.Lane)
}

// Bounds of Refused.After.
const (
	leastAfter = time.Second
	mostAfter  = 30 * time.Second
)

// Drain is in which time what is ahead is done at a rate per second; what is not known
// is soon.
func Drain(ahead int, perSecond float64) time.Duration {
	if !(perSecond > 0) {
		return leastAfter
	}
	return min(max(time.Duration(float64(ahead)/perSecond*float64(time.Second)), leastAfter), mostAfter)
}
