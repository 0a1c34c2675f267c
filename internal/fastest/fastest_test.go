package fastest

import (
	"testing"
	"time"
)

func TestOf(t *testing.T) {
	took := []time.Duration{9, 7, 2, 4, 5, 5}
	i := 0
	got := Of(3, 2, func() time.Duration {
		i++
		return took[i-1]
	})
	if got != 3 || i != len(took) {
		t.Errorf("%d after %d calls, want 3 after %d", got, i, len(took))
	}
}
