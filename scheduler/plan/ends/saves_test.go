package ends

import (
	"testing"
	"time"

	"github.com/skein-project/skein/cluster"
)

// TestSaves: each checkpoint is logged once, and not one right after the other.
func TestSaves(t *testing.T) {
	var s Saves
	for i, c := range []struct {
		hash byte
		at   time.Duration
		take bool
	}{
		{1, 0, true}, {1, time.Minute, false}, {2, time.Minute, true}, {3, time.Minute + time.Second, false}, {3, time.Minute + saveLeast, true}, {2, 2 * time.Minute, true},
	} {
		if got := s.Take(cluster.Hash{c.hash}, c.at); got != c.take {
			t.Errorf("%d: %t", i, got)
		}
	}
}
