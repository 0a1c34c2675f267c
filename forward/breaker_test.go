package forward

import (
	"errors"
	"net"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/skein-project/skein/internal/breaker"
	"github.com/skein-project/skein/overload"
)

// TestBreakersSpareWhatEndsAnOverload: stops, drains and the lease are asked of a host though
// it did not answer lately, everything else is not; streams have a breaker of their own.
func TestBreakersSpareWhatEndsAnOverload(t *testing.T) {
	for _, op := range Operations() {
		began := time.Now()
		s := breaker.NewSet(breaker.Options{
			Now: func() time.Duration { return time.Since(began) }, Life: func(string) uint64 { return 1 },
			Jitter: func() float64 { return 0.5 }, Local: func(error) bool { return false }, Changed: func(breaker.Key, breaker.State) {},
		})
		dials := 0
		for range 7 {
			_, err := s.Dial(asking(t.Context(), op), "n2", "other", func() (net.Conn, error) { dials++; return nil, syscall.ECONNREFUSED })
			if err == nil {
				t.Fatal("it was reached")
			}
			if _, open := errors.AsType[*breaker.OpenError](err); open && dials != 5 {
				t.Errorf("%s: refused after %d dials", op.Name, dials)
			}
		}
		want := 5
		if slices.Contains([]overload.Lane{overload.Vital, overload.Control, overload.Carried}, op.Lane) {
			want = 7
		}
		kind := breaker.Forward
		if op.Streams {
			kind = breaker.Watch
		}
		if dials != want || s.Count()[kind] != 1 {
			t.Errorf("%s in lane %s: %d dials, want %d; open: %v", op.Name, op.Lane, dials, want, s.Count())
		}
	}
}
