package wait

import (
	"context"
	"errors"
	"testing"
)

// TestSeen looks again after each change, also after one that comes while it looks.
func TestSeen(t *testing.T) {
	changed, looks := make(chan struct{}), 0
	err := Seen(t.Context(), func() <-chan struct{} { return changed }, func() bool {
		looks++
		close(changed)
		changed = make(chan struct{})
		return looks == 3
	})
	if err != nil || looks != 3 {
		t.Errorf("%d looks, %v", looks, err)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if err := Seen(over, func() <-chan struct{} { return nil }, func() bool { return false }); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
