package sysclock

import (
	"testing"
	"time"
)

// TestClocks: they go on, and none goes back.
func TestClocks(t *testing.T) {
	for name, now := range map[string]func() time.Duration{"boot": Boot, "monotonic": Monotonic} {
		before := now()
		time.Sleep(time.Millisecond)
		if after := now(); after-before < time.Millisecond {
			t.Errorf("%s: %v, and 1 ms later %v", name, before, after)
		}
	}
}
