package tally

import (
	"sync"
	"testing"

	"github.com/skein-project/skein/load"
	"github.com/skein-project/skein/load/stat"
)

// What many count while it is taken now and then is all there, once.
func TestShard(t *testing.T) {
	const users, each = 8, 500
	s, sum := New(2, 0), stat.NewBank(2, 0)
	take := func() {
		b := s.Swap()
		sum.Add(b)
		b.Reset()
	}
	var wait sync.WaitGroup
	for range users {
		wait.Go(func() {
			for range each {
				s.Record(&stat.Sample{Series: 1, Class: load.OK, In: 3})
				s.Iteration()
				s.Drop(0)
			}
		})
	}
	done := make(chan struct{})
	go func() {
		wait.Wait()
		close(done)
	}()
	for over := false; !over; take() {
		select {
		case <-done:
			over = true
		default:
		}
	}
	if sum.Iterations != users*each || sum.Series[0].Classes[load.Dropped] != users*each || sum.Series[1].Classes[load.OK] != users*each || sum.Series[1].In != 3*users*each {
		t.Errorf("%d iterations, %+v", sum.Iterations, sum.All().Classes)
	}
}
