package stream

import (
	"testing"

	"github.com/skein-project/skein/cluster/job"
)

func TestFloorsAreBounded(t *testing.T) {
	f := Floors{}
	for i := range uint64(maxFloors + 10) {
		f.Take(job.ID("j"+string(rune(i+0x4e00))), 1, i+1)
	}
	if len(f) > maxFloors {
		t.Errorf("%d floors", len(f))
	}
	if got := f.Take(job.ID("j"+string(rune(maxFloors+9+0x4e00))), 1, 1); got != OrderStale {
		t.Errorf("the newest floor was forgotten: %d", got)
	}
	if got := f.Take("other", 2, 1); got != OrderNew {
		t.Errorf("new job: %d", got)
	}
	if got := f.Take("other", 1, 9); got != OrderStale {
		t.Errorf("lower term: %d", got)
	}
}
