package here

import (
	"errors"

	"github.com/skein-project/skein/gateway/guard"
)

// Front is a Guard behind what this host has counted itself. While the Guard is down, limits
// are those of this host alone.
type Front struct {
	guard.Guard
	here *Memory
}

// Before returns a Front. g may be here itself: then that is all.
func Before(g guard.Guard, here *Memory) *Front { return &Front{Guard: g, here: here} }

// Early says which of asks is known here to be one too many; it counts nothing and asks
// nobody.
func (f *Front) Early(asks ...guard.Ask) error { return f.here.Early(asks...) }

// Count implements guard.Guard.
func (f *Front) Count(asks ...guard.Ask) error {
	if err := f.here.Count(asks...); err != nil || f.Guard == guard.Guard(f.here) {
		return err
	}
	err := f.Guard.Count(asks...)
	if late, ok := errors.AsType[*guard.LateError](err); ok {
		for _, a := range asks {
			if a.Limit == late.Limit {
				f.here.owe(a.Limit, a.Who, late.Wait)
			}
		}
	}
	if errors.Is(err, guard.ErrDown) {
		return nil
	}
	return err
}
