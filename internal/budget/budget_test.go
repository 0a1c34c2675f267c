package budget

import (
	"testing"
	"time"
)

// TestBudget: ten tries at once, then a tenth of the calls and one a second.
func TestBudget(t *testing.T) {
	var b Budget
	now := time.Unix(1, 0)
	take := func() (n int) {
		for b.Take(now) {
			n++
		}
		return n
	}
	if n := take(); n != Most {
		t.Fatalf("%d at the beginning", n)
	}
	for range 45 {
		b.Call(now)
	}
	if n := take(); n != 4 {
		t.Fatalf("%d after 45 calls", n)
	}
	if now = now.Add(3 * time.Second); take() != 3 {
		t.Fatal("not one a second")
	}
	if now = now.Add(time.Hour); take() != Most {
		t.Fatal("an hour gives more than there is room for")
	}
}
